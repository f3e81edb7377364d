"""What bounds an operation on this machine: peak, bandwidth, the overhead of starting it."""

from dataclasses import dataclass

import torch

from course_utils import hardware, units
from course_utils.arguments import positive
from course_utils.measure.clock import Time, time
from course_utils.measure.peaks import Peak, best_matmul, peak
from course_utils.measure.quantity import Measured
from course_utils.table import Result, Table, table

COPIED = 2**24  # numbers of 4 bytes: 64 MiB, more than most caches hold


@dataclass(frozen=True, repr=False)
class Bandwidth(Measured):
    """Bytes per second between memory and processor; `kind` is 'promised' or 'measured'."""

    value: float
    kind: str
    source: str
    doubt: str = ""

    def shown(self) -> str:
        """The rate and where it comes from, on one line."""
        words = f"{units.rate(self.value, unit='B/s', significant=3)}, {self.source}"
        return units.measured(units.unsure(words, self.doubt))


@dataclass(frozen=True, repr=False)
class Ridge(Measured):
    """The FLOPs per byte from which on arithmetic, not memory, is the limit: peak / bandwidth."""

    value: float
    doubt: str = ""

    def shown(self) -> str:
        """FLOPs per byte, on one line."""
        words = f"{units.digits(self.value, 3)} FLOPs a byte"
        return units.measured(units.unsure(words, self.doubt))


@dataclass(frozen=True, repr=False)
class Limits(Result):
    """The three bounds for one number format. `overhead` is in seconds per operation.

    `fp32` is the same device's peak in plain fp32, where it helps to explain a time: the measured
    one beside a narrower format's, the datasheet's beside fp32 that may run as TF32.
    """

    peak: Peak
    bandwidth: Bandwidth
    overhead: Time
    fp32: Peak | None = None

    @property
    def doubt(self) -> str:
        """That of the bandwidth; peak and overhead are floors, and disturbed little."""
        return self.bandwidth.doubt

    @property
    def ridge(self) -> Ridge:
        """Where the two bounds meet, as doubtful as either."""
        ratio = self.peak / self.bandwidth
        return Ridge(ratio.value, ratio.doubt)

    @property
    def tf32(self) -> bool:
        """Whether fp32 matmuls are set to run as TF32 now, on a device that has it."""
        fp32_on_cuda = self.fp32 is not None and self.fp32.kind == "promised"
        return fp32_on_cuda and hardware.runs_as_tf32()

    def shown(self) -> Table:
        """The bounds and where each comes from."""
        rows = [
            ("peak", repr(self.peak)),
            ("bandwidth", repr(self.bandwidth)),
            ("starting an operation", repr(self.overhead)),
            ("ridge", repr(self.ridge)),
        ]
        return table(("bound", "here"), rows)


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
    """The peak in plain fp32 where it helps to explain `roof`, else None: see `Limits`."""
    found = hardware.machine().promise
    if roof.dtype != "fp32" and roof.kind == "measured":
        return best_matmul(device, budget=budget)
    if roof.dtype == "fp32" and roof.kind == "promised" and found.promised("tf32"):
        return Peak(found.promised("fp32"), "promised", found.source, "fp32")
    return None


def bandwidth(device: str | torch.device | None = None, *, budget: float = 0.5) -> Bandwidth:
    """Memory bandwidth: the datasheet's, or measured by copying 64 MiB within memory.

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
    return Bandwidth(rate, "measured", "measured by a copy", took.doubt)


def _copy(device: str, budget: float) -> Time:
    source, target = torch.zeros(2, COPIED, device=device)
    return time(lambda: target.copy_(source), budget=budget, device=device)
