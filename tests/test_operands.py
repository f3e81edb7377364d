"""Which operation runs in which number format: rows known by hand, on real and on fake tensors."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from course_utils import measure
from course_utils.train import models, precision


def bf16(enabled=True):
    return torch.autocast("cpu", torch.bfloat16, enabled=enabled)


class Block(nn.Module):
    """A transformer's block and its loss, small; `fused` takes torch's attention."""

    def __init__(self, fused=True):
        super().__init__()
        self.embed, self.head = nn.Embedding(10, 8), nn.Linear(8, 10)
        self.norm1, self.norm2 = nn.LayerNorm(8), nn.LayerNorm(8)
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)
        self.fused = fused

    def forward(self, tokens):
        x = self.embed(tokens)
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        if self.fused:
            mixed = F.scaled_dot_product_attention(q, k, v)
        else:
            mixed = torch.softmax(q @ k.transpose(-1, -2) / 2, dim=-1) @ v
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        x = x + self.down(F.gelu(self.up(self.norm2(x))))
        return self.head(x)


def of_block(fused=True, cast=True, mode=torch.enable_grad, device=None):
    block = Block(fused) if device is None else Block(fused).to(device)
    tokens = torch.zeros(2, 5, dtype=torch.int64, device=device)

    def step():
        with bf16(cast):
            loss = models.next_token_loss(block(tokens), tokens)
        if loss.requires_grad:
            loss.backward()

    with mode():
        return measure.dtypes(step)


def kept(found, phase=None):
    """The rows as tuples, casts left out."""
    return [
        (row.operation, row.dtypes, row.count)
        for row in found.rows
        if row.operation != "cast" and phase in (None, row.phase)
    ]


def casts(found):
    return {(row.phase, *row.dtypes): row.count for row in found.rows if row.operation == "cast"}


LOW, HIGH, BOTH = ("bfloat16",), ("float32",), ("bfloat16", "float32")


# One product


def test_a_product_under_autocast():
    x, w = torch.randn(3, 4), torch.randn(4, 5, requires_grad=True)

    def step():
        with bf16():
            y = x @ w
        y.sum().backward()

    found = measure.dtypes(step)
    assert found.of("mm") == {"bfloat16"}
    assert ("mm", LOW, 1) in kept(found, "forward") and ("mm", LOW, 1) in kept(found, "backward")
    assert casts(found) == {
        ("forward", "float32", "bfloat16"): 2,  # x and w
        ("backward", "bfloat16", "float32"): 1,  # the gradient of w
    }


def test_without_autocast_nothing_is_cast():
    x, w = torch.randn(3, 4), torch.randn(4, 5, requires_grad=True)
    found = measure.dtypes(lambda: (x @ w).sum().backward())
    assert kept(found) == [("mm", HIGH, 1), ("sum", HIGH, 1), ("mm", HIGH, 1)]
    assert [row.phase for row in found.rows] == ["forward", "forward", "backward"]
    assert casts(found) == {}


@settings(max_examples=20)
@given(st.integers(1, 4), st.integers(1, 4), st.booleans(), st.booleans())
def test_calls_are_counted(layers, calls, bias, cast):
    model, x = nn.Sequential(*(nn.Linear(4, 4, bias=bias) for _ in range(layers))), torch.ones(2, 4)

    def forward():
        with torch.no_grad(), bf16(cast):
            for _ in range(calls):
                model(x)

    found, operation = measure.dtypes(forward), "addmm" if bias else "mm"
    assert kept(found) == [(operation, LOW if cast else HIGH, layers * calls)]
    # autocast keeps the casts of parameters only where they need a gradient
    assert ("forward", "float32", "bfloat16") in casts(found) or not cast


# A transformer's block


def test_a_block_under_autocast():
    found = of_block()
    assert kept(found, "forward") == [
        ("embedding", HIGH, 1),
        ("layer_norm", HIGH, 2),
        ("addmm", LOW, 5),
        ("scaled_dot_product_attention", LOW, 1),
        ("add", BOTH, 2),
        ("gelu", LOW, 1),
        ("log_softmax", HIGH, 1),
        ("nll_loss", HIGH, 1),
    ]
    assert sorted(kept(found, "backward")) == [
        ("add", HIGH, 2),
        ("embedding_dense_backward", HIGH, 1),
        ("gelu_backward", LOW, 1),
        ("layer_norm_backward", HIGH, 2),
        ("log_softmax_backward", HIGH, 1),
        ("mm", LOW, 10),
        ("nll_loss_backward", HIGH, 1),
        ("scaled_dot_product_attention_backward", BOTH, 1),  # it kept a sum in fp32
        ("sum", LOW, 5),  # gradients of the biases
    ]
    assert casts(found)["forward", "bfloat16", "float32"] == 1  # the scores, for the loss
    assert casts(found)["backward", "bfloat16", "float32"] >= 10  # gradients of the parameters


def test_attention_by_hand_under_autocast():
    """On the processor softmax follows its input; CUDA's autocast takes it to fp32."""
    found = of_block(fused=False)
    assert found.of("bmm") == found.of("softmax") == found.of("softmax_backward") == {"bfloat16"}
    assert found.of("log_softmax") == {"float32"}


def test_a_block_without_autocast():
    found = of_block(cast=False)
    assert {dtype for row in found.rows for dtype in row.dtypes} == {"float32"}
    assert casts(found) == {}
    with_casts = of_block(cast=True)
    assert [row[0] for row in kept(found)] == [row[0] for row in kept(with_casts)]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_all_is_forward(mode):
    assert kept(of_block(mode=mode)) == kept(of_block(), "forward")
    assert {row.phase for row in of_block(mode=mode).rows} == {"forward"}


def test_fake_tensors_read_as_real_ones():
    with measure.fake():
        fake = of_block()
    assert fake == of_block()


def test_meta_tensors_are_left_alone_by_autocast():
    found = of_block(fused=False, device="meta")
    assert casts(found) == {} and kept(found) == kept(of_block(fused=False, cast=False))


def test_a_second_run_reads_the_same():
    assert of_block() == of_block() and repr(of_block()) == repr(of_block())


def test_the_order():
    """Forward, then backward, then the casts of each."""
    rows = of_block().rows
    places = [(row.operation == "cast", row.phase == "backward") for row in rows]
    assert places == sorted(places)


# The recipes


@pytest.mark.parametrize(
    ("name", "formats"),
    [("fp32", {"float32"}), ("bf16", {"bfloat16"}), ("fp8 simulated", {"float32"})],
)
def test_recipes_that_do_not_autocast(name, formats):
    recipe = precision.choose(name)
    model, x, y = recipe.prepare(models.MLP(8, 4, 1)), torch.randn(2, 8), torch.randn(2, 1)
    found = measure.dtypes(lambda: recipe.forward(model, x, y, F.mse_loss).backward())
    assert found.of("mm") == found.of("mse_loss") == found.of("relu") == formats
    changes = {change[1:] for change in casts(found)}
    assert changes == {
        "fp32": set(),
        "bf16": {("float32", "bfloat16")},  # x and y
        "fp8 simulated": {
            ("float32", "float8_e4m3fn"), ("float8_e4m3fn", "float32"),
            ("float32", "float8_e5m2"), ("float8_e5m2", "float32"),
        },
    }[name]  # fmt: skip


# What is listed and what is not

A = torch.randn(4, 4)


@pytest.mark.parametrize(
    ("fn", "rows"),
    [
        (lambda: A.relu(), [("relu", HIGH, 1)]),
        (lambda: A.clone().relu_(), [("relu", HIGH, 1)]),
        (lambda: A.clone().add_(A.bfloat16()), [("add", BOTH, 1)]),
        (lambda: A.mean() + A.double().sum(), [("mean", HIGH, 1), ("sum", ("float64",), 1),
                                               ("add", ("float32", "float64"), 1)]),
        (lambda: F.silu(A.half()), [("silu", ("float16",), 1)]),
        (lambda: F.conv1d(A[None], A[:, :, None]), [("convolution", HIGH, 1)]),
        (lambda: torch.fft.fft(A.cfloat()), [("fft_c2c", ("complex64",), 1)]),
        (lambda: A.T.flatten()[::2].unsqueeze(0).expand(2, 8), []),
        (lambda: torch.cat([A.contiguous(), A.clone()]), []),
        (lambda: torch.zeros_like(A).fill_(2).zero_(), []),
        (lambda: torch.arange(3) + torch.arange(3), []),
        (lambda: torch.randn(3), []),
        (lambda: A.clone().normal_().uniform_().bernoulli_(), []),
        (lambda: A.sum().item(), [("sum", HIGH, 1)]),
        (lambda: A.to_sparse().sin(), [("sin", HIGH, 1)]),
        (lambda: A.to_sparse().coalesce().to_dense(), []),
        (lambda: A.to_mkldnn().to_dense(), []),
        (lambda: F.linear(torch.nested.nested_tensor([A, A[:2]], layout=torch.jagged), A),
         [("mm", HIGH, 1)]),
        (lambda: None, []),
    ],
)  # fmt: skip
def test_what_is_listed(fn, rows):
    assert kept(measure.dtypes(fn)) == rows


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (lambda: A.bfloat16(), {("forward", "float32", "bfloat16"): 1}),
        (lambda: A.to(torch.float32), {}),
        (lambda: A.to("cpu", copy=True), {}),
        (lambda: A.half().copy_(A), {("forward", "float32", "float16"): 2}),
        (lambda: A.clone().copy_(A), {}),
        (lambda: (A > 0).float(), {("forward", "bool", "float32"): 1}),
        (lambda: [A.half() for _ in range(3)], {("forward", "float32", "float16"): 3}),
    ],
)  # fmt: skip
def test_casts(fn, expected):
    assert casts(measure.dtypes(fn)) == expected


def test_the_forms():
    found = of_block()
    text, html = repr(found), found._repr_html_()
    assert text.splitlines()[0].split() == ["operation", "|", "phase", "|", "reads", "|", "times"]
    for line in ("add | forward | bfloat16 + float32 | 2", "mm | backward | bfloat16 | 10",
                 "cast | forward | bfloat16 → float32 | 1"):  # fmt: skip
        assert line in [
            " | ".join(cell.strip() for cell in row.split("|")) for row in text.splitlines()
        ]
    assert ">bfloat16 + float32</td>" in html
    assert "operation" in repr(measure.Dtypes(()))


def test_an_operation_that_did_not_run():
    found = measure.dtypes(lambda: A @ A)
    assert found.of("mm") == {"float32"}
    for name in ("softmax", "MM", "", None):
        with pytest.raises(ValueError, match="operation must be one of 'mm', got"):
            found.of(name)


# Bad input, and one instrument at a time


def test_errors_reach_the_caller():
    with pytest.raises(ZeroDivisionError):
        measure.dtypes(lambda: A @ A / (1 // 0))
    with pytest.raises(TypeError, match=r"fn must be a function, as in dtypes\(lambda: "):
        measure.dtypes(A @ A)
    assert kept(measure.dtypes(lambda: A @ A)) == [("mm", HIGH, 1)]


def test_no_instrument_inside_another():
    for outer, name in ((measure.flops, "flops"), (measure.dtypes, "dtypes")):
        with pytest.raises(
            RuntimeError, match=f"measure.dtypes must not run inside measure.{name}"
        ):
            outer(lambda: measure.dtypes(lambda: A @ A))
    with pytest.raises(RuntimeError, match=r"measure.flops must not run inside measure.dtypes"):
        measure.dtypes(lambda: measure.flops(lambda: A @ A))


def test_results_are_those_without_it():
    torch.manual_seed(0)
    block, tokens, seen = Block(), torch.zeros(2, 5, dtype=torch.int64), []
    for watch in (lambda fn: fn(), measure.dtypes):
        block.zero_grad()

        def step():
            with bf16():
                loss = models.next_token_loss(block(tokens), tokens)
            loss.backward()
            seen.append((loss.item(), block.qkv.weight.grad.clone()))

        watch(step)
    assert seen[0][0] == seen[1][0] and math.isfinite(seen[0][0])
    assert torch.equal(seen[0][1], seen[1][1])
