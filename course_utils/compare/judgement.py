"""What a guess is told: whether it is right, how far off it is, and which slip it betrays."""

from math import isclose
from numbers import Integral, Real
from typing import Protocol

from course_utils import units
from course_utils.compare import slips

CLOSE = 1.25  # within a quarter either way counts as agreement
EXACT = 1e-9  # floats that differ by less are equal but for rounding
SMALL = 1000  # a count below is known exactly or not at all


class Judged(Protocol):
    """What is read of a comparison."""

    guess: object
    predicted: object
    measured: object
    unit: str
    slips: dict[str, float]
    trusted: bool
    truth: float | None
    ratio: float | None
    guess_ratio: float | None
    no_difference: bool
    is_count: bool
    arithmetic_alone: bool


def verdict_on_the_guess(row: Judged) -> str:
    """What is to be said of the guess: how far off it is, and the slip it betrays, if any."""
    if not isinstance(row.guess, Real) or row.truth is None:
        return ""
    foretold = isinstance(row.predicted, Real) and not row.no_difference
    right = row.predicted if foretold else row.truth
    if row.is_count and row.guess == row.measured:
        return "Your guess is right."
    if row.no_difference and row.guess == 1:
        return "You expected no difference."
    if _meets(row, right):
        only = isinstance(row.measured, Real)  # a count that is off, or a live measurement
        by = "arithmetic" if foretold else "measurement"
        return f"Your guess agrees with the {by}." if only else "Your guess is right."
    if slip := _slip(row, right):
        return f"{_off(row)}: {slip}"
    counted = row.is_count or not isinstance(row.measured, Real)
    if counted and isinstance(right, Integral) and right < SMALL:  # near is not near enough
        ones = {right + 1: "one too many", right - 1: "one too few"}
        return f"Your guess is {ones[row.guess]}." if row.guess in ones else f"{_off(row)}."
    close = row.guess_ratio is not None and 1 / CLOSE <= row.guess_ratio <= CLOSE
    return f"{_off(row)}{': close' if close else ''}."


def _meets(row: Judged, right: float) -> bool:
    """Whether the guess is `right`: a count exactly, another number in the digits shown."""
    if isinstance(right, Integral):
        return isclose(row.guess, right, rel_tol=EXACT)
    if row.guess < 0:
        return False
    digits = 4 if row.arithmetic_alone else 3
    if isclose(row.guess, right, rel_tol=10.0**-digits):  # in more digits, across a rounding
        return True
    told = {units.quantity(n, row.unit, significant=digits) for n in (row.guess, right)}
    return len(told) == 1


def _off(row: Judged) -> str:
    """How far off the guess is, without a stop."""
    if row.guess_ratio is None:
        return "Your guess is off"
    if row.guess_ratio < 0:
        return "Your guess has the other sign"
    if isinstance(row.truth, Integral) and units.ratio(row.guess_ratio) == units.ratio(1):
        return f"Your guess is off by {units.quantity(abs(row.guess - row.truth), row.unit)}"
    by = "measurement" if row.truth is row.measured else "arithmetic"
    return f"Your guess is {units.ratio(row.guess_ratio)} the {by}"


def _slip(row: Judged, right: float) -> str:
    """The chapter's own slips first; then mere factors, and only prefixes of a measurement.

    A factor against the arithmetic says nothing of a guess that is close to the measurement, or
    where the two are far apart.
    """
    own = [(value, words) for words, value in row.slips.items()]
    if named := slips.named(row.guess, own, within=slips.CLOSE):
        return named
    if isinstance(right, Integral) and right < SMALL and not row.unit:
        return ""  # a handful of things: no factor tells how it was counted
    live = isinstance(row.measured, Real) and row.trusted and not row.is_count
    if live and row.guess_ratio and 1 / CLOSE <= row.guess_ratio <= CLOSE:
        return ""
    predicted = isinstance(row.predicted, Real) and not row.no_difference
    rough = not predicted and not isinstance(right, Integral)
    apart = live and not (row.ratio and 1 / CLOSE <= row.ratio <= CLOSE)
    right = row.measured if apart else right
    found = slips.generic(row.guess, right, row.unit, rough=rough or apart)
    if found or isinstance(right, Integral):
        return found
    return slips.generic(row.guess, right, row.unit, rough=True)  # milliseconds for seconds
