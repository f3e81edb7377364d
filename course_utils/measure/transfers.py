"""Bytes per second from the processor's memory to an accelerator's, by two kinds of memory.

The operating system may move or swap out a page of ordinary, *pageable* memory at any time, so the
driver first copies it to a place of its own and waits for that. *Pinned* memory stays where it is:
the device reads it by itself while the processor goes on.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from course_utils import hardware, units
from course_utils.arguments import count, positive
from course_utils.measure.bandwidth import Bandwidth
from course_utils.measure.clock import time
from course_utils.table import Result, Table, first_doubt, table

KINDS = ("pageable", "pinned")
NONE = "no accelerator here: nothing to copy to"
UNPINNED = "this accelerator has no pinned memory"


@dataclass(frozen=True, repr=False)
class HostCopies(Result):
    """Bytes per second of copies of `nbytes` bytes to `device`, from either kind of memory.

    Both are None where a processor alone computes; `pinned` is None on an accelerator that has no
    such memory.
    """

    device: str
    nbytes: int
    pageable: Bandwidth | None = None
    pinned: Bandwidth | None = None

    @property
    def doubt(self) -> str:
        """The first that either of them has."""
        return first_doubt(self.pageable, self.pinned)

    def shown(self) -> Table:
        """A row for each kind of memory, on every machine."""
        rows = [(f"{kind} memory", self._words(kind)) for kind in KINDS]
        return table(("copied from", "to the accelerator"), rows)

    def _words(self, kind: str) -> str:
        if (rate := getattr(self, kind)) is not None:
            return units.measured(units.rate(rate, unit="B/s", significant=3))
        return units.measured(NONE if self.device == "cpu" else UNPINNED)


def host_copies(
    nbytes: int = 2**26, *, device: str | torch.device | None = None, budget: float = 1.0
) -> HostCopies:
    """Time copies of `nbytes` bytes from the processor's memory to the accelerator's.

    `device` is by default the accelerator if the machine has one; without one nothing is copied,
    and the result says so. From pinned memory the copies are queued without waiting
    (`non_blocking=True`) and on CUDA timed by the device's own clock. From pageable memory the
    call itself waits, so each is timed until it is done. Each byte crosses once: the rate is
    bytes / seconds.
    """
    count("nbytes", nbytes)
    where, half = hardware.device_type(device), positive("budget", budget) / 2
    if where == "cpu":
        return HostCopies(where, nbytes)
    rates = {kind: _rate(kind, nbytes, where, half) for kind in KINDS}
    return HostCopies(where, nbytes, **rates)


def _rate(kind: str, nbytes: int, device: str, budget: float) -> Bandwidth | None:
    """None where that kind of memory cannot be had."""
    copy = _copy(kind, nbytes, device)
    if copy is None:
        return None
    took = time(copy, budget=budget, device=device)
    source = f"measured by a copy from {kind} memory"
    return Bandwidth(nbytes / took.value, "measured", source, took.doubt)


def _copy(kind: str, nbytes: int, device: str) -> Callable[[], object] | None:
    """A call that copies `nbytes` bytes; None if the device has no pinned memory."""
    source = torch.ones(nbytes, dtype=torch.uint8, device="cpu")
    target = torch.zeros(nbytes, dtype=torch.uint8, device=device)
    if kind == "pageable":
        return lambda: target.copy_(source)
    try:
        pinned = source.pin_memory()
    except RuntimeError:  # NotImplementedError among them
        return None
    return lambda: target.copy_(pinned, non_blocking=True)
