"""How many floating-point operations a function's matmuls take, counted as they run.

Every operation that reaches torch's dispatcher is looked up in `formulas`; what multiplies vectors
runs as a matmul before (`as_matmul`), so that it gets there. Elementwise operations, reductions and
normalisations are not counted, which is the field's convention. A product that nobody has a formula
for is an error, never a silent 0.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from course_utils.arguments import finished, function
from course_utils.measure import private
from course_utils.measure.as_matmul import UncountedOperation, vectors_as_matmuls
from course_utils.measure.dispatch import Dispatch
from course_utils.measure.formulas import FORMULAS, VECTORS
from course_utils.measure.guard import alone
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
    matmuls with inner or outer size 1. As in torch, a multiply-add of integers or complex
    numbers is 2 as well (the complex one takes 8 real FLOPs). What torch computes by elementwise
    products and sums is 0: norms, cosine_similarity, weighted embedding_bag; so is an FFT.

    Not seen: other Python threads, and what runs outside torch's operators (NumPy, Triton). A
    function of torch.compile is counted uncompiled, and torch then leaves it so, unless it was
    called before: call it once and count afterwards, or compile it anew.
    Raises `UncountedOperation` for a product without a formula (torch.linalg.vecdot and torch.kron
    too) and where products cannot be seen: sparse and nested tensors, TorchScript, operators that
    are not torch's own. An error that `fn` raises reaches the caller unchanged.
    """
    function("fn", fn, "flops(lambda: x @ w)")
    counter = _Counter()
    with alone("flops"), vectors_as_matmuls(), counter:
        finished("fn", fn())
    by_op = counter.forward + counter.backward
    ordered = dict(sorted(by_op.items(), key=lambda item: (-item[1], item[0])))
    return Flops(counter.forward.total(), counter.backward.total(), ordered)


class _Counter(Dispatch):
    """Adds up the formula of every operation; refuses what may hide a product."""

    supports_higher_order_operators = True  # to refuse them by name
    opens_wrappers = False  # to refuse nested tensors by name

    def __init__(self) -> None:
        super().__init__()
        self.forward: Counter[str] = Counter()
        self.backward: Counter[str] = Counter()

    def operation(self, func: Callable, args: tuple, kwargs: dict[str, object]) -> object:
        with private.below_function_modes():  # which are for calls, not for what these run
            if private.is_higher_order(func):
                raise UncountedOperation(func.name(), "hides the products of the functions it gets")
            formula, name = FORMULAS.get(func.overloadpacket), func.overloadpacket.__name__
            if kind := _not_dense(args, kwargs, formula is None):
                why = f"of a {kind} tensor is not counted, of a dense one it is"
                raise UncountedOperation(name, why)
            if formula is None:
                return self._without_formula(func, args, kwargs)
            return self._counted(formula, func, args, kwargs)

    def _without_formula(self, func: Callable, args: tuple, kwargs: dict[str, object]) -> object:
        """Run what is made of other operations as those, and what is none as it is: 0 FLOPs."""
        out = self.in_parts(func, args, kwargs)
        if out is not NotImplemented:
            return out
        name = func.overloadpacket.__name__
        if func.namespace not in NAMESPACES:
            raise UncountedOperation(
                f"{func.namespace}::{name}", "hides its products, if it has any"
            )
        if PRODUCT.search(name):
            raise UncountedOperation(name)
        return func(*args, **kwargs)

    def _counted(
        self, formula: Callable[..., int], func: Callable, args: tuple, kwargs: dict[str, object]
    ) -> object:
        out, name = func(*args, **kwargs), func.overloadpacket.__name__
        if func in VECTORS and torch.is_grad_enabled():
            raise UncountedOperation(name, "hides the FLOPs of its backward here")
        phase = self.backward if private.in_backward() else self.forward
        phase[name] += formula(*args, **kwargs, out_val=out)
        return out


def _not_dense(args: tuple, kwargs: dict[str, object], sparse_too: bool) -> str:
    """The kind of the first operand that is nested, or sparse unless those are fine; else ""."""
    for x in (*args, *kwargs.values()):
        if isinstance(x, torch.Tensor):
            if x.is_nested:
                return "nested"
            if not sparse_too and x.layout is not torch.strided:
                return str(x.layout)
    return ""
