"""The instruments: what this machine really does. They observe; they never draw or judge."""

from course_utils.measure.as_matmul import UncountedOperation
from course_utils.measure.bandwidth import (
    Bandwidth,
    measured_bandwidth,
    reference_bandwidth,
)
from course_utils.measure.clock import Time, time
from course_utils.measure.counter import Flops, flops
from course_utils.measure.exchanges import Collectives, collectives
from course_utils.measure.footprint import Memory, fake, memory
from course_utils.measure.launches import Kernels, kernels
from course_utils.measure.operands import Dtypes, dtypes
from course_utils.measure.peaks import Peak, measured_peak, reference_peak
from course_utils.measure.quantity import Quantity
from course_utils.measure.roofline import Limits, Ridge, limits
from course_utils.measure.series import Sweep, sweep
from course_utils.measure.transfers import HostCopies, host_copies

__all__ = [
    "Bandwidth",
    "Collectives",
    "Dtypes",
    "Flops",
    "HostCopies",
    "Kernels",
    "Limits",
    "Memory",
    "Peak",
    "Quantity",
    "Ridge",
    "Sweep",
    "Time",
    "UncountedOperation",
    "collectives",
    "dtypes",
    "fake",
    "flops",
    "host_copies",
    "kernels",
    "limits",
    "measured_bandwidth",
    "measured_peak",
    "memory",
    "reference_bandwidth",
    "reference_peak",
    "sweep",
    "time",
]
