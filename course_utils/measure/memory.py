"""Bytes that a training step holds, by what they are for, counted storage by storage.

Storages are counted, not tensors: views share one, and a scalar may keep a large one alive. The
count is exact on the processor and for fake and meta tensors. On CUDA the peak is the allocator's
(blocks of 512 bytes, workspaces), and what it holds beyond the storages counts as temporaries.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from course_utils import units
from course_utils.arguments import count, function
from course_utils.measure.guard import alone
from course_utils.measure.storages import CATEGORIES, Event, StorageTracker
from course_utils.table import Table, table


@dataclass(frozen=True)
class Memory:
    """Bytes at the moment of the peak; the categories add up to it.

    `inputs` are tensors that existed before and are neither of the others, `activations` what
    autograd keeps for the backward pass. `largest` has each category's own maximum, `timeline` one
    event for every change.
    """

    parameters: int
    gradients: int
    optimizer: int
    activations: int
    inputs: int
    temporaries: int
    largest: dict[str, int] = field(default_factory=dict)
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

    def as_table(self) -> Table:
        """Each category at the peak and at its own maximum, in exact bytes."""
        rows = [
            (name, f"{held:,}", f"{self.largest.get(name, 0):,}")
            for name, held in self.parts().items()
        ]
        peak = ("together", f"{self.peak:,}", units.size(self.peak))
        return table(("bytes", "at the peak", "at most"), [*rows, peak])

    def __repr__(self) -> str:
        return repr(self.as_table())

    def _repr_html_(self) -> str:
        return self.as_table()._repr_html_()


def memory(step: Callable[[], object], *, warm_steps: int = 1) -> Memory:
    """Run `step` and report the bytes it holds at its peak, by category.

    `step` is one training step: forward, backward, optimizer. It runs `warm_steps` times before
    the measured one, since an optimizer's state exists only after its first step and is held
    during the second one's forward pass. Parameters are recognised as nn.Parameter or as leaves
    that require gradients, when an operation reads them. An error that `step` raises reaches the
    caller unchanged.
    """
    function("step", step, "memory(lambda: train_one_batch())")
    warm = count("warm_steps", warm_steps, at_least=0)
    with alone("memory"):
        tracker = StorageTracker()
        for _ in range(warm):
            with tracker.learning():
                step()
        with tracker.measuring(), _cuda_peak() as cuda:
            step()
    return _report(tracker, cuda)


class _cuda_peak:
    """The allocator's peak above what it held before, where there is CUDA."""

    extra: int | None = None

    def __enter__(self) -> "_cuda_peak":
        if torch.cuda.is_available():
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        return self

    def __exit__(self, *_: object) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
            self.extra = torch.cuda.max_memory_allocated()


def _report(tracker: StorageTracker, cuda: _cuda_peak) -> Memory:
    parts = tracker.at_peak()
    if cuda.extra is not None and tracker.device == "cuda":
        parts["temporaries"] += max(0, cuda.extra - sum(parts.values()))
    return Memory(**parts, largest=tracker.largest(), timeline=tuple(tracker.events))
