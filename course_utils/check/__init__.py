"""Exercise checks and hints, one module a chapter: `check.ex00_1(answer)`, `.hint()`."""

from course_utils.check.ex00 import *  # noqa: F403
from course_utils.check.ex01 import *  # noqa: F403
from course_utils.check.ex02 import *  # noqa: F403
from course_utils.check.ex03 import *  # noqa: F403
from course_utils.check.ex04 import *  # noqa: F403
from course_utils.check.ex05 import *  # noqa: F403
from course_utils.check.ex06 import *  # noqa: F403
from course_utils.check.ex07 import *  # noqa: F403
from course_utils.check.ex08 import *  # noqa: F403
from course_utils.check.ex09 import *  # noqa: F403
from course_utils.check.ex10 import *  # noqa: F403
from course_utils.check.exercise import Exercise, Verdict, progress

__all__ = [name for name, value in globals().items() if isinstance(value, Exercise)]
__all__ += ["Exercise", "Verdict", "progress"]
