"""In which number format each operation runs: watched below autocast, which casts above it."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from course_utils.arguments import finished, function, one_of
from course_utils.measure import private
from course_utils.measure.dispatch import Dispatch, tensors
from course_utils.measure.guard import alone
from course_utils.table import Result, Table, table

CAST = "cast"
PHASES = ("forward", "backward")
aten = torch.ops.aten
_COPIES = {aten._to_copy, aten.copy_}  # casts where the format changes
# They move numbers or make new ones; views, which do neither, say so themselves.
_MOVES = {
    aten.clone, aten.cat, aten.stack, aten._unsafe_view, aten.fill_, aten.zero_,
    aten.empty_like, aten.zeros_like, aten.ones_like, aten.full_like, aten.new_empty,
    aten.new_empty_strided, aten.new_zeros, aten.new_ones, aten.new_full,
    aten.select_backward, aten.slice_backward, aten.bernoulli_, aten.normal_, aten.uniform_,
    aten._to_sparse, aten._to_sparse_csr, aten._to_sparse_csc, aten._to_dense, aten._coalesce,
    aten._sparse_coo_tensor_with_dims_and_tensors, aten.to_mkldnn,
}  # fmt: skip
# How the table calls what torch calls differently forward, backward, in place or by device.
_TIDY = (
    (r"^_?\w*scaled_dot_product\w*?(_backward)?$", r"scaled_dot_product_attention\1"),
    (r"^_?(safe_|fused_|native_|cudnn_|miopen_)?", ""),
    (r"_backward_data$", "_backward"),
    (r"(_forward|_)$", ""),
)


@dataclass(frozen=True)
class Row:
    """An operation in one phase, the formats of the floats it read, and how often it ran so.

    A cast, whose `operation` is 'cast', has two: the format it read and the one it wrote.
    """

    operation: str
    phase: str
    dtypes: tuple[str, ...]
    count: int


@dataclass(frozen=True, repr=False)
class Dtypes(Result):
    """The rows in the order in which they first ran: forward, backward, then the casts of each."""

    rows: tuple[Row, ...]

    def of(self, operation: str) -> set[str]:
        """The formats that `operation` read, of all its calls; ValueError if it did not run."""
        name = one_of("operation", operation, dict.fromkeys(row.operation for row in self.rows))
        return {dtype for row in self.rows if row.operation == name for dtype in row.dtypes}

    def shown(self) -> Table:
        """Operation, phase, formats and number of calls; a + stands between formats of one call."""
        rows = [(row.operation, row.phase, _formats(row), f"{row.count:,}") for row in self.rows]
        return table(("operation", "phase", "reads", "times"), rows)


def dtypes(fn: Callable[[], object]) -> Dtypes:
    """Run `fn` once and list which operation ran in which number format.

    Forward is all that runs outside of the backward pass. Operations are the smallest that torch
    dispatches, so that a linear layer reads addmm. Left out are those without floats, views, and
    those that only move numbers or make new ones. Works on any device, for fake tensors, and for
    meta tensors, which autocast leaves as they are. An error that `fn` raises reaches the caller
    unchanged.
    """
    function("fn", fn, "dtypes(lambda: loss(model(x), y).backward())")
    watcher = _Watcher()
    with alone("dtypes"), watcher:
        finished("fn", fn())
    found = [Row(*key, count) for key, count in watcher.seen.items()]
    found.sort(key=lambda row: (row.operation == CAST, PHASES.index(row.phase)))  # stable
    return Dtypes(tuple(found))


class _Watcher(Dispatch):
    """Counts operations by name, phase and the formats of what they read."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[tuple[str, str, tuple[str, ...]]] = Counter()

    def operation(self, func: Callable, args: tuple, kwargs: dict[str, object]) -> object:
        out = self.in_parts(func, args, kwargs)
        if out is NotImplemented:
            out = func(*args, **kwargs)
            self._note(func, tensors((args, kwargs)), tensors(out))
        return out

    def _note(self, func: Callable, reads: list[Tensor], made: list[Tensor]) -> None:
        phase, packet = PHASES[private.in_backward()], func.overloadpacket
        if packet in _COPIES:
            change = tuple(_name(tensor) for tensor in reads[-1:] + made[:1])
            if len(set(change)) == 2:
                self.seen[CAST, phase, change] += 1
        elif made and packet not in _MOVES and not func.is_view:
            floats = {_name(t) for t in reads if t.is_floating_point() or t.is_complex()}
            if floats:
                self.seen[_tidy(packet.__name__), phase, tuple(sorted(floats))] += 1


def _name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _tidy(name: str) -> str:
    for pattern, words in _TIDY:
        name = re.sub(pattern, words, name)
    return name


def _formats(row: Row) -> str:
    return (" → " if row.operation == CAST else " + ").join(row.dtypes)
