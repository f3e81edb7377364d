"""Figures that grow while something runs: timings of a sweep, lines and paths of a training run."""

from course_utils.live.growth import Growing, lines, valley
from course_utils.live.series import timings

__all__ = ["Growing", "lines", "timings", "valley"]
