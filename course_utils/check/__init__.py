"""Exercise checks and hints, one module a chapter: `check.ex00_1(answer)`, `.hint()`."""

from course_utils.check.ex00 import *  # noqa: F403
from course_utils.check.ex01 import *  # noqa: F403
from course_utils.check.exercise import Exercise, Verdict, progress

__all__ = [name for name in globals() if name.startswith("ex0") or name.startswith("ex1")]
__all__ += ["Exercise", "Verdict", "progress"]
