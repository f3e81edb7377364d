"""How many floating-point operations a function's matrix products take, counted as they run.

torch's own formulas do most of the work (torch.utils.flop_counter); those it lacks stand in
`formulas`. Elementwise operations, reductions and normalisations are not counted, which is the
field's convention. A product that nobody has a formula for is an error, never a silent 0.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from course_utils.arguments import function
from course_utils.measure.formulas import FORMULAS, UNCOUNTED, as_matrix_product
from course_utils.measure.guard import alone
from course_utils.measure.watch import QUERIES
from course_utils.table import Table, table

# Names of operations that multiply matrices or factor them; those with a formula are counted.
PRODUCT = re.compile(
    r"(^|_)(\w*mm|\w*mv|matmul|v?dot|addr|linear|conv(?!ert)\w*|rnn\w*|lstm\w*|gru\w*"
    r"|attention\w*|transformer\w*|trilinear|kron|[cp]dist\w*|euclidean_dist|lstsq|solve\w*|inv|pinv|det|slogdet"
    r"|matrix_exp|qr|svd|eigh?|eigvalsh?|cholesky\w*|lu|ldl\w*|geqrf|or[gm]qr|householder\w*)(_|$)"
)


class UncountedOperation(RuntimeError):
    """A matrix product ran for which there is no formula; the message names it."""


@dataclass(frozen=True)
class Flops:
    """FLOPs of one call: a multiply-add counts as 2. `by_op` maps operations to their FLOPs."""

    forward: int
    backward: int
    by_op: dict[str, int] = field(default_factory=dict)
    unit: str = "FLOPs"

    @property
    def total(self) -> int:
        """FLOPs forward and backward."""
        return self.forward + self.backward

    @property
    def value(self) -> int:
        """The number to compare with a prediction: the total."""
        return self.total

    def as_table(self) -> Table:
        """The phases and the operations, each with its exact count."""
        rows = [("forward", f"{self.forward:,}"), ("backward", f"{self.backward:,}")]
        rows += [(f"  {name}", f"{count:,}") for name, count in self.by_op.items()]
        return table(("FLOPs", f"{self.total:,}"), rows)

    def __repr__(self) -> str:
        return repr(self.as_table())

    def _repr_html_(self) -> str:
        return self.as_table()._repr_html_()


def flops(fn: Callable[[], object]) -> Flops:
    """Count the FLOPs of one call of `fn`, forward and backward apart.

    Works for tensors on any device, and for meta and fake tensors, where nothing is computed.
    Conventions: causal attention counts in full; attention's backward counts what its kernel does
    (2.5 × forward with flash, which recomputes; 2 × in the plain form); outer and dot products are
    matrix products with inner or outer size 1. Raises `UncountedOperation` for a product without
    a formula; an error that `fn` raises reaches the caller unchanged.
    """
    function("fn", fn, "flops(lambda: x @ w)")
    counter = _Counter()
    with alone("flops"), _MatrixProducts(), counter:
        fn()
    by_op = counter.forward + counter.backward
    ordered = dict(sorted(by_op.items(), key=lambda item: (-item[1], item[0])))
    return Flops(counter.forward.total(), counter.backward.total(), ordered)


class _Counter(TorchDispatchMode):
    """Adds up the formula of every operation that reaches torch's dispatcher."""

    def __init__(self) -> None:
        super().__init__()
        self.forward: Counter[str] = Counter()
        self.backward: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Callable, types: object, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        kwargs = kwargs or {}
        formula, name = FORMULAS.get(func.overloadpacket), func.overloadpacket.__name__
        if formula is None and func not in QUERIES:
            with self:  # an operation made of others: count those
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
            if PRODUCT.search(name):
                raise UncountedOperation(_without_formula(name))
        out = func(*args, **kwargs)
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
        if func in UNCOUNTED:
            raise UncountedOperation(_without_formula(func.__name__))
        rewritten = as_matrix_product(func, args, kwargs or {})
        return func(*args, **(kwargs or {})) if rewritten is None else rewritten()


def _without_formula(name: str) -> str:
    return (
        f"{name} is a product without a FLOP formula; write the computation with "
        "@, einsum, linear, conv or scaled_dot_product_attention"
    )


def _in_backward() -> bool:
    """Whether autograd's engine runs on this thread. Needs torch._C._current_graph_task_id."""
    return torch._C._current_graph_task_id() != -1
