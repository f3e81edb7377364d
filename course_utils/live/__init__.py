"""Figures that grow while something runs: a sweep of timings, lines and paths of a training run."""

from course_utils.live.growth import Growing, lines, valley
from course_utils.live.series import timings

__all__ = ["Growing", "lines", "timings", "valley"]
