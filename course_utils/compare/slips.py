"""The mistakes that a wrong number reveals: one list for guesses and for exercise checks.

A slip is named only when the number is what the slip would have given. Its sentence says what was
done, never the right number.
"""

from collections.abc import Iterator, Sequence
from math import isclose

ROUNDED = 2e-4  # how closely a mistake must be met: in four digits
CLOSE = 0.005  # how closely a factor must be met: half a per cent, a guess of three digits
POWERS = ("10³", "10⁶", "10⁹", "10¹²", "10¹⁵")


def named(answer: float, own: Sequence[tuple[float, str]], *, within: float = ROUNDED) -> str:
    """The sentence of that of the chapter's `own` mistakes which gives `answer`, else ''.

    `own` pairs a value with its sentence; `within` is how closely, as a share. Where two values lie
    so close together, the nearer one counts, and of equal ones the first.
    """
    met = [(value, words) for value, words in own if isclose(answer, value, rel_tol=within)]
    return min(met, key=lambda pair: abs(pair[0] - answer))[1] if met else ""


def generic(answer: float, right: float, unit: str = "", *, rough: bool = False) -> str:
    """The mistake that the ratio of `answer` to `right` reveals, in one sentence, or ''.

    Known are wrong prefixes, binary ones, bits for bytes, halves and doubles, per cent, and a ratio
    upside down. With `rough`, where `right` is itself a rough number, prefixes alone.
    """
    if answer <= 0 or right <= 0:
        return ""
    prefixes = () if unit in ("", "times") else _prefixes()  # a share or a ratio has none
    factors, within = (prefixes, 0.25) if rough else (_factors(right, unit), CLOSE)
    met = (words for factor, words in factors if isclose(answer / right, factor, rel_tol=within))
    return next(met, "")


def power_of_ten(answer: float, right: float) -> str:
    """A sentence if `answer` is off by a power of ten alone, as after a wrong prefix; else ''."""
    if answer <= 0 or right <= 0:
        return ""
    powers = (10.0**power for power in range(-18, 19) if power)
    met = any(isclose(answer / right, power, rel_tol=0.012) for power in powers)
    return "only the power of ten is off: check GB, million, billion." if met else ""


def _prefixes() -> Iterator[tuple[float, str]]:
    for k, power in enumerate(POWERS, start=1):
        words = f"only the prefix is off, by a factor of {power}: check k, M, G, and milli, micro."
        yield 1000.0**k, words
        yield 1000.0**-k, words


def _bytes() -> Iterator[tuple[float, str]]:
    yield 8.0, "you counted bits, and a byte has eight."
    yield 0.125, "it is an eighth: those were bytes already, and a byte has eight bits."
    for k in range(1, 5):
        words = "two kinds of prefix are mixed: 1 kB is 1000 bytes, 1 KiB is 1024."
        yield (1000 / 1024) ** k, words
        yield (1024 / 1000) ** k, words
        words = "only the prefix is off, by a power of 1024: check KiB, MiB, GiB."
        yield 1024.0**k, words
        yield 1024.0**-k, words


def _factors(right: float, unit: str) -> Iterator[tuple[float, str]]:
    """Each factor that a slip leads to, with the slip's sentence; the likelier ones first."""
    if unit in ("B", "B/s"):
        yield from _bytes()
    if unit not in ("", "times"):
        yield from _prefixes()
    if unit in ("FLOPs", "FLOP/s"):
        yield 0.5, "it is half: a multiply-add is two FLOPs."
    yield 0.5, "it is half: a factor of 2 is missing."
    yield 2.0, "it is double: a factor of 2 is there once too often."
    if unit in ("", "times"):
        yield 100.0, "it looks like per cent: a share of 1 is meant."
        yield 0.01, "it is a hundredth: is it a share where per cent is meant?"
        yield 1 / right**2, "the ratio is upside down."
