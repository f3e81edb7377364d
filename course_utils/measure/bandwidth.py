"""Bytes per second between memory and processor: the datasheet's, or those of a copy."""

from dataclasses import dataclass

import psutil
import torch

from course_utils import hardware, units
from course_utils.arguments import positive
from course_utils.measure.clock import Time, time
from course_utils.measure.quantity import Measured

LARGE = 128 * 2**20  # bytes of a copied tensor; two fit beside a chapter's work into 1 GB
CACHES = 4  # on CUDA it has at least so many times the size of the L2 cache


@dataclass(frozen=True, repr=False)
class Bandwidth(Measured):
    """Bytes per second between memory and processor; `kind` is 'datasheet' or 'measured'."""

    value: float
    kind: str
    source: str
    doubt: str = ""

    def shown(self) -> str:
        """The rate and where it comes from, on one line."""
        where = "from the datasheet" if self.kind == "datasheet" else self.source
        words = f"{units.rate(self.value, unit='B/s', significant=3)}, {where}"
        return units.measured(units.unsure(words, self.doubt))


def reference_bandwidth(
    device: str | torch.device | None = None, *, budget: float = 0.5
) -> Bandwidth:
    """The memory bandwidth to compare with: the datasheet's if it has one, else a measured one.

    See `measured_bandwidth`.
    """
    positive("budget", budget)
    where, promised = hardware.device_type(device), hardware.promise()
    if promised and where == hardware.backend():
        return Bandwidth(promised.bandwidth, "datasheet", promised.source)
    return measured_bandwidth(where, budget=budget)


def measured_bandwidth(
    device: str | torch.device | None = None, *, budget: float = 0.5
) -> Bandwidth:
    """Memory bandwidth as copies within this machine's memory reach it.

    A copy reads and writes each byte, so its rate is 2 × bytes / seconds. The tensors must be
    larger than the caches: on CUDA they have four times the size of the L2 cache or 128 MiB, if
    that is more; elsewhere 128 MiB, or 64 where memory is scarce. (Beside a cache of 480 MB that
    a server shares, 64 MiB were copied at 25 GB/s, 128 at 17, 256 at 14.) The rate also depends on
    where the system puts the memory: seen on one machine 34 to 71 GB/s, each time the same for all
    work on the same tensors. So two pairs of tensors are tried, and the slower counts, unless it is
    not to be trusted.
    """
    where, budget = hardware.device_type(device), positive("budget", budget)
    size = _size(where)
    tries = [_copy(where, size, budget / 2) for _ in range(2)]
    took = max(tries, key=lambda t: (t.trusted, t.value))
    return Bandwidth(2 * size / took.value, "measured", "measured by a copy", took.doubt)


def _size(device: str) -> int:
    """Bytes of the tensors to copy."""
    if device == "cuda":
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        return max(LARGE, CACHES * properties.L2_cache_size)
    free = min(psutil.virtual_memory().available, hardware.usable_memory())
    return LARGE if free > 16 * LARGE else LARGE // 2


def _copy(device: str, nbytes: int, budget: float) -> Time:
    source, target = torch.zeros(2, nbytes // 4, device=device)
    return time(lambda: target.copy_(source), budget=budget, device=device)
