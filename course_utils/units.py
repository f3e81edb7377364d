"""Numbers as text: bytes, FLOPs, seconds, days; GB against GiB; the ≈ mark of a measured value.

Decimal prefixes (kB, MB, GB: powers of 1000) unless `binary=True` asks for KiB, MiB, GiB
(powers of 1024), after IEC 80000-13.

Each function takes a number, or a result with a `value` and a `doubt`: then its text says that
the number is unsure, and why.
"""

from collections.abc import Callable
from functools import wraps
from numbers import Integral

from course_utils.arguments import count, number, shown, text

MEASURED = "≈"
UNKNOWN = "unknown"
NOT_REACHED = f"{MEASURED} not reached"

_DECIMAL = ("", "k", "M", "G", "T", "P", "E")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DURATIONS = (
    (365.25 * 86400, "years"),
    (2 * 86400, "days"),
    (2 * 3600, "hours"),
    (120, "minutes"),
    (1, "s"),
    (1e-3, "ms"),
    (1e-6, "µs"),
    (1e-9, "ns"),
)
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_SECONDS = {"years": 365.25 * 86400, "days": 86400, "hours": 3600, "minutes": 60}


def unsure(words: str, doubt: str) -> str:
    """`words`, and the `doubt` about them if there is one: '3 ms (unsure: only one call)'."""
    return f"{words} (unsure: {doubt})" if doubt else words


def _of_results(form: Callable[..., str]) -> Callable[..., str]:
    """Let `form`, which makes a text of a number, take a result too, and say its doubt."""

    @wraps(form)
    def carrying(value: float | object, *options: object, **named: object) -> str:
        words = form(getattr(value, "value", value), *options, **named)
        return unsure(words, getattr(value, "doubt", ""))

    return carrying


@_of_results
def digits(value: float, significant: int = 4) -> str:
    """`value` with `significant` digits, such as 143.9, 0.7996 or 6.3e24.

    From 0.0001 to a million it is written out; trailing zeros are dropped.
    """
    value = number("value", value)
    rounded = _rounded(value, significant)
    if rounded == 0:
        return "0"
    if abs(rounded) >= 1e6 or abs(rounded) < 1e-4:
        mantissa, _, exponent = f"{rounded:.{significant - 1}e}".partition("e")
        return f"{_trim(mantissa)}e{int(exponent)}"
    return _trim(f"{rounded:.{max(0, significant - 1 - _magnitude(rounded))}f}")


@_of_results
def size(value: float, *, binary: bool = False, significant: int = 4) -> str:
    """Bytes as text: size(2415919104) is '2.416 GB', with binary=True '2.25 GiB'.

    Below 10 000 they are written out: '4096 B'.
    """
    number("value", value, at_least=0)
    if value < 10_000 and not binary:
        return f"{digits(value, significant)} B"
    base, prefixes = (1024, _BINARY) if binary else (1000, _DECIMAL)
    return _prefixed(value, "B", base, prefixes, significant)


@_of_results
def flops(value: float, *, significant: int = 4) -> str:
    """A count of floating-point operations: flops(8.8e12) is '8.8 TFLOPs'. A count, not a rate.

    Whole counts below ten million are written out: '262,144 FLOPs'.
    """
    count("significant", significant)
    if number("value", value, at_least=0) < 1e7 and value == int(value):
        return f"{int(value):,} FLOPs"
    return _prefixed(value, "FLOPs", 1000, _DECIMAL[:6], significant)


@_of_results
def rate(value: float | None, *, unit: str = "FLOP/s", significant: int = 4) -> str:
    """A rate as text: rate(989.5e12) is '989.5 TFLOP/s'; None (no such figure) is 'unknown'."""
    if value is None:
        return UNKNOWN
    number("value", value, at_least=0)
    return _prefixed(value, text("unit", unit), 1000, _DECIMAL[:6], significant)


@_of_results
def duration(seconds: float, *, significant: int = 4) -> str:
    """Seconds as text in the unit that reads best, from ns to years of 365.25 days."""
    if number("seconds", seconds, at_least=0) == 0:
        return "0 s"
    for limit, unit in _DURATIONS:
        scale = _SECONDS.get(unit, limit)
        if _rounded(seconds / scale, significant) * scale >= limit:
            return f"{digits(seconds / scale, significant)} {unit}"
    return f"{digits(seconds / 1e-9, significant)} ns"


@_of_results
def amount(value: float, *, significant: int = 4) -> str:
    """A large count in words: amount(70e9) is '70 billion'."""
    value = _rounded(number("value", value, at_least=0), significant)
    for limit, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if value >= limit and value < 1e15:
            return f"{digits(value / limit, significant)} {word}"
    return digits(value, significant)


@_of_results
def ratio(value: float, *, significant: int = 3) -> str:
    """A ratio as text: '1.36 ×'."""
    return f"{digits(number('value', value, at_least=0), significant)} ×"


def power_of_two(exponent: float) -> str:
    """2⁻²⁵ for −25; where the exponent is not whole, with two decimals: 2^-29.34."""
    exponent = number("exponent", exponent)
    if exponent != int(exponent):
        return f"2^{exponent:.2f}"
    return "2" + f"{exponent:.0f}".translate(_RAISED)


def measured(value: str | None) -> str:
    """Mark a text as measured here and now: '≈ 1.2 ms'. None is '≈ not reached'.

    The tests replace everything from the mark to the next '|', '<' or line end, so that two
    machines may differ there and nowhere else.
    """
    return NOT_REACHED if value is None else f"{MEASURED} {text('value', value)}"


@_of_results
def quantity(value: float, unit: str, *, significant: int = 4) -> str:
    """`value` as text with its `unit`: B, FLOPs, FLOP/s, B/s, s, '' (none) or a noun.

    A whole number of a noun below ten million keeps every digit: '366,432 parameters'.
    """
    kept = {"significant": significant}
    if not isinstance(unit, str):
        raise TypeError(f"unit must be a text, got {shown(unit)}")
    if unit in ("FLOP/s", "B/s"):
        return rate(value, unit=unit, **kept)
    known = {"B": size, "FLOPs": flops, "s": duration, "": digits}
    if unit in known:
        return known[unit](value, **kept)
    if isinstance(value, Integral) and abs(value) < 1e7:
        return f"{value:,} {unit}"  # a count: every digit of it
    return f"{amount(value, **kept)} {unit}"


def _prefixed(
    value: float, unit: str, base: int, prefixes: tuple[str, ...], significant: int
) -> str:
    step = 0
    while step < len(prefixes) - 1 and _rounded(value / base**step, significant) >= base:
        step += 1
    if base**step * base <= value:  # beyond the largest prefix: plain powers of ten
        return f"{digits(value, significant)} {unit}"
    return f"{digits(value / base**step, significant)} {prefixes[step]}{unit}"


def _rounded(value: float, significant: int) -> float:
    """`value` rounded to `significant` digits, so that 0.99999 s reads 1 s and not 1000 ms."""
    return float(f"{value:.{count('significant', significant)}g}")


def _magnitude(value: float) -> int:
    return int(f"{abs(value):e}".partition("e")[2])


def _trim(decimal: str) -> str:
    return decimal.rstrip("0").rstrip(".") if "." in decimal else decimal
