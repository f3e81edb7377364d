"""One instrument at a time: an instrument inside another would measure the other."""

from collections.abc import Iterator
from contextlib import contextmanager

_running: list[str] = []


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Mark the instrument `name` as running; RuntimeError if another one is running."""
    if _running:
        raise RuntimeError(
            f"measure.{name} must not run inside measure.{_running[-1]}: it would measure that "
            "instrument's own cost. Call the two one after the other."
        )
    _running.append(name)
    try:
        yield
    finally:
        _running.pop()
