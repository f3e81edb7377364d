"""Guess, arithmetic and measurement side by side, the ratio, and the sentence that explains it.

A whole number is a count and exact; a float depends on the machine and carries the ≈ mark.
"""

import math
from dataclasses import dataclass
from numbers import Integral, Real

from course_utils import units
from course_utils.arguments import number, one_of, text
from course_utils.session import session
from course_utils.table import Table, table

CLOSE = 1.25  # within a quarter either way counts as agreement
DASH = "–"


class _Absent:
    """Stands for a column that this comparison does not have on any machine."""

    def __repr__(self) -> str:
        return "not compared"


ABSENT = _Absent()


@dataclass(frozen=True)
class Comparison:
    """One row of the ledger. Values in `unit`.

    None is a value that this machine lacks (no datasheet figure, budget not reached); `ABSENT` one
    that the comparison does not have on any machine.
    """

    id: str
    what: str
    unit: str
    guess: float | None
    predicted: float | None | _Absent
    measured: float | None | _Absent
    trusted: bool = True
    reason: str = ""
    above: str = "something costs more than was counted"
    below: str = "something costs less than was counted"

    @property
    def ratio(self) -> float | None:
        """Measured over predicted, or None if it cannot be told."""
        known = isinstance(self.measured, Real) and isinstance(self.predicted, Real)
        if not (known and self.trusted and self.measured and self.predicted):
            return None
        return self.measured / self.predicted

    @property
    def guess_ratio(self) -> float | None:
        """The guess over what it is judged by: the measurement, or else the arithmetic."""
        truths = [v for v in (self.measured, self.predicted) if isinstance(v, Real)]
        return self.guess / truths[0] if self.guess is not None and any(truths[:1]) else None

    def cells(self) -> tuple[str, str, str, str, str]:
        """Guess, arithmetic, machine, machine over arithmetic, guess over truth, as text."""
        guess = DASH if self.guess is None else units.measured(_rounded(self.guess, self.unit))
        off = DASH if self.guess_ratio is None else units.measured(units.ratio(self.guess_ratio))
        if self.measured is ABSENT and isinstance(self.predicted, Real):
            arithmetic = units.quantity(self.predicted, self.unit)
        else:
            arithmetic = _text(self.predicted, self.unit, units.UNKNOWN)
        machine = _text(self.measured, self.unit, units.NOT_REACHED)
        return guess, arithmetic, machine, self._verdict(), off

    def _verdict(self) -> str:
        if ABSENT in (self.measured, self.predicted):
            return DASH
        if self.ratio is None:
            return f"{units.MEASURED} not comparable"
        return "exact" if self._is_exact() else units.measured(units.ratio(self.ratio))

    def _is_exact(self) -> bool:
        return isinstance(self.measured, Integral) and self.measured == self.predicted

    def explanation(self) -> str:
        """One sentence about the gap, chosen from what was measured."""
        if ABSENT in (self.measured, self.predicted):
            return ""
        if self._is_exact():
            return "The count is exact."
        if not self.trusted:
            return f"On this machine the measurement is not comparable: {self.reason}."
        if self.measured is None:
            return "On this machine this was not measured, so there is no ratio."
        if self.predicted is None:
            return (
                "On this machine no datasheet says what to expect: what it reached is the measure."
            )
        return f"On this machine {self._gap()}"

    def _gap(self) -> str:
        if self.ratio is None:
            return "one of the two is 0, so there is no ratio."
        if self.ratio > CLOSE:
            return f"it came to {units.ratio(self.ratio)} the arithmetic: {self.above}."
        if self.ratio < 1 / CLOSE:
            return f"it came to {units.ratio(self.ratio)} the arithmetic: {self.below}."
        off = abs(self.ratio - 1)
        return f"the arithmetic and the measurement agree within {max(off, 0.001):.1%}."

    def as_table(self) -> Table:
        """The comparison as one row."""
        head = ("your guess", "the arithmetic", "this machine", "machine / arithmetic")
        return table(head, [self.cells()[:4]], title=self.what, note=self.explanation())

    def __repr__(self) -> str:
        return repr(self.as_table())

    def _repr_html_(self) -> str:
        return self.as_table()._repr_html_()


class Compare:
    """Call it to compare; `ledger()` lists every comparison of this notebook."""

    def __call__(
        self,
        *,
        id: str,
        what: str,
        unit: str,
        guess: object = None,
        predicted: object = ABSENT,
        measured: object = ABSENT,
        **reasons: str,
    ) -> Comparison:
        """Set `guess`, `predicted` and `measured` side by side and keep them in the ledger.

        Both may be a number or an instrument's result (with `.value`, `.trusted`, `.reason`).
        `unit` is one of B, FLOPs, FLOP/s, B/s, s, or a noun such as 'days'. `above` and `below` are
        the chapter's reasons for a measurement well above or below the arithmetic. A guess that is
        not a number counts as none. Raises TypeError or ValueError when `predicted` or `measured`
        is neither None nor a finite number of at least 0.
        """
        for name, reason in reasons.items():
            one_of("argument", name, ("above", "below"))
            text(name, reason)
        names = (text("id", id), text("what", what), unit if unit == "" else text("unit", unit))
        values = (_guess(guess), _value("predicted", predicted), _value("measured", measured))
        trust = _trust(predicted, measured)
        row = Comparison(*names, *values, *trust, **reasons)
        session.ledger[row.id] = row
        return row

    def ledger(self) -> Table:
        """Every comparison so far, in order, with how far each guess was off."""
        head = ("section", "quantity", "your guess", "arithmetic", "this machine")
        head = (*head, "machine / arithmetic", "guess / truth")
        rows = [(row.id, row.what, *row.cells()) for row in session.ledger.values()]
        return table(head, rows, title="Your ledger")


compare = Compare()


def _guess(guess: object) -> float | None:
    """The learner's number, or None when there is none to use; never an error."""
    if isinstance(guess, bool) or not isinstance(guess, Real):
        return None
    return float(guess) if math.isfinite(guess) and guess >= 0 else None


def _value(name: str, value: object) -> float | None | _Absent:
    """The number in `value` or in an instrument's result; None and ABSENT as they are."""
    value = getattr(value, "value", value)
    return value if value is None or value is ABSENT else number(name, value, at_least=0)


def _trust(*values: object) -> tuple[bool, str]:
    """Whether every instrument's result among `values` is trusted, and the first reason if not."""
    doubts = [v.reason for v in values if not getattr(v, "trusted", True)]
    return not doubts, doubts[0] if doubts else ""


def _text(value: float | None | _Absent, unit: str, lacking: str) -> str:
    if value is ABSENT:
        return DASH
    if value is None:
        return units.measured(lacking.removeprefix(f"{units.MEASURED} "))
    if isinstance(value, Integral):
        return units.quantity(value, unit)
    return units.measured(_rounded(value, unit))


def _rounded(value: float, unit: str) -> str:
    return units.quantity(value, unit, significant=3)
