"""The instruments: what this machine really does. They observe; they never draw or judge."""

from course_utils.measure.clock import Time, time
from course_utils.measure.peak import Peak, peak
from course_utils.measure.sweep import Sweep, sweep

__all__ = ["Peak", "Sweep", "Time", "peak", "sweep", "time"]
