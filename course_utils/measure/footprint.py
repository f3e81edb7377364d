"""Bytes that a training step holds, by what they are for, counted storage by storage.

Storages are counted, not tensors: views share one, and a scalar may keep a large one alive. The
count is exact on the processor and for fake and meta tensors. On CUDA, and wherever an allocator
keeps statistics, the peak is what the storages held when the step began, plus the growth of the
allocator's peak since then, which includes its blocks of 512 bytes and workspaces; what no storage
explains counts as temporaries at the peak. For that, its statistics of the peak are reset.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field

import torch

from course_utils import units
from course_utils.arguments import count, finished, function
from course_utils.measure import private
from course_utils.measure.guard import alone
from course_utils.measure.storages import CATEGORIES, Event, StorageTracker
from course_utils.table import Result, Table, table


@dataclass(frozen=True, repr=False)
class Memory(Result):
    """Bytes at the moment of the peak; the categories add up to it.

    `gradients` are what the parameters hold as `.grad` (the results of torch.autograd.grad are
    temporaries until they are assigned to it), `activations` what autograd keeps for the backward
    pass, `inputs` what existed before and belongs to no other category. `largest` has each
    category's own maximum, `timeline` one event for every change.
    """

    parameters: int
    gradients: int
    optimizer: int
    activations: int
    inputs: int
    temporaries: int
    largest: dict[str, int] = field(default_factory=dict, hash=False)
    timeline: tuple[Event, ...] = ()
    unit: str = "B"

    @property
    def peak(self) -> int:
        """The most bytes held at once."""
        return sum(self.parts().values())

    @property
    def value(self) -> int:
        """The number to compare with a prediction: the peak."""
        return self.peak

    def parts(self) -> dict[str, int]:
        """Bytes at the peak by category."""
        return {name: getattr(self, name) for name in CATEGORIES}

    def shown(self) -> Table:
        """Each category at the peak and at its own maximum, in exact bytes."""
        rows = [
            (name, f"{held:,}", f"{self.largest.get(name, 0):,}")
            for name, held in self.parts().items()
        ]
        peak = ("together", f"{self.peak:,}", units.size(self.peak))
        return table(("bytes", "at the peak", "at most"), [*rows, peak])


def memory(step: Callable[[], object], *, warm_steps: int = 1) -> Memory:
    """Run `step` and report the bytes it holds at its peak, by category.

    `step` is one training step: forward, backward, optimizer. It runs `warm_steps` times before
    the measured one, since an optimizer's state exists only after its first step and is held
    during the second one's forward pass. What those steps made and left alive is held from the
    start of the measured one. A tensor counts as a parameter if it is an nn.Parameter, or a leaf
    that requires a gradient, which an operation reads, or if an optimizer updates it. Work in other
    threads is not seen.

    An error that `step` raises reaches the caller unchanged. Raises NotImplementedError for what
    cannot be watched: torch.func's gradients, and tensors without an accessible storage (layout
    mkldnn).
    """
    function("step", step, "memory(lambda: train_one_batch())")
    warm = count("warm_steps", warm_steps, at_least=0)
    with alone("memory"), closing(StorageTracker()) as tracker, _torch_func_explained():
        for _ in range(warm):
            with tracker.learning():
                finished("step", step())
        with tracker.measuring(), _Growth(tracker.device if warm else _in_use()) as growth:
            finished("step", step())
    return _report(tracker, growth.nbytes if tracker.device == growth.device else 0)


@contextmanager
def _torch_func_explained() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if "torch.func" not in str(error) or "saved tensor hooks" not in str(error):
            raise
        raise NotImplementedError(
            "measure.memory cannot watch torch.func's grad, vjp, jacrev and hessian, which refuse "
            "the hooks that tell what autograd saves: compute the gradient with backward() or "
            "torch.autograd.grad in the step that you measure"
        ) from error


def _in_use() -> str:
    """The accelerator that this process has begun to use, else 'cpu'; asking starts none."""
    if not torch.accelerator.is_available():
        return "cpu"
    kind = torch.accelerator.current_accelerator().type
    begun = getattr(torch.get_device_module(kind), "is_initialized", lambda: True)
    return kind if begun() else "cpu"


class _Growth:
    """A `with` block; afterwards `nbytes` is the allocator's peak less what it held before.

    Its statistics of the peak are reset, and only if `device` is one whose allocator keeps them.
    """

    NEEDED = ("synchronize", "reset_peak_memory_stats", "memory_allocated", "max_memory_allocated")

    def __init__(self, device: str) -> None:
        self.device, self.nbytes = device, 0
        known = None if device in ("cpu", "meta") else torch.get_device_module(device)
        self.allocator = known if all(hasattr(known, name) for name in self.NEEDED) else None

    def __enter__(self) -> "_Growth":
        if self.allocator is not None:
            self.allocator.synchronize()
            self.allocator.reset_peak_memory_stats()
            self.before = self.allocator.memory_allocated()
        return self

    def __exit__(self, *_: object) -> None:
        if self.allocator is not None:
            self.allocator.synchronize()
            self.nbytes = self.allocator.max_memory_allocated() - self.before


def _report(tracker: StorageTracker, growth: int) -> Memory:
    """What was held at the first moment of the peak, with what the allocator's `growth` adds."""
    events = tracker.events
    peak = max(events, key=lambda event: event.total).parts
    peak["temporaries"] += max(0, events[0].total + growth - sum(peak.values()))
    largest = {name: max(event.parts[name] for event in events) for name in CATEGORIES}
    return Memory(**peak, largest=largest, timeline=tuple(events))


def fake() -> AbstractContextManager:
    """Inside this block every new tensor is fake: operations give the right shape, and no numbers.

    `measure.memory` counts their bytes as if they were real, so that a model too large for this
    machine can be accounted for. Unlike meta tensors they keep their device, and run the operations
    that it would run.
    """
    return private.fake_tensors()
