"""One clear error for bad input: it names the argument, what came and what was expected."""

import inspect
import itertools
import math
import re
import reprlib
import sys
from collections.abc import Callable
from concurrent.futures import Future
from numbers import Integral, Real


def number(
    name: str,
    value: object,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    whole: bool = False,
) -> float | int:
    """Return `value` if it is a finite number within the bounds.

    `whole` accepts whole numbers only (70e9 counts as one) and returns an int.
    Raises TypeError for anything that is not a number (True and False included) and
    ValueError for NaN, infinity, a fraction where a whole number is due, or a value out of bounds.
    """
    expected = _expectation(above, at_least, at_most, whole)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be {expected}, got {shown(value)}")
    value = getattr(value, "item", lambda: value)()  # else NumPy casts a bound to its own format
    in_bounds = (
        _is_finite(value)
        and (above is None or value > above)
        and (at_least is None or value >= at_least)
        and (at_most is None or value <= at_most)
    )
    if not in_bounds or (whole and value != int(value)):
        raise ValueError(f"{name} must be {expected}, got {shown(value)}")
    return int(value) if whole or isinstance(value, Integral) else float(value)


def positive(name: str, value: object) -> float | int:
    """Return `value` if it is a finite number above 0; errors as in `number`."""
    return number(name, value, above=0)


def count(name: str, value: object, *, at_least: int = 1) -> int:
    """Return `value` as an int if it is a whole number of at least `at_least`."""
    return int(number(name, value, at_least=at_least, whole=True))


def share(name: str, value: object) -> float:
    """Return `value` if it lies in (0, 1], as a utilisation does."""
    return float(number(name, value, above=0, at_most=1))


def text(name: str, value: object) -> str:
    """Return `value` if it is a string that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise TypeError(f"{name} must be a text that is not empty, got {shown(value)}")
    return value


def one_of(name: str, value: object, options: object) -> object:
    """Return `value` if it is among `options`; the error lists them."""
    known = list(options)
    if not any(type(value) is type(option) and value == option for option in known):
        listed = ", ".join(repr(option) for option in known)
        raise ValueError(f"{name} must be one of {listed}, got {shown(value)}")
    return value


def choice(name: str, value: object) -> bool:
    """Return `value` if it is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {shown(value)}")
    return value


def function(name: str, value: object, example: str) -> Callable:
    """Return `value` if it is a function whose call does its work; the error shows an `example`.

    Generator functions and async functions are refused: calling one only creates an object.
    """
    if not callable(value):
        raise TypeError(f"{name} must be a function, as in {example}, got {shown(value)}")
    if inspect.isgeneratorfunction(value):
        raise TypeError(
            f"{name} must do its work when it is called, got a generator function, "
            f"{shown(value)}: run it to its end, as in lambda: list(gen())"
        )
    if inspect.iscoroutinefunction(value) or inspect.isasyncgenfunction(value):
        raise TypeError(
            f"{name} must do its work when it is called, got an async function, "
            f"{shown(value)}: pass a plain function that runs it in an event loop"
        )
    return value


def finished(name: str, value: object) -> None:
    """Raise TypeError if `value`, which the function `name` returned, has yet to do the work."""
    kinds = {
        "a generator": inspect.isgenerator(value) or inspect.isasyncgen(value),
        "a coroutine": inspect.isawaitable(value),
        "a lazy iterator": isinstance(value, LAZY),
        "a future": isinstance(value, Future),
    }
    for kind, found in kinds.items():
        if found:
            getattr(value, "close", int)()  # a coroutine that nobody awaits would warn
            raise TypeError(
                f"{name} must do its work when it is called, and it returned {kind}, "
                f"{shown(value)}: run it to its end, as in lambda: list(gen())"
            )


def shape(name: str, value: object) -> tuple[int, ...]:
    """Return `value`, a tuple or list, as a tuple of whole numbers, each at least 0."""
    if not isinstance(value, (tuple, list)):
        raise TypeError(f"{name} must be a tuple of whole numbers, got {shown(value)}")
    sizes = enumerate(value)
    return tuple(count(f"{name}[{position}]", size, at_least=0) for position, size in sizes)


def within_floats(names: str, compute: Callable[[], float]) -> float:
    """What `compute` returns, if a float can hold it; else ValueError naming the arguments."""
    try:
        value = compute()
    except OverflowError:  # a whole number beyond the largest float
        value = math.inf
    if not _is_finite(value):
        largest = sys.float_info.max
        raise ValueError(
            f"{names} must give a finite number together: beyond {largest:.2g} is none"
        )
    return value


def shown(value: object) -> str:
    """`value` and its type in one short line, for error messages and checks."""
    try:
        line = one_line(reprlib.repr(value), 60)
    except Exception:  # a broken __repr__ must not hide the real message
        line = "a value that cannot be shown"
    return f"{line} ({type(value).__name__})"


def one_line(words: str, limit: int = 120) -> str:
    """`words` without line breaks, cut to `limit` characters."""
    line = " ".join(words.split())
    return f"{line[:limit]}…" if len(line) > limit else line


LAZY = (map, filter, zip, itertools.chain, itertools.islice, itertools.starmap)
# Lines that follow the cause, and say only how to go on looking.
ADVICE = (
    "Check the documentation", "CUDA kernel errors might", "For debugging", "Compile with",
    "Search for", "Device-side assertion",
)  # fmt: skip
# Messages that tell the cause first, and then list what else is known.
BEFORE_A_LIST = ("CUDA error", "Could not run 'aten::", "No operator found")


def cause(error: BaseException) -> str:
    """What `error` says was wrong, in one line: '' if its message is empty.

    That is the message's last line, where libraries put it after what they were doing, without
    advice on how to search on; of CUDA's and the dispatcher's, the first; of jaxtyping's, the lines
    that tell what came and what was expected; of torch.load's, the one of its unpickler.
    """
    try:
        lines = [line.strip() for line in _plain(str(error)).splitlines() if line.strip()]
    except Exception:  # an error whose own text cannot be made
        lines = []
    came = [line for line in lines if line.startswith(("Actual value:", "Expected type:"))]
    own = [line for line in lines if line.startswith("WeightsUnpickler error:")]
    last = [line for line in lines if not line.startswith(ADVICE)][-1:]
    first = lines[:1] if lines and lines[0].startswith(BEFORE_A_LIST) else []
    words = re.sub(r"<class '(.*?)'>", r"\1", " ".join(came or own or first or last or lines[-1:]))
    return one_line(words, 500)


def _plain(words: str) -> str:
    """`words` without the escapes that colour them in a terminal."""
    return re.sub(r"\x1b\[[0-9;]*m", "", words)


def _is_finite(value: Real) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond the largest float
        return False


def _expectation(
    above: float | None, at_least: float | None, at_most: float | None, whole: bool
) -> str:
    bounds = [f"above {above}"] if above is not None else []
    bounds += [f"at least {at_least}"] if at_least is not None else []
    bounds += [f"at most {at_most}"] if at_most is not None else []
    return " ".join(
        ["a whole number" if whole else "a finite number", " and ".join(bounds)]
    ).strip()
