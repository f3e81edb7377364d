"""Exercise checks and hints, a module or two per chapter: `check.ex00_1(answer)`, `.hint()`."""

from course_utils.check import (  # noqa: F401 (each registers its exercises)
    ex00,
    ex01,
    ex01_memory,
    ex02,
    ex02_conversions,
    ex03,
    ex03_einsum,
    ex04,
    ex04_bounds,
    ex05,
    ex05_costs,
    ex05_engine,
    ex06,
    ex06_random,
    ex06_registry,
    ex06_scales,
    ex07,
    ex07_memory,
    ex07_peak,
    ex08,
    ex08_data,
    ex08_loop,
    ex08_resume,
    ex08_tester,
    ex09,
    ex09_memory,
    ex09_rounding,
    ex10,
    ex10_capstone,
    ex10_plans,
)
from course_utils.check.exercise import REGISTRY, Exercise, Verdict, progress

__all__ = [*REGISTRY, "Exercise", "Verdict", "progress"]


def __getattr__(name: str) -> Exercise:
    """The exercise that a chapter's module registered under this name."""
    if name in REGISTRY:
        return REGISTRY[name]
    raise AttributeError(f"no exercise {name!r}: they are called ex00_1, ex00_2, ...")


def __dir__() -> list[str]:
    return sorted(__all__)
