"""Helpers of the course: predict a cost, measure it on this machine, compare, draw."""

from course_utils import formats, hardware, measure, predict, units
from course_utils.compare import compare
from course_utils.errors import trap

__all__ = [
    "check",
    "compare",
    "draw",
    "explore",
    "formats",
    "hardware",
    "live",
    "measure",
    "predict",
    "trap",
    "units",
]


def __getattr__(name: str) -> object:
    """Import these on first use: they bring matplotlib, ipywidgets or the exercises."""
    if name in ("check", "draw", "explore", "live"):
        from importlib import import_module

        return import_module(f"course_utils.{name}")
    raise AttributeError(f"module 'course_utils' has no attribute {name!r}")
