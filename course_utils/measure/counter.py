"""How many floating-point operations a function's matrix products take, counted as they run.

torch's own formulas do most of the work (torch.utils.flop_counter); those it lacks stand in
`formulas`. Elementwise operations, reductions and normalisations are not counted, which is the
field's convention. A product that nobody has a formula for is an error, never a silent 0.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest.mock import patch

import torch
from torch._ops import HigherOrderOperator
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from course_utils.arguments import function
from course_utils.measure.formulas import FORMULAS, VECTORS, as_matrix_product, is_hidden
from course_utils.measure.guard import alone
from course_utils.measure.watch import QUERIES
from course_utils.table import Result, Table, table

# Names of operations that multiply matrices or factor them; those with a formula are counted.
PRODUCT = re.compile(
    r"(^|_)(\w*mm|\w*mv|matmul|v?dot|addr|linear|conv(?!ert)\w*|rnn\w*|lstm\w*|gru\w*"
    r"|attention\w*|transformer\w*|trilinear|kron|[cp]dist\w*|euclidean_dist|lstsq|(sp)?solve\w*"
    r"|affine_grid\w*|inv|pinv|det|slogdet|matrix_exp|qr|svd|eigh?|eigvalsh?|cholesky\w*|lu|ldl\w*"
    r"|geqrf|or[gm]qr|householder\w*)(_|$)"
)

# torch's own operators, whose products PRODUCT finds by name, and those that only move data.
NAMESPACES = {"aten", "prim", "prims", "profiler", "c10d", "_c10d_functional"}


class UncountedOperation(RuntimeError):
    """An operation ran whose products cannot be counted; the message names it."""


@dataclass(frozen=True, repr=False)
class Flops(Result):
    """FLOPs of one call: a multiply-add counts as 2. `by_op` maps operations to their FLOPs."""

    forward: int
    backward: int
    by_op: dict[str, int] = field(default_factory=dict, hash=False)
    unit: str = "FLOPs"

    @property
    def total(self) -> int:
        """FLOPs forward and backward."""
        return self.forward + self.backward

    @property
    def value(self) -> int:
        """The number to compare with a prediction: the total."""
        return self.total

    def shown(self) -> Table:
        """The phases and the operations, each with its exact count."""
        rows = [("forward", f"{self.forward:,}"), ("backward", f"{self.backward:,}")]
        rows += [(f"  {name}", f"{count:,}") for name, count in self.by_op.items()]
        return table(("FLOPs", f"{self.total:,}"), rows)


def flops(fn: Callable[[], object]) -> Flops:
    """Count the FLOPs of one call of `fn`, forward and backward apart.

    Works for tensors on any device, and for meta and fake tensors, where nothing is computed.
    Conventions: causal attention counts in full; attention's backward counts what its kernel does
    (2.5 × forward with flash, which recomputes; 2 × in the plain form); outer and dot products are
    matrix products with inner or outer size 1. As in torch, a multiply-add of integers or complex
    numbers is 2 as well (the complex one takes 8 real FLOPs). What torch computes by elementwise
    products and sums is 0: norms, cosine_similarity, weighted embedding_bag; so is an FFT.

    Not seen: other Python threads, and what runs outside torch's operators (NumPy, Triton).
    Raises `UncountedOperation` for a product without a formula (torch.linalg.vecdot and torch.kron
    too) and where products cannot be seen: sparse and nested tensors, TorchScript, operators that
    are not torch's own. An error that `fn` raises reaches the caller unchanged.
    """
    function("fn", fn, "flops(lambda: x @ w)")
    counter, products = _Counter(), _MatrixProducts()
    with alone("flops"), _everywhere(products), products, counter:
        fn()
    by_op = counter.forward + counter.backward
    ordered = dict(sorted(by_op.items(), key=lambda item: (-item[1], item[0])))
    return Flops(counter.forward.total(), counter.backward.total(), ordered)


class _Counter(TorchDispatchMode):
    """Adds up the formula of every operation that reaches torch's dispatcher."""

    supports_higher_order_operators = True  # to refuse them by name

    def __init__(self) -> None:
        super().__init__()
        self.forward: Counter[str] = Counter()
        self.backward: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Callable, types: object, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        with torch._C.DisableTorchFunction():  # `products` are for calls, not for what they run
            return self._counted(func, args, kwargs or {})

    def _counted(self, func: Callable, args: tuple, kwargs: dict[str, object]) -> object:
        if func in QUERIES:
            return func(*args, **kwargs)
        if isinstance(func, HigherOrderOperator):
            raise _uncounted(func.name(), "hides the products of the functions it gets")
        formula, name = FORMULAS.get(func.overloadpacket), func.overloadpacket.__name__
        if kind := _not_dense(args, kwargs, formula is None):
            raise _uncounted(name, f"of a {kind} tensor is not counted, of a dense one it is")
        if formula is None:
            with self:  # an operation made of others: count those
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
            if func.namespace not in NAMESPACES:
                raise _uncounted(f"{func.namespace}::{name}", "hides its products, if it has any")
            if PRODUCT.search(name):
                raise _uncounted(name)
        out = func(*args, **kwargs)
        if func in VECTORS and torch.is_grad_enabled():
            raise _uncounted(name, "hides the FLOPs of its backward here")
        if formula is not None:
            count = formula(*args, **kwargs, out_val=out)
            (self.backward if _in_backward() else self.forward)[name] += count
        return out


class _MatrixProducts(TorchFunctionMode):
    """Runs products that involve vectors as products of matrices, so that they are counted.

    While it is on, nn.TransformerEncoderLayer stays off its fused path, which hides its products.
    """

    def __torch_function__(
        self, func: Callable, types: object, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        kwargs = kwargs or {}
        if is_hidden(func, kwargs):
            raise _uncounted(func.__name__)
        made = as_matrix_product(func, args, kwargs)
        return func(*args, **kwargs) if made is None else made


@contextmanager
def _everywhere(products: _MatrixProducts) -> Iterator[None]:
    """Have `products` in what backward calls (checkpoints, hooks) too, and refuse TorchScript.

    torch leaves a function mode while it runs backward, and shows it nothing of a script.
    Needs torch.autograd.graph._engine_run_backward.
    """
    engine = torch.autograd.graph._engine_run_backward

    def backward(*args: object, **kwargs: object) -> object:
        with products:
            return engine(*args, **kwargs)

    def script(*_: object, **__: object) -> None:
        raise _uncounted("TorchScript", "hides its products")

    with (
        patch.object(torch.autograd.graph, "_engine_run_backward", backward),
        patch.object(torch.autograd, "_engine_run_backward", backward),
        patch.object(torch._C.ScriptFunction, "__call__", script),
        patch.object(torch._C.ScriptMethod, "__call__", script),
    ):
        yield


def _not_dense(args: tuple, kwargs: dict[str, object], sparse_too: bool) -> str:
    """The kind of the first operand that is nested, or sparse unless those are fine; else ""."""
    for x in (*args, *kwargs.values()):
        if isinstance(x, torch.Tensor):
            if x.is_nested:
                return "nested"
            if not sparse_too and x.layout is not torch.strided:
                return str(x.layout)
    return ""


def _uncounted(name: str, why: str = "is a product without a FLOP formula") -> UncountedOperation:
    return UncountedOperation(
        f"{name} {why}; write the computation with "
        "@, einsum, linear, conv or scaled_dot_product_attention"
    )


def _in_backward() -> bool:
    """Whether autograd's engine runs on this thread. Needs torch._C._current_graph_task_id."""
    return torch._C._current_graph_task_id() != -1
