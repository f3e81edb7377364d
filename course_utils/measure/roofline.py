"""What bounds an operation on this machine: peak, bandwidth, the overhead of starting it."""

from dataclasses import dataclass

import torch

from course_utils import hardware, units
from course_utils.arguments import positive
from course_utils.measure.bandwidth import Bandwidth, reference_bandwidth
from course_utils.measure.clock import Time, time
from course_utils.measure.peaks import Peak, measured_peak, reference_peak
from course_utils.measure.quantity import Measured
from course_utils.table import Result, Table, first_doubt, table


@dataclass(frozen=True, repr=False)
class Ridge(Measured):
    """The FLOPs per byte from which on arithmetic, not memory, is the limit: peak / bandwidth."""

    value: float
    doubt: str = ""

    def shown(self) -> str:
        """FLOPs per byte, on one line."""
        words = f"{units.digits(self.value, 3)} FLOPs per byte"
        return units.measured(units.unsure(words, self.doubt))


@dataclass(frozen=True, repr=False)
class Limits(Result):
    """The three bounds for one number format.

    `overhead` times one small operation: to start it from Python takes `overhead.per_call`. `fp32`
    is the same device's peak in plain fp32, where it helps to explain a time: the measured one
    beside a narrower format's, the datasheet's beside fp32 that may run as TF32.
    """

    peak: Peak
    bandwidth: Bandwidth
    overhead: Time
    fp32: Peak | None = None

    @property
    def doubt(self) -> str:
        """That of the peak or the bandwidth; the overhead is a floor, and disturbed little."""
        return first_doubt(self.peak, self.bandwidth)

    @property
    def ridge(self) -> Ridge:
        """Where the two bounds meet, as doubtful as either."""
        ratio = self.peak / self.bandwidth
        return Ridge(ratio.value, ratio.doubt)

    @property
    def tf32(self) -> bool:
        """Whether fp32 matmuls are set to run as TF32 now, on a device that has it."""
        fp32_on_cuda = self.fp32 is not None and self.fp32.kind == "datasheet"
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
    roof = reference_peak(where, dtype, budget=half)
    memory = reference_bandwidth(where, budget=half / 2)
    return Limits(roof, memory, start, _plain_fp32(roof, where, half / 4))


def _plain_fp32(roof: Peak, device: str, budget: float) -> Peak | None:
    """The peak in plain fp32 where it helps to explain `roof`, else None: see `Limits`."""
    found = hardware.promise()
    if roof.dtype != "fp32" and roof.kind == "measured":
        return measured_peak(device, budget=budget)
    if roof.dtype == "fp32" and roof.kind == "datasheet" and found.promised("tf32"):
        return Peak(found.promised("fp32"), "datasheet", found.source, "fp32")
    return None
