"""What bounds an operation on this machine: peak, bandwidth, the cost of starting it."""

from dataclasses import dataclass

import torch

from course_utils import hardware, units
from course_utils.arguments import positive
from course_utils.measure.clock import Live, Time, time
from course_utils.measure.peaks import Peak, best_matmul, peak
from course_utils.table import Table, table

COPIED = 2**24  # numbers of 4 bytes: 64 MiB, more than most caches hold


@dataclass(frozen=True)
class Bandwidth(Live):
    """Bytes a second between memory and processor; `kind` is 'promised' or 'measured'."""

    value: float
    kind: str
    source: str
    trusted: bool = True
    reason: str = ""

    def __repr__(self) -> str:
        doubt = "" if self.trusted else f" (unsure: {self.reason})"
        rate = units.rate(self.value, unit="B/s", significant=3)
        return units.measured(f"{rate}, {self.source}{doubt}")


@dataclass(frozen=True)
class Ridge(Live):
    """FLOPs a byte from which on arithmetic is the limit and not memory: peak / bandwidth."""

    value: float
    trusted: bool = True
    reason: str = ""

    def __repr__(self) -> str:
        doubt = "" if self.trusted else f" (unsure: {self.reason})"
        return units.measured(f"{units.digits(self.value, 3)} FLOPs a byte{doubt}")


@dataclass(frozen=True)
class Limits:
    """The three bounds for one number format. `overhead` is in seconds an operation.

    `fp32` is the same device's peak in plain fp32, kept where it explains something: measured
    beside a narrower format that was measured, promised beside fp32 that may run as TF32.
    """

    peak: Peak
    bandwidth: Bandwidth
    overhead: Time
    fp32: Peak | None = None

    @property
    def trusted(self) -> bool:
        """Whether the bandwidth is; peak and overhead are floors, and disturbed little."""
        return self.bandwidth.trusted

    @property
    def reason(self) -> str:
        """Why not, or ''."""
        return self.bandwidth.reason

    @property
    def ridge(self) -> Ridge:
        """Where the two bounds meet, to be trusted if both are."""
        doubt = self.peak.reason or self.bandwidth.reason
        return Ridge(self.peak.value / self.bandwidth.value, not doubt, doubt)

    @property
    def tf32(self) -> bool:
        """Whether fp32 products are set to run as TF32 now, on a device that has it."""
        fp32_on_cuda = self.fp32 is not None and self.fp32.kind == "promised"
        return fp32_on_cuda and hardware.runs_as_tf32()

    def as_table(self) -> Table:
        """The bounds and where each comes from."""
        rows = [
            ("peak", repr(self.peak)),
            ("bandwidth", repr(self.bandwidth)),
            ("starting an operation", repr(self.overhead)),
            ("ridge", repr(self.ridge)),
        ]
        return table(("bound", "here"), rows)

    def __repr__(self) -> str:
        return repr(self.as_table())

    def _repr_html_(self) -> str:
        return self.as_table()._repr_html_()


def limits(
    dtype: torch.dtype = torch.float32,
    *,
    device: str | torch.device | None = None,
    budget: float = 2.0,
) -> Limits:
    """Peak, bandwidth and overhead of this machine, in about `budget` seconds."""
    half, where = positive("budget", budget) / 2, hardware.device_type(device)
    one = torch.ones(1, device=where)
    start = time(lambda: one.add_(1), budget=half / 4, device=where)
    roof, memory = peak(where, dtype, budget=half), bandwidth(where, budget=half / 2)
    return Limits(roof, memory, start, _plain_fp32(roof, where, half / 4))


def _plain_fp32(roof: Peak, device: str, budget: float) -> Peak | None:
    """The peak in fp32 itself that tells what `roof` is made of; None where it tells nothing."""
    found = hardware.machine().promise
    if roof.dtype != "fp32" and roof.kind == "measured":
        return best_matmul(device, budget=budget)
    if roof.dtype == "fp32" and roof.kind == "promised" and found.promised("tf32"):
        return Peak(found.promised("fp32"), "promised", found.source, "fp32")
    return None


def bandwidth(device: str | torch.device | None = None, *, budget: float = 0.5) -> Bandwidth:
    """Memory bandwidth: the datasheet's promise, or measured by copying 64 MiB within memory.

    A copy reads and writes each byte, so its rate is 2 × bytes / seconds.
    See `measured_bandwidth`.
    """
    where, machine = hardware.device_type(device), hardware.machine()
    if machine.promise and where == machine.backend:
        return Bandwidth(machine.promise.bandwidth, "promised", machine.promise.source)
    return measured_bandwidth(where, budget=budget)


def measured_bandwidth(
    device: str | torch.device | None = None, *, budget: float = 0.5
) -> Bandwidth:
    """Memory bandwidth as copies of 64 MiB within this machine's memory reach it.

    It depends on where the system puts the memory: seen on one machine 34 to 71 GB/s, each time the
    same for all work on the same tensors. So two pairs of tensors are tried, and the slower counts,
    unless it is not to be trusted.
    """
    where = hardware.device_type(device)
    tries = [_copy(where, budget / 2) for _ in range(2)]
    took = max(tries, key=lambda t: (t.trusted, t.value))
    rate = 2 * 4 * COPIED / took.value
    return Bandwidth(rate, "measured", "measured by a copy", took.trusted, took.reason)


def _copy(device: str, budget: float) -> Time:
    source, target = torch.zeros(2, COPIED, device=device)
    return time(lambda: target.copy_(source), budget=budget, device=device)
