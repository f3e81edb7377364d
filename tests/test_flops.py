"""The FLOP counter against counts made by hand: exact, or an error that names the operation."""

from contextlib import contextmanager
from functools import partial
from itertools import chain
from math import prod
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from course_utils import measure
from course_utils.measure.einsum import as_matmuls
from course_utils.measure.formulas import FORMULAS

small = st.integers(1, 9)
quick = settings(max_examples=20)


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


def counted(fn):
    found = measure.flops(fn)
    assert found.total == sum(found.by_op.values()) == found.value
    return found.forward, found.backward


def trained(fn):
    """Forward and backward FLOPs of `fn` with its result summed as the loss."""
    return counted(lambda: fn().sum().backward())


# Linear layers and matrix products


@quick
@given(small, small, st.lists(small, min_size=2, max_size=5), st.booleans(), st.booleans())
def test_a_stack_of_linears_on_a_3d_input(batch, length, widths, bias, wanted):
    layers = [nn.Linear(m, n, bias=bias) for m, n in zip(widths, widths[1:], strict=False)]
    x = torch.randn(batch, length, widths[0], requires_grad=wanted)
    each = [2 * batch * length * layer.weight.numel() for layer in layers]
    backward = 2 * sum(each) - (0 if wanted else each[0])
    assert trained(lambda: nn.Sequential(*layers)(x)) == (sum(each), backward)


@quick
@given(small, small, small, st.lists(small, max_size=2))
def test_a_matrix_product(m, k, n, batch):
    x, w = leaf(*batch, m, k), leaf(k, n)
    once = 2 * prod(batch) * m * k * n
    assert trained(lambda: x @ w) == (once, 2 * once)
    assert trained(lambda: torch.matmul(input=x, other=w)) == (once, 2 * once)


A, U, V = leaf(5, 7), leaf(5), leaf(7)


@pytest.mark.parametrize(
    ("product", "forward"),
    [
        (lambda: A @ V, 70),
        (lambda: A.mv(V), 70),
        (lambda: torch.mv(A, V), 70),
        (lambda: torch.matmul(input=A, other=V), 70),
        (lambda: U @ A, 70),
        (lambda: A.expand(3, 5, 7) @ V, 210),
        (lambda: V @ A.T.expand(3, 7, 5), 210),
        (lambda: V @ V.detach().requires_grad_(), 14),
        (lambda: torch.dot(V, V.detach().requires_grad_()), 14),
        (lambda: torch.inner(V, V.detach().requires_grad_()), 14),
        (lambda: torch.outer(U, V), 70),
        (lambda: torch.outer(input=U, vec2=V), 70),
        (lambda: F.linear(V, A), 70),
        (lambda: F.linear(V, A, U), 70),
        (lambda: F.linear(V, weight=A, bias=U), 70),
        (lambda: torch.einsum("bi,bj->bij", A, A.detach().requires_grad_()), 490),
        (lambda: torch.einsum("i,j->ij", U, V), 70),
        (lambda: torch.einsum("i,j", U, V), 70),
        (lambda: torch.einsum(U, [0], V, [1], [0, 1]), 70),
        (lambda: torch.einsum("... i, ... j -> ... i j", [A, A.detach().requires_grad_()]), 490),
    ],
)
def test_vectors_count_as_matrices(product, forward):
    assert trained(product) == (forward, 2 * forward)


def test_a_matrix_vector_product_into_a_given_result():
    with torch.no_grad():
        assert counted(lambda: torch.mv(A, V, out=torch.empty(5))) == (70, 0)


def of_pair(left, right, needed, sizes):
    """FLOPs of a product of two operands: 2 × the sizes of its indices, 0 if it is elementwise."""
    alone = {i for i in set(left) ^ set(right) if i not in needed}  # summed over first
    summed = {i for i in set(left) & set(right) if i not in needed}
    outer = set(left) - set(right) - alone and set(right) - set(left) - alone
    return 2 * prod(sizes[i] for i in {*left, *right} - alone) if summed or outer else 0


def indices(draw, letters, longest):
    return "".join(draw(st.lists(st.sampled_from(letters), max_size=longest, unique=True)))


@st.composite
def einsums(draw, operands=2, letters="abcde"):
    """An einsum: (sizes, each operand's indices, the result's indices)."""
    parts = [indices(draw, letters, 4) for _ in range(operands)]
    known = sorted(set("".join(parts)))
    out = indices(draw, known, None) if known else ""
    return {i: draw(st.integers(1, 4)) for i in known}, parts, out


def random(parts, sizes):
    return [torch.randn([sizes[i] for i in part], dtype=torch.float64) for part in parts]


@settings(max_examples=100)
@given(einsums())
def test_any_einsum_of_two(case):
    sizes, parts, out = case
    forward = of_pair(*parts, out, sizes)
    operands, equation, results = random(parts, sizes), f"{','.join(parts)}->{out}", []
    assert counted(lambda: results.append(torch.einsum(equation, *operands))) == (forward, 0)
    torch.testing.assert_close(results[0], torch.einsum(equation, *operands))
    operands = [x.requires_grad_() for x in operands]
    assert trained(lambda: torch.einsum(equation, *operands)) == (forward, 2 * forward)


FROM_LEFT, FROM_RIGHT, OUTER_PAIR = ((0, 1), (0, 1)), ((1, 2), (0, 1)), ((0, 2), (0, 1))


@contextmanager
def opt_einsum(order):
    """PyTorch as if opt_einsum were installed and chose this order; None: as if it were not."""
    chooser = SimpleNamespace(contract_path=lambda *_, **__: (order, "report"))
    found = {"is_available": lambda: bool(order), "get_opt_einsum": lambda: chooser}
    backend = SimpleNamespace(**found, enabled=bool(order), strategy="auto")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.backends, "opt_einsum", backend)
        yield


def in_steps(parts, out, sizes, order):
    """FLOPs of the pairwise products in this order, by hand."""
    left, total = list(parts), 0
    for i, j in order:
        second, first = left.pop(j), left.pop(i)
        needed = {*out, *chain(*left)}
        total += of_pair(first, second, needed, sizes)
        left.append({*first, *second} & needed)
    return total


@settings(max_examples=100)
@given(einsums(3, "abcd"), st.sampled_from([None, FROM_LEFT, FROM_RIGHT, OUTER_PAIR]))
def test_any_einsum_of_three_in_any_order(case, order):
    sizes, parts, out = case
    forward, equation = in_steps(parts, out, sizes, order or FROM_LEFT), f"{','.join(parts)}->{out}"
    operands, results = random(parts, sizes), []
    with opt_einsum(order):
        assert counted(lambda: results.append(torch.einsum(equation, *operands))) == (forward, 0)
        torch.testing.assert_close(results[0], torch.einsum(equation, *operands))


@pytest.mark.parametrize(
    ("equation", "order", "forward"),
    [
        ("i,j,k->ijk", None, 2 * 6 + 2 * 24),
        ("i,j,k->ijk", FROM_RIGHT, 2 * 12 + 2 * 24),
        ("i,j,k->ijk", OUTER_PAIR, 2 * 8 + 2 * 24),
        ("i,j,jk->ik", None, 2 * 6 + 2 * 24),
        ("i,j,jk->ik", FROM_RIGHT, 2 * 12 + 2 * 8),
        ("i,i,i->i", None, 0),
        ("ij,jk,kl->il", None, 2 * 24 + 2 * 40),
        ("ij,jk,kl->il", FROM_RIGHT, 2 * 60 + 2 * 30),
        ("i,j,k,l->ijkl", None, 2 * 6 + 2 * 24 + 2 * 120),
        ("ij,jk,k,kl->il", ((1, 2), (0, 2), (0, 1)), 0 + 2 * 24 + 2 * 40),
    ],
)
def test_three_factors_and_more(equation, order, forward):
    sizes = dict(zip("ijkl", (2, 3, 4, 5), strict=True))
    operands = random(equation.partition("->")[0].split(","), sizes)
    with opt_einsum(order):
        assert counted(lambda: torch.einsum(equation, *operands)) == (forward, 0)


@pytest.mark.parametrize("order", [None, FROM_LEFT, FROM_RIGHT])
def test_torch_takes_the_order_that_is_counted(order):
    operands = random(["ij", "jk", "kl"], dict(zip("ijkl", (2, 3, 4, 5), strict=True)))
    with opt_einsum(order), FlopCounterMode(display=False) as torchs:
        torch.einsum("ij,jk,kl->il", *operands)
    with opt_einsum(order):
        found = counted(lambda: torch.einsum("ij,jk,kl->il", *operands))
    assert found == (torchs.get_total_flops(), 0)


def test_the_package_s_own_choice_is_counted_where_it_is_installed():
    a, b, c = torch.randn(50, 50), torch.randn(50, 50), torch.randn(50, 2)
    from_left, from_right = 2 * 125_000 + 2 * 5000, 2 * 2 * 5000
    expected = from_right if torch.backends.opt_einsum.is_available() else from_left
    assert counted(lambda: torch.einsum("ij,jk,kl->il", a, b, c)) == (expected, 0)


@pytest.mark.parametrize(
    ("equation", "shapes", "forward"),
    [
        ("iij,k->jk", [(3, 3, 2), (4,)], 2 * 8),  # the diagonal, summed, then an outer product
        ("bi,bj->bij", [(1, 3), (2, 4)], 2 * 24),
        ("ij,jk->ik", [(3, 1), (4, 5)], 2 * 15),  # torch sums over j first
        ("...ij,...jk", [(1, 3, 4), (2, 4, 5)], 2 * 120),
        ("bi,bj,bk->bijk", [(1, 2), (2, 3), (2, 4)], 2 * 12 + 2 * 48),
    ],
)
def test_diagonals_and_broadcast_sizes_are_counted(equation, shapes, forward):
    operands = [torch.randn(shape) for shape in shapes]
    with opt_einsum(None):
        assert counted(lambda: torch.einsum(equation, *operands)) == (forward, 0)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("iij,k->jk", [(3, 3, 2), (4,)]),
        ("...ij,...j->...i", [(2, 3, 4), (2, 4)]),
        ("...ij,...jk", [(2, 3, 4), (4, 5)]),
        ("i...,j...->ij...", [(2, 3), (4, 3)]),
        ("bi,bj", [(2, 3), (2, 4)]),
        ("Ba,aC", [(2, 3), (3, 4)]),
        ("bi,bj->bij", [(1, 3), (2, 4)]),
        ("bi,bj->ij", [(0, 3), (0, 4)]),
        ("a,ab,bc,c->", [(2,), (2, 3), (3, 4), (4,)]),
    ],
)
def test_counting_does_not_change_an_einsum(equation, shapes):
    operands, results = [torch.randn(shape, dtype=torch.float64) for shape in shapes], []
    measure.flops(lambda: results.append(torch.einsum(equation, *operands)))
    torch.testing.assert_close(results[0], torch.einsum(equation, *operands))


@pytest.mark.parametrize(
    "equation", ["ij,jk->zz", "ij,jk->ii", "ij", "i,jk->i", ".ij,jk->ik", "ij,ik->jk"]
)
def test_a_wrong_einsum_is_torchs_to_explain(equation):
    with pytest.raises(RuntimeError, match="einsum"):
        measure.flops(lambda: torch.einsum(equation, A, A.T))
    assert as_matmuls("ij,jk", [1, 2]) is None


# Chapter 05's model: two linear layers without bias, data without gradient


def two_layers(batch, d, k):
    x, w1, w2 = torch.randn(batch, d), leaf(d, d), leaf(d, k)
    return trained(lambda: x @ w1 @ w2), w1.numel() + w2.numel()


def test_chapter_05s_counts():
    assert two_layers(64, 32, 16)[0][1] == 262_144
    (forward, backward), parameters = two_layers(1024, 256, 64)
    assert backward == 201_326_592
    assert forward == 2 * 1024 * parameters
    # The rule of thumb takes the first layer's gradient of the data to be computed.
    assert round(6 * 1024 * parameters / (forward + backward), 2) == 1.36


def test_frozen_layers():
    frozen, head = nn.Linear(8, 8).requires_grad_(False), nn.Linear(8, 4)
    x = torch.randn(3, 8)
    assert trained(lambda: head(frozen(x))) == (2 * 3 * (64 + 32), 2 * 3 * 32)


def test_frozen_layers_pass_gradients_through():
    body, frozen = nn.Linear(8, 8, bias=False), nn.Linear(8, 4).requires_grad_(False)
    x, first, last = torch.randn(3, 8), 2 * 3 * 64, 2 * 3 * 32
    assert trained(lambda: frozen(body(x))) == (first + last, first + last)


@pytest.mark.parametrize(
    ("block", "units"),
    [
        (nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)), 7),  # it stops before the last layer
        (nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU()), 8),
    ],
)
def test_checkpointing(block, units):
    x, once = leaf(4, 8), 2 * 4 * 64
    forward, backward = trained(lambda: checkpoint(block, x, use_reentrant=False))
    assert (forward, forward + backward) == (2 * once, units * once)
    assert trained(lambda: checkpoint(block, x, use_reentrant=True)) == (2 * once, 6 * once)


def test_a_gradient_of_a_gradient():
    x, w = leaf(4, 8), leaf(8, 8)

    def twice():
        (g,) = torch.autograd.grad((x @ w).pow(2).sum(), w, create_graph=True)
        torch.autograd.grad(g.sum(), w)

    assert counted(twice) == (512, 3 * 512)


# Attention


def heads(b=2, h=4, t=6, s=6, d=8, kv=None):
    return leaf(b, h, t, d), leaf(b, kv or h, s, d), leaf(b, kv or h, s, d)


@quick
@given(small, st.integers(1, 4), small, small, st.sampled_from([8, 16]), st.booleans())
def test_scaled_dot_product_attention(b, h, t, s, d, causal):
    assume(not causal or t == s)
    q, k, v = heads(b, h, t, s, d)
    forward = 4 * b * h * t * s * d
    attend = partial(F.scaled_dot_product_attention, q, k, v, is_causal=causal)
    assert trained(attend) == (forward, 5 * forward // 2)
    with torch.no_grad():
        assert counted(attend) == (forward, 0)
    with torch.inference_mode():
        assert counted(attend) == (forward, 0)


def test_grouped_queries_count_every_query_head():
    q, k, v = heads(kv=2)
    attend = partial(F.scaled_dot_product_attention, q, k, v, enable_gqa=True)
    forward = 4 * 2 * 4 * 6 * 6 * 8
    assert trained(attend) == (forward, 5 * forward // 2)
    assert trained(partial(attend, is_causal=True)) == (forward, 5 * forward // 2)


KERNELS = ["flash_attention", "efficient_attention", "cudnn_attention", "flash_attention_for_cpu",
           "fused_attention_overrideable"]  # fmt: skip


def test_mps_s_linear_layer_is_counted_backward():
    """Which is one operation there: a training step on a Mac has one for each layer."""
    formula = FORMULAS[torch.ops.aten.linear_backward]
    x, grad, weight = leaf(4, 5, 8), leaf(4, 5, 3), leaf(3, 8)
    one = 2 * 4 * 5 * 8 * 3
    assert formula(x, grad, weight, [True, True, True], out_val=None) == 2 * one
    assert formula(x, grad, weight, [False, True, True], out_val=None) == one  # the first layer
    assert formula(x, grad, weight, [True, False, False], out_val=None) == one


@pytest.mark.parametrize("kernel", KERNELS)
def test_attention_s_kernels_count_the_same_on_every_device(kernel):
    """Four query heads share two of keys and values, and the values are narrower."""
    q, k, v, out = leaf(2, 4, 5, 8), leaf(2, 2, 7, 8), leaf(2, 2, 7, 6), leaf(2, 4, 5, 6)
    name, pairs = f"_scaled_dot_product_{kernel}", 2 * 4 * 5 * 7
    forward, backward = (FORMULAS[getattr(torch.ops.aten, name + end)] for end in ("", "_backward"))
    assert forward(q, k, v, out_val=out) == 2 * pairs * (8 + 6)
    assert backward(out, q, k, v, out_val=(q, k, v)) == 2 * pairs * (3 * 8 + 2 * 6)


def test_attention_with_a_mask_or_dropout():
    q, k, v = heads()
    attend, forward = F.scaled_dot_product_attention, 4 * 2 * 4 * 6 * 6 * 8
    mask = torch.ones(6, 6).tril() > 0
    assert trained(lambda: attend(q, k, v, attn_mask=mask)) == (forward, 5 * forward // 2)
    assert trained(lambda: attend(q, k, v, dropout_p=0.1)) == (forward, 2 * forward)  # plain form


def test_attention_by_hand():
    q, k, v = heads(t=5, s=7)
    forward = 4 * 2 * 4 * 5 * 7 * 8

    def attention():
        return torch.softmax(q @ k.transpose(-2, -1) / 8**0.5, dim=-1) @ v

    assert trained(attention) == (forward, 2 * forward)


def encoder(b, t, d, ff):
    """FLOPs of an encoder layer forward: its linear layers, and its attention."""
    return 2 * b * t * (4 * d * d + 2 * d * ff), 4 * b * t * t * d


@pytest.mark.parametrize(("dropout", "attention_backward"), [(0.0, 2.5), (0.1, 2.0)])
def test_an_encoder_layer(dropout, attention_backward):
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=dropout, batch_first=True)
    linears, attention = encoder(2, 10, 32, 64)
    both = linears + attention
    x = leaf(2, 10, 32)
    assert trained(lambda: layer(x)) == (both, 2 * linears + attention_backward * attention)
    layer.eval()
    with torch.no_grad():
        assert counted(lambda: layer(x)) == (both, 0)
        stack = nn.TransformerEncoder(layer, 2).eval()
        padding = torch.zeros(2, 10, dtype=torch.bool)
        assert counted(lambda: stack(x, src_key_padding_mask=padding)) == (2 * both, 0)
    with torch.inference_mode():
        assert counted(lambda: layer(x)) == (both, 0)


# Convolutions


@quick
@given(
    small,
    st.sampled_from([(2, 4, 1), (4, 6, 2), (4, 4, 4)]),
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(0, 2),
    st.booleans(),
    st.booleans(),
)
def test_convolutions(batch, channels, kernel, stride, padding, transposed, wanted):
    come, go, groups = channels
    kind = nn.ConvTranspose2d if transposed else nn.Conv2d
    conv = kind(come, go, kernel, stride=stride, padding=padding, groups=groups)
    x = torch.randn(batch, come, 7, 6, requires_grad=wanted)
    places = x if transposed else conv(x)
    forward = 2 * batch * prod(places.shape[2:]) * kernel**2 * come * go // groups
    assert trained(lambda: conv(x)) == (forward, forward * (1 + wanted))


# Tensors without data, precision, modes

MODELS = {
    "linears": (lambda: nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), (2, 3, 8)),
    "conv": (lambda: nn.Conv2d(4, 6, 3, groups=2), (2, 4, 8, 8)),
    "norm": (lambda: nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8), nn.GELU()), (4, 8)),
    "vector": (lambda: nn.Linear(8, 4, bias=False), (8,)),
    "gru": (lambda: nn.GRUCell(8, 4), (2, 8)),
    "encoder": (lambda: nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True), (2, 5, 16)),
}


def of_model(name):
    make, shape = MODELS[name]
    model, x = make(), torch.randn(shape)
    return measure.flops(lambda: model(x).sum().backward())


@pytest.mark.parametrize("name", MODELS)
def test_fake_and_meta_tensors_count_as_real_ones(name):
    real = of_model(name)
    assert real.forward > 0
    with FakeTensorMode():
        fake = of_model(name)
    with torch.device("meta"):
        meta = of_model(name)
    assert fake == real
    # On meta attention has its plain form, whose backward is 2 and not 2.5 times the forward.
    half = 2 * 2 * 5 * 5 * 16 if name == "encoder" else 0
    assert (meta.forward, meta.backward) == (real.forward, real.backward - half)


def test_fake_tensors_outside_their_mode():
    with FakeTensorMode():
        a, v = leaf(5, 7), leaf(7)
        q = leaf(2, 4, 6, 8)
    assert trained(lambda: a @ v) == (70, 140)
    forward = 4 * 2 * 4 * 6 * 6 * 8
    attend = F.scaled_dot_product_attention
    assert trained(lambda: attend(q, q, q)) == (forward, 5 * forward // 2)


def test_precision_changes_no_count():
    model, x = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 4)), torch.randn(3, 8)

    def step():
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(x).sum()
        loss.backward()

    assert counted(step) == (2 * 3 * 192, 2 * 3 * (192 + 64))
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        assert counted(lambda: model(x)) == (2 * 3 * 192, 0)
    q = torch.randn(2, 4, 6, 8)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        attend = F.scaled_dot_product_attention
        assert counted(lambda: attend(q, q, q)) == (4 * 2 * 4 * 6 * 6 * 8, 0)


def test_without_gradients_nothing_is_backward():
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert counted(lambda: F.linear(V, A, U) @ A) == (140, 0)
    per_row = torch.func.vmap(lambda row: A.detach() @ row)
    assert counted(lambda: per_row(torch.ones(3, 7))) == (210, 0)


# What is not counted, and what cannot be


@pytest.mark.parametrize(
    "fn",
    [
        lambda: A + A * 2,
        lambda: torch.softmax(A, 0).exp(),
        lambda: F.layer_norm(A, (7,)),
        lambda: F.leaky_relu(A).sum(),
        lambda: F.interpolate(torch.ones(1, 1, 4, 4), scale_factor=2, mode="bilinear"),
        lambda: A.to_sparse().coalesce(),
        lambda: torch.einsum("ij,ij->ij", A, A),
        lambda: torch.einsum("ij->ji", A),
        lambda: None,
    ],
)
def test_elementwise_is_zero(fn):
    assert counted(fn) == (0, 0)


S = torch.eye(5) + torch.ones(5, 5) / 9


@pytest.mark.parametrize(
    ("fn", "name"),
    [
        (lambda: nn.LSTM(7, 3)(torch.ones(2, 7)), "rnn|lstm"),
        (lambda: nn.Bilinear(7, 3, 2)(torch.ones(2, 7), torch.ones(2, 3)), "trilinear"),
        (lambda: torch.cdist(S, S), "_cdist_forward"),
        (lambda: torch.cdist(torch.ones(30, 3), torch.ones(30, 3)), "_euclidean_dist"),
        (lambda: F.pdist(S), "_pdist_forward"),
        (lambda: torch.linalg.solve(S, S), "solve"),
        (lambda: torch.linalg.solve_triangular(S, S, upper=True), "solve_triangular"),
        (lambda: torch.linalg.inv(S), "inv"),
        (lambda: torch.linalg.det(S), "det"),
        (lambda: torch.linalg.slogdet(S), "slogdet"),
        (lambda: torch.linalg.pinv(S), "pinv"),
        (lambda: torch.linalg.svd(S), "svd"),
        (lambda: torch.linalg.eigh(S), "eigh"),
        (lambda: torch.linalg.qr(S), "qr"),
        (lambda: torch.linalg.cholesky(S), "cholesky"),
        (lambda: torch.linalg.matrix_exp(S), "matrix_exp"),
        (lambda: torch.linalg.vecdot(S, S), "vecdot"),
        (lambda: torch.vdot(V.detach(), V.detach()), "vdot"),
        (lambda: torch.addmv(U, A, V), "addmv"),
        (lambda: torch.addr(A, U, V), "addr"),
        (lambda: torch.kron(S, S), "kron"),
        (lambda: torch.sparse.mm(S.to_sparse(), S), "_sparse_addmm"),
        (lambda: torch._int_mm(S.char().repeat(8, 8), S.char().repeat(8, 8)), "_int_mm"),
    ],
)
def test_a_product_without_a_formula_is_an_error_that_names_it(fn, name):
    with pytest.raises(measure.UncountedOperation, match=rf"{name}\w* is a product without"):
        measure.flops(fn)
    assert counted(lambda: A @ V) == (70, 0)  # nothing of the failed count is left


def test_errors_reach_the_caller():
    with pytest.raises(ZeroDivisionError):
        measure.flops(lambda: A @ V + 1 / 0)
    with pytest.raises(TypeError, match="fn must be a function"):
        measure.flops(A.detach() @ V.detach())
    assert counted(lambda: A @ V) == (70, 0)


def test_counting_twice_gives_the_same_and_keeps_nothing():
    model, x = nn.Linear(8, 4), torch.randn(2, 8)
    found = [measure.flops(lambda: model(x).sum().backward()) for _ in range(2)]
    assert found[0] == found[1] and model.weight.grad is not None


def test_the_forms_of_a_count():
    found = measure.flops(lambda: (A @ V).sum().backward())
    assert "210" in repr(found) and "210" in found._repr_html_() and found.unit == "FLOPs"
    assert found.by_op == {"mm": 210}
