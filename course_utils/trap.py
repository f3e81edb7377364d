"""Show an error on purpose: its type, and the course's own words for why it comes."""

from collections.abc import Callable

from course_utils.arguments import text


def trap(action: Callable[[], object], why: str) -> None:
    """Call `action`, expect it to raise, and print the error's type with `why`.

    The library's own message is left out, since it changes between versions. When nothing is
    raised, that is printed instead, so that a chapter never claims an error that did not come.
    """
    text("why", why)
    if not callable(action):
        raise TypeError(f"action must be a function without arguments, got {action!r}")
    try:
        action()
    except Exception as error:
        print(f"{type(error).__name__}: {why}")
    else:
        print("No error was raised here. Expected one, because:", why)
