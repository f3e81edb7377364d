"""The FLOP counter at the edges: code inside backward, unusual calls, and what it refuses."""

import re
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from course_utils import measure
from tests.test_flops import counted, leaf, trained

# torch's own: TorchScript is deprecated, nested and CSR tensors are young.
pytestmark = pytest.mark.filterwarnings("ignore:.*(deprecated|beta state|prototype)")

A, W, U, V = leaf(5, 7), leaf(7, 4), leaf(5), leaf(7)
I5, I7, B5 = torch.arange(5), torch.arange(7), torch.arange(5) > 1
X, SQUARE = torch.randn(3, 7), torch.randn(7, 7)


# Python code that backward runs


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize(
    ("product", "operands", "forward"),
    [
        (torch.outer, (U, V), 70),
        (torch.matmul, (A, V), 70),
        (torch.matmul, (A, W), 280),
        (partial(torch.einsum, "bi,bj->bij"), (leaf(2, 3), leaf(2, 4)), 48),
    ],
)
def test_a_checkpoint_computes_vector_products_again(reentrant, product, operands, forward):
    def block(*tensors):
        return product(*tensors).exp()

    step = partial(checkpoint, block, *operands, use_reentrant=reentrant)
    assert trained(step) == (forward, 3 * forward)
    assert counted(lambda: torch.autograd.backward(step().sum())) == (forward, 3 * forward)


class MatrixVector(torch.autograd.Function):
    """A matrix-vector product whose backward is Python."""

    @staticmethod
    def forward(ctx, a, v):
        ctx.save_for_backward(a, v)
        return a @ v

    @staticmethod
    def backward(ctx, g):
        a, v = ctx.saved_tensors
        return torch.outer(g, v), a.T @ g


def test_a_backward_of_ones_own():
    assert trained(lambda: MatrixVector.apply(A, V)) == (70, 140)


def test_a_hook():
    def hooked():
        y = A @ V
        y.register_hook(lambda g: torch.outer(g, V.detach()).sum(1))
        return y

    assert trained(hooked) == (70, 140 + 70)


def test_what_was_replaced_while_counting_is_put_back():
    places = [(torch.autograd, "_engine_run_backward"), (torch._C.ScriptFunction, "__call__")]
    before = [getattr(*place) for place in places]
    trained(lambda: A @ V)
    with pytest.raises(ZeroDivisionError):
        measure.flops(lambda: 1 / 0)
    assert [getattr(*place) for place in places] == before
    assert torch.equal(torch.jit.script(torch_outer)(I5, I7), torch.outer(I5, I7))


# Calls in another form


@pytest.mark.parametrize(
    ("product", "forward"),
    [
        (lambda: torch.outer(U, V, out=None), 70),
        (lambda: torch.matmul(A, V, out=None), 70),
        (lambda: torch.mv(A, V, out=None), 70),
        (lambda: torch.dot(V, V.detach().requires_grad_(), out=None), 14),
        (lambda: F.linear(V, A, bias=None), 70),
        (lambda: torch.ops.aten.outer(U, V), 70),
        (lambda: torch.ops.aten.mv(A, V), 70),
        (lambda: torch.ops.aten.dot.default(V, V.detach().requires_grad_()), 14),
        (lambda: torch.ops.aten.linear(V, A), 70),
        (lambda: torch.ops.aten.einsum("i,j->ij", [U, V]), 70),
        (lambda: torch.tensordot(A, V, dims=1), 70),
        (lambda: torch.tensordot(U, V, dims=0), 70),
    ],
)
def test_other_forms_of_a_vector_product(product, forward):
    assert trained(product) == (forward, 2 * forward)


def test_a_full_contraction_without_gradients():
    with torch.no_grad():
        assert counted(lambda: torch.tensordot(A, A, dims=2)) == (70, 0)


# Counting changes no result


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize(
    ("product", "forward"),
    [
        (lambda: torch.outer(I5, V), 70),
        (lambda: torch.outer(I5, I7), 70),
        (lambda: torch.outer(B5, B5), 50),
        (lambda: torch.outer(U.bfloat16(), V), 70),
        (lambda: torch.outer(U, V), 70),
        (lambda: torch.einsum("i,j->ij", I5, V), 70),
        (lambda: torch.einsum("bi,bj->bij", torch.ones(2, 3).long(), torch.ones(2, 4)), 48),
        (lambda: torch.einsum("i,j->ij", B5, B5), 50),
        (lambda: torch.einsum("ij,jk->ik", U[:, None], V[None, :].double()), 70),
        (lambda: torch.einsum("i,i->i", torch.ones(1).int(), I5.int()), 0),
        (lambda: torch.mv(A, V), 70),
        (lambda: torch.dot(V, V), 14),
        (lambda: torch.inner(V, SQUARE), 98),
        (lambda: A @ V, 70),
    ],
)
def test_the_result_is_that_of_the_plain_call(product, forward, autocast):
    results = []
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        assert counted(lambda: results.append(product())) == (forward, 0)
        torch.testing.assert_close(results[0], product())


def test_only_the_operand_with_a_gradient_costs_a_backward():
    assert trained(lambda: torch.outer(I5, V)) == (70, 70)
    assert trained(lambda: torch.einsum("bi,bj->bij", I5[None], V[None])) == (70, 70)


def test_integers_that_have_no_data():
    with torch.device("meta"):
        mask = torch.ones(5, dtype=torch.bool)
        assert counted(lambda: torch.outer(mask, mask)) == (50, 0)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: torch.mv(leaf(2, 5, 7), V),
        lambda: torch.mv(V, V),
        lambda: torch.ops.aten.mv(A, V, V),
        lambda: torch.ops.aten.mv(A, 2),
        lambda: 2 @ A,
        lambda: torch.outer(A, V),
        lambda: torch.outer(A, W),
        lambda: torch.dot(U, V),
        lambda: torch.dot(A, V),
        lambda: torch.dot(V, V.double()),
        lambda: A @ U,
        lambda: A @ V.double(),
        lambda: V @ A,
        lambda: F.linear(U, A),
        lambda: F.linear(U, V),
    ],
)
def test_a_wrong_call_gets_torchs_own_error(wrong):
    with pytest.raises((RuntimeError, TypeError)) as plain:
        wrong()
    with pytest.raises(plain.type, match=re.escape(str(plain.value))):
        measure.flops(wrong)


# What is refused


def refused(fn, words):
    with pytest.raises(measure.UncountedOperation, match=words):
        measure.flops(fn)


@pytest.mark.parametrize(
    ("fn", "name"),
    [
        (lambda: torch.outer(I5, I7, out=torch.empty(5, 7).long()), "outer"),
        (lambda: torch.ger(I5, I7, out=torch.empty(5, 7).long()), "ger"),
        (lambda: torch.ops.aten.einsum("i,j->ij", [U, V], path=[0, 1]), "einsum"),
        (lambda: torch.ops.aten.kron(A, A), "kron"),
        (lambda: torch.ops.aten.linalg_vecdot(A, A), "vecdot"),
        (lambda: F.affine_grid(torch.ones(2, 2, 3), [2, 3, 4, 4], False), "affine_grid"),
    ],
)
def test_a_product_that_runs_as_other_operations(fn, name):
    refused(fn, rf"{name}\w* is a product without")


def autocast_dot():
    with torch.autocast("cpu", torch.bfloat16):
        return torch.dot(V, V)


@pytest.mark.parametrize(
    "fn",
    [
        lambda: torch.tensordot(V, V, dims=1),
        lambda: torch.tensordot(A, A, dims=2),
        lambda: F.linear(A, V),
        autocast_dot,
    ],
)
def test_a_vector_product_whose_backward_is_out_of_sight(fn):
    refused(fn, "(dot|mv) hides the FLOPs of its backward")


EYE = torch.eye(5).to_sparse()


@pytest.mark.parametrize(
    "fn",
    [
        lambda: EYE @ A,
        lambda: EYE @ U,
        lambda: EYE @ EYE,
        lambda: torch.eye(5).to_sparse_csr() @ A.detach(),
        lambda: torch.addmm(torch.zeros(5, 7), EYE, A),
        lambda: torch.bmm(torch.ones(2, 5, 5).to_sparse(), torch.ones(2, 5, 3)),
        lambda: F.linear(torch.ones(3, 5), EYE),
    ],
)
def test_sparse_operands(fn):
    refused(fn, r"mm of a torch\.sparse_\w+ tensor")


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors(layout):
    nested = torch.nested.nested_tensor([X, X[:2]], layout=layout)
    refused(lambda: F.linear(nested, A), "linear of a nested tensor")
    refused(lambda: nested * 2, "mul of a nested tensor")


def test_operators_that_are_not_torchs_own():
    @torch.library.custom_op("course_tests::block", mutates_args=())
    def block(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x @ w

    library = torch.library.Library("course_tests", "FRAGMENT")
    library.define("ffn(Tensor x, Tensor w) -> Tensor")
    library.impl("ffn", torch.matmul, "CPU")
    library.define("open(Tensor x, Tensor w) -> Tensor")
    library.impl("open", torch.matmul, "CompositeImplicitAutograd")
    refused(lambda: block(X, W.detach()), "course_tests::block")
    refused(lambda: torch.ops.course_tests.ffn(X, W.detach()), "course_tests::ffn")
    with torch.inference_mode():  # made of torch's own operations, so counted
        assert counted(lambda: torch.ops.course_tests.open(X, W)) == (2 * 3 * 7 * 4, 0)


def test_a_profilers_mark_is_no_product():
    def marked():
        with torch.profiler.record_function("a mark"):
            return A @ V

    assert counted(marked) == (70, 0)


def torch_outer(a, b):
    return torch.outer(a, b)


def test_torchscript():
    script = torch.jit.script(torch_outer)
    traced = torch.jit.trace(nn.Linear(7, 4), X)
    conv = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU()).eval()
    fast = torch.jit.optimize_for_inference(torch.jit.script(conv))
    for fn in (lambda: script(U, V), lambda: traced(X), lambda: fast(torch.ones(1, 2, 5, 5))):
        refused(fn, "TorchScript hides its products")


def test_operations_on_functions():
    def branch(x):
        return x @ W.detach()

    refused(lambda: torch.cond(torch.tensor(True), branch, branch, (X,)), "cond hides the products")


def test_a_count_can_be_a_key():
    assert len({measure.flops(lambda: A @ V), measure.flops(lambda: A @ V)}) == 1
