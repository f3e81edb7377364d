"""What the processes of a group send each other: collectives by kind, size and group."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from course_utils.arguments import finished, function, one_of
from course_utils.measure import private
from course_utils.measure.dispatch import Dispatch, tensors
from course_utils.measure.guard import alone
from course_utils.table import Result, Table, table

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "broadcast", "send", "receive")
# How torch calls them, and where the whole tensor is among what comes in and goes out.
CALLS = {
    "c10d::allreduce_": ("all-reduce", 0),
    "c10d::allreduce_coalesced_": ("all-reduce", 0),
    "c10d::_allgather_base_": ("all-gather", 0),
    "c10d::allgather_": ("all-gather", 0),
    "c10d::allgather_into_tensor_coalesced_": ("all-gather", 0),
    "c10d::_reduce_scatter_base_": ("reduce-scatter", 1),
    "c10d::reduce_scatter_": ("reduce-scatter", 1),
    "c10d::reduce_scatter_tensor_coalesced_": ("reduce-scatter", 1),
    "c10d::broadcast_": ("broadcast", 0),
    "c10d::send": ("send", 0),
    "c10d::recv_": ("receive", 0),
    "_c10d_functional::all_reduce": ("all-reduce", 0),
    "_c10d_functional::all_reduce_": ("all-reduce", 0),
    "_c10d_functional::all_gather_into_tensor": ("all-gather", None),
    "_c10d_functional::reduce_scatter_tensor": ("reduce-scatter", 0),
    "_c10d_functional::broadcast": ("broadcast", 0),
}
SILENT = {
    "c10d::barrier", "c10d::monitored_barrier_", "_c10d_functional::wait_tensor",
    "_c10d_functional::_wrap_tensor_autograd",
}  # fmt: skip


@dataclass(frozen=True)
class Exchange:
    """A kind of collective on tensors of `nbytes` in a group of `devices`, and how often it ran.

    `nbytes` is the whole tensor: what every process has before a reduction, and after a gathering.
    """

    kind: str
    nbytes: int
    devices: int
    count: int


@dataclass(frozen=True, repr=False)
class Collectives(Result):
    """What one process took part in, in the order in which it first came."""

    rows: tuple[Exchange, ...]

    def nbytes(self, kind: str) -> int:
        """Bytes of all whole tensors of this kind together; 0 if there was none."""
        one_of("kind", kind, KINDS)
        return sum(row.count * row.nbytes for row in self.rows if row.kind == kind)

    def shown(self) -> Table:
        """Kind, bytes of the whole tensor, processes in the group, and number of calls."""
        rows = [
            (row.kind, f"{row.nbytes:,}", str(row.devices), str(row.count)) for row in self.rows
        ]
        return table(("collective", "whole tensor, B", "processes", "times"), rows)


def collectives(fn: Callable[[], object]) -> Collectives:
    """Run `fn` once and list the collectives that this process took part in.

    Those of torch.distributed are seen, as DistributedDataParallel, fully_shard and DTensor call
    them, in the forward and the backward pass; barriers move nothing and are left out. Raises
    NotImplementedError for one that is not known. An error that `fn` raises reaches the caller.
    """
    function("fn", fn, "collectives(lambda: loss(model(x), y).backward())")
    watcher = _Watcher()
    with alone("collectives"), watcher:
        finished("fn", fn())
    return Collectives(tuple(Exchange(*key, count) for key, count in watcher.seen.items()))


class _Watcher(Dispatch):
    """Counts collectives by kind, bytes and size of the group."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[tuple[str, int, int]] = Counter()

    def operation(self, func: Callable, args: tuple, kwargs: dict[str, object]) -> object:
        out = func(*args, **kwargs)
        name = func.name().partition(".")[0]
        if "c10d" in name and name not in SILENT:
            if name not in CALLS:
                raise NotImplementedError(f"measure.collectives does not know {name}")
            kind, place = CALLS[name]
            whole = tensors(out if place is None else args[place])
            key = kind, sum(map(_nbytes, whole)), private.group_size((args, kwargs))
            self.seen[key] += 1
        return out


def _nbytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
