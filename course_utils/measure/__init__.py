"""The instruments: what this machine really does. They observe; they never draw or judge."""

from course_utils.measure.clock import Ratio, Time, time
from course_utils.measure.dtypes import Dtypes, dtypes
from course_utils.measure.fake import fake
from course_utils.measure.flops import Flops, UncountedOperation, flops
from course_utils.measure.limits import (
    Bandwidth,
    Limits,
    Ridge,
    bandwidth,
    limits,
    measured_bandwidth,
)
from course_utils.measure.memory import Memory, memory
from course_utils.measure.peak import Peak, best_matmul, peak
from course_utils.measure.sweep import Sweep, sweep

__all__ = [
    "Bandwidth",
    "Dtypes",
    "Flops",
    "Limits",
    "Memory",
    "Peak",
    "Ratio",
    "Ridge",
    "Sweep",
    "Time",
    "UncountedOperation",
    "bandwidth",
    "best_matmul",
    "dtypes",
    "fake",
    "flops",
    "limits",
    "measured_bandwidth",
    "memory",
    "peak",
    "sweep",
    "time",
]
