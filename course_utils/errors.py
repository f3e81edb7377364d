"""Show an error on purpose: its type, and the course's own words for why it is raised."""

from collections.abc import Callable

from course_utils.arguments import cause, function, text
from course_utils.units import MEASURED


def trap(action: Callable[[], object], why: str) -> None:
    """Call `action`, expect it to raise, and print the error's type with `why`.

    The library's own words follow, marked ≈ since they change between versions. When nothing is
    raised, that is printed instead, so that a chapter never claims an error that was not raised.
    """
    text("why", why)
    function("action", action, "trap(lambda: x.view(3), ...)")
    try:
        action()
    except Exception as error:
        print(f"{type(error).__name__}: {why}")
        print(f"in its own words: {MEASURED} {cause(error)}")
    else:
        print("No error was raised here. Expected one, because:", why)
