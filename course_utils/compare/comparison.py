"""One comparison: guess, arithmetic and measurement, the verdict, and the sentences about them.

A whole number is a count and exact; a float depends on the machine and carries the ≈ mark.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, isfinite
from numbers import Integral, Real

from course_utils import units
from course_utils.compare.judgement import CLOSE, EXACT, verdict_on_the_guess
from course_utils.table import Result, Table, table

DASH = "–"
NO_DATASHEET = "no datasheet says what to expect: what it reached is the measure."


class Absent:
    """Stands for a column that this comparison does not have on any machine."""

    def __repr__(self) -> str:
        return "not compared"


ABSENT = Absent()


@dataclass(frozen=True, repr=False)
class Comparison(Result):
    """One row of the ledger. Values in `unit`.

    None is a value that this machine lacks (no datasheet figure, budget not reached); `ABSENT` one
    that the comparison does not have on any machine. `doubt` is that of arithmetic or measurement.
    `above`, `near` and `below` are sentences for a measurement that lies so; `slips` maps the
    sentence for a mistake to the number that it leads to, `launch` says what launching adds.
    """

    id: str
    what: str
    unit: str
    guess: float | None | Absent
    predicted: float | None | Absent
    measured: float | None | Absent
    doubt: str = ""
    above: str = ""
    near: str = ""
    below: str = ""
    slips: Mapping[str, float] = field(default_factory=dict, hash=False)
    remark: str = ""
    launch: str = ""

    @property
    def ratio(self) -> float | None:
        """Measured over predicted, or None if it cannot be told."""
        known = isinstance(self.measured, Real) and isinstance(self.predicted, Real)
        if not (known and self.trusted and self.measured and self.predicted):
            return None
        return _finite(self.measured / self.predicted)

    @property
    def no_difference(self) -> bool:
        """Whether the whole number 1 is predicted, in times: that something makes no difference."""
        return self.unit == "times" and isinstance(self.predicted, Integral) and self.predicted == 1

    @property
    def truth(self) -> float | None:
        """What a guess is judged by: a trusted measurement, or else the arithmetic."""
        arithmetic = None if self.no_difference else self.predicted
        candidates = (self.measured if self.trusted else None, arithmetic)
        return next((value for value in candidates if isinstance(value, Real)), None)

    @property
    def guess_ratio(self) -> float | None:
        """The guess over the truth, or None if it cannot be told."""
        if not isinstance(self.guess, Real) or not self.truth:
            return None
        return _finite(self.guess / self.truth)

    @property
    def arithmetic_alone(self) -> bool:
        """Whether nothing is measured, so that the arithmetic is the answer."""
        return self.measured is ABSENT

    def cells(self) -> tuple[str, str, str, str, str]:
        """Guess, arithmetic, machine, machine over arithmetic, guess over truth, as text."""
        ratio = self.guess_ratio
        off = DASH if ratio is None or ratio < 0 else units.measured(units.ratio(ratio))
        if self.measured is ABSENT and isinstance(self.predicted, Real):
            arithmetic = units.quantity(self.predicted, self.unit)
        else:
            arithmetic = _text(self.predicted, self.unit, units.UNKNOWN)
        if self.no_difference:
            arithmetic = "no difference"
        machine = _text(self.measured, self.unit, "not measured here")
        if self.predicted is ABSENT:  # no verdict says so
            machine = units.unsure(machine, self.doubt)
        if self.is_count and self.measured != self.predicted and machine == arithmetic:
            arithmetic, machine = (f"{n:,} {self.unit}" for n in (self.predicted, self.measured))
        return self._guess(), arithmetic, machine, self._verdict(), off

    def _guess(self) -> str:
        """The learner's own number: a count in every digit, and no live value."""
        if not isinstance(self.guess, Real):
            return DASH
        counts = isinstance(self.measured, Integral) or isinstance(self.predicted, Integral)
        sign, size = ("−" if self.guess < 0 else ""), abs(self.guess)
        if counts and size == int(size):
            return f"{sign}{int(size):,} {self.unit}".strip()
        return f"{sign}{units.quantity(size, self.unit)}"

    def _verdict(self) -> str:
        if ABSENT in (self.measured, self.predicted):
            return DASH
        if not self.trusted:
            return f"{units.MEASURED} not comparable"
        if self.is_count:
            off = self.measured - self.predicted
            return "exact" if off == 0 else f"{'+' if off > 0 else '−'}{self._amount(abs(off))}"
        if self.ratio is None:
            return f"{units.MEASURED} not comparable"
        return units.measured(units.ratio(self.ratio))

    @property
    def is_count(self) -> bool:
        """Whether both sides are whole numbers, so that their difference tells all."""
        return isinstance(self.measured, Integral) and isinstance(self.predicted, Integral)

    def _amount(self, count: int) -> str:
        return units.quantity(count, self.unit)

    def answer(self) -> str:
        """What is to be said of the guess: how far off it is, and the slip it betrays, if any."""
        return verdict_on_the_guess(self)

    def explanation(self) -> str:
        """One sentence about the gap, chosen from what was measured."""
        if ABSENT in (self.measured, self.predicted):
            return ""
        if not self.trusted:
            return f"On this machine the measurement is not to be trusted: {self.doubt}."
        if self.is_count:
            what = "The count" if self.unit else "The number"
            off = abs(self.measured - self.predicted)
            return f"{what} is off by {self._amount(off)}." if off else f"{what} is exact."
        if self.measured is None:
            return "On this machine this was not measured, so there is no ratio."
        if self.predicted is None:
            return f"On this machine {NO_DATASHEET}"
        return " ".join(filter(None, [f"On this machine {self._gap()}", self.launch]))

    def _gap(self) -> str:
        if self.ratio is None:
            return "one of the two is 0, or all but 0, so there is no ratio."
        came = f"it came to {units.ratio(self.ratio)} the arithmetic"
        if self.ratio > CLOSE:
            return f"{came}. {self.above}".strip(". ") + "."
        if self.ratio < 1 / CLOSE:
            return f"{came}. {self.below}".strip(". ") + "."
        off = abs(self.ratio - 1)
        if off < EXACT:
            return f"the two are equal. {self.near}".strip()
        within = ceil(1000 * off - EXACT) / 1000  # rounded up, or it would not be within
        agree = f"the arithmetic and the measurement agree within {within:.1%}"
        return f"{agree}. {self.near}".strip()

    def shown(self) -> Table:
        """The comparison as one row, and what is to be said of it."""
        head = ("your guess", "the arithmetic", "this machine", "machine / arithmetic")
        kept = self._columns()
        note = "\n".join(filter(None, [self.remark, self.answer(), self.explanation()]))
        row = [cell for cell, shows in zip(self.cells(), kept, strict=False) if shows]
        return table(
            [name for name, shows in zip(head, kept, strict=True) if shows],
            [row],
            title=self.what,
            note=note,
        )

    def _columns(self) -> tuple[bool, bool, bool, bool]:
        """Which of the four columns this comparison has, on any machine."""
        arithmetic, machine = self.predicted is not ABSENT, self.measured is not ABSENT
        return self.guess is not ABSENT, arithmetic, machine, arithmetic and machine


def _finite(ratio: float) -> float | None:
    return ratio if isfinite(ratio) and ratio else None


def _text(value: float | None | Absent, unit: str, lacking: str) -> str:
    if value is ABSENT:
        return DASH
    if value is None:
        return units.measured(lacking.removeprefix(f"{units.MEASURED} "))
    if isinstance(value, Integral):
        return units.quantity(value, unit)
    return units.measured(units.quantity(value, unit, significant=3))
