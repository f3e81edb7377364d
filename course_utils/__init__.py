"""Helpers of the course: predict a cost, measure it on this machine, compare, draw."""

from course_utils import hardware, measure, predict, reasons, units
from course_utils.compare import compare
from course_utils.trap import trap

hardware.limit_threads()  # a container may allow fewer cores than PyTorch sees

__all__ = [
    "check",
    "compare",
    "draw",
    "explore",
    "hardware",
    "measure",
    "predict",
    "reasons",
    "record",
    "trap",
    "units",
]


def __getattr__(name: str) -> object:
    """Import these on first use: they bring matplotlib, ipywidgets or the exercises."""
    if name in ("check", "draw", "explore", "record"):
        from importlib import import_module

        return import_module(f"course_utils.{name}")
    raise AttributeError(f"module 'course_utils' has no attribute {name!r}")
