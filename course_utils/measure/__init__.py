"""The instruments: what this machine really does. They observe; they never draw or judge."""

from course_utils.measure.clock import Ratio, Time, time
from course_utils.measure.peak import Peak, best_matmul, peak
from course_utils.measure.sweep import Sweep, sweep

__all__ = ["Peak", "Ratio", "Sweep", "Time", "best_matmul", "peak", "sweep", "time"]
