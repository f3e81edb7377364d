"""Guess, arithmetic and measurement side by side, the ratio, and the sentence that explains it.

A whole number is a count and exact; a float depends on the machine and carries the ≈ mark.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from math import ceil, isfinite
from numbers import Integral, Real

from course_utils import units
from course_utils.arguments import number, one_of, positive, shown, text
from course_utils.reasons import reason as bound_reason
from course_utils.session import session
from course_utils.table import Table, table

CLOSE = 1.25  # within a quarter either way counts as agreement
EXACT = 1e-9  # floats that differ by less are equal but for rounding
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
    above: str = ""
    below: str = ""
    near: str = ""
    remark: str = ""

    @property
    def ratio(self) -> float | None:
        """Measured over predicted, or None if it cannot be told."""
        known = isinstance(self.measured, Real) and isinstance(self.predicted, Real)
        if not (known and self.trusted and self.measured and self.predicted):
            return None
        return _finite(self.measured / self.predicted)

    @property
    def guess_ratio(self) -> float | None:
        """The guess over what it is judged by: a trusted measurement, or else the arithmetic."""
        candidates = (self.measured if self.trusted else None, self.predicted)
        truths = [value for value in candidates if isinstance(value, Real)]
        if self.guess is None or not any(truths[:1]):
            return None
        return _finite(self.guess / truths[0])

    def cells(self) -> tuple[str, str, str, str, str]:
        """Guess, arithmetic, machine, machine over arithmetic, guess over truth, as text."""
        guess = DASH if self.guess is None else units.measured(_rounded(self.guess, self.unit))
        off = DASH if self.guess_ratio is None else units.measured(units.ratio(self.guess_ratio))
        if self.measured is ABSENT and isinstance(self.predicted, Real):
            arithmetic = units.quantity(self.predicted, self.unit)
        else:
            arithmetic = _text(self.predicted, self.unit, units.UNKNOWN)
        machine = _text(self.measured, self.unit, "not measured here")
        if self.predicted is ABSENT and not self.trusted:  # no verdict says so
            machine += f" (unsure: {self.reason})"
        return guess, arithmetic, machine, self._verdict(), off

    def _verdict(self) -> str:
        if ABSENT in (self.measured, self.predicted):
            return DASH
        if not self.trusted:
            return f"{units.MEASURED} not comparable"
        if self._is_count():
            off = self.measured - self.predicted
            return "exact" if off == 0 else f"{'+' if off > 0 else '−'}{self._amount(abs(off))}"
        if self.ratio is None:
            return f"{units.MEASURED} not comparable"
        return units.measured(units.ratio(self.ratio))

    def _is_count(self) -> bool:
        return isinstance(self.measured, Integral) and isinstance(self.predicted, Integral)

    def _amount(self, count: int) -> str:
        return units.quantity(count, self.unit)

    def explanation(self) -> str:
        """One sentence about the gap, chosen from what was measured."""
        if ABSENT in (self.measured, self.predicted):
            return ""
        if not self.trusted:
            return f"On this machine the measurement is not to be trusted: {self.reason}."
        if self._is_count():
            off = abs(self.measured - self.predicted)
            return f"The count is off by {self._amount(off)}." if off else "The count is exact."
        if self.measured is None:
            return "On this machine this was not measured, so there is no ratio."
        if self.predicted is None:
            return (
                "On this machine no datasheet says what to expect: what it reached is the measure."
            )
        return f"On this machine {self._gap()}"

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

    def as_table(self) -> Table:
        """The comparison as one row."""
        head = ("your guess", "the arithmetic", "this machine", "machine / arithmetic")
        note = "\n".join(filter(None, [self.remark, self.explanation()]))
        return table(head, [self.cells()[:4]], title=self.what, note=note)

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
        bounds: Mapping[str, object] | None = None,
        **reasons: str,
    ) -> Comparison:
        """Set `guess`, `predicted` and `measured` side by side and keep them in the ledger.

        Both may be a number or an instrument's result (with `.value`, `.trusted`, `.reason`).
        `unit` is one of B, FLOPs, FLOP/s, B/s, s, or a noun such as 'days'. `above`, `near` and
        `below` are the chapter's sentences for a measurement well above, within a quarter of, or
        well below the arithmetic; `bounds` (flops, nbytes, limits) lets the measurements choose
        the reason instead: see `course_utils.reasons`. A guess that is not a number counts as
        none, and a remark says so. Raises TypeError or ValueError when `predicted` or `measured`
        is neither None nor a finite number of at least 0.
        """
        for name, reason in reasons.items():
            one_of("argument", name, ("above", "near", "below"))
            text(name, reason)
        unit = unit if unit == "" else text("unit", unit)
        names = (text("id", id), text("what", what), unit)
        values = (_guess(guess), _value("predicted", predicted), _value("measured", measured))
        for name, value in (("predicted", predicted), ("measured", measured)):
            if getattr(value, "unit", unit) != unit:
                raise ValueError(f"unit is {unit!r}, but {name} is in {value.unit!r}")
        if bounds and unit != "s":
            raise ValueError(f"bounds explain times: unit must be 's', got {unit!r}")
        trust = _trust(predicted, measured, bounds and bounds.get("limits"))
        if bounds and isinstance(values[2], Real) and values[2] > 0:
            reasons = dict.fromkeys(("above", "below", "near"), bound_reason(values[2], **bounds))
        remark = _remark(guess, values[0])
        row = Comparison(*names, *values, *trust, **reasons, remark=remark)
        session.ledger[row.id] = row
        return row

    def mfu(self, *, flops: float, time: object, peak: object) -> str:
        """One sentence: the share of `peak` that `flops` in `time` reached (a model's: its MFU).

        `time` and `peak` are results of `measure.time` and `measure.peak`. What is not to be
        trusted, and a share above 1, reads as such.
        """
        for name, given in (("time", time), ("peak", peak)):
            if not hasattr(given, "value"):
                raise TypeError(f"{name} must come from measure.{name}, got {shown(given)}")
        trusted, reason = _trust(time, peak)
        share = positive("flops", getattr(flops, "value", flops)) / time.value / peak.value
        if not trusted:
            words = f"the MFU cannot be told: {reason}"
        elif share > 1.05 and peak.kind == "promised":
            words = f"the MFU would be {share:.2f}: above 1, so FLOPs, time or format are mistaken"
        elif share > 1.05:
            words = f"the MFU would be {share:.2f}, and above 1 it shows that the peak is too low"
        else:
            words = f"the MFU is {share:.2f}, of the {peak.kind} {peak.dtype} peak"
        return Sentence(f"On this machine {words}.")

    def ledger(self) -> Table:
        """Every comparison so far, in order, with how far each guess was off."""
        head = ("section", "quantity", "your guess", "arithmetic", "this machine")
        head = (*head, "machine / arithmetic", "guess / truth")
        rows = [(row.id, row.what, *row.cells()) for row in session.ledger.values()]
        return table(head, rows, title="Your ledger")


class Sentence(str):
    """A text that a notebook shows without quotes."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<p>\n{escape(self)}\n</p>"


compare = Compare()


def _finite(ratio: float) -> float | None:
    return ratio if isfinite(ratio) and ratio else None


def _guess(guess: object) -> float | None:
    """The learner's number, or None when there is none to use; never an error."""
    try:
        return float(number("guess", guess, at_least=0))
    except (TypeError, ValueError):
        return None


def _remark(guess: object, used: float | None) -> str:
    """A sentence about a guess that was given and could not be used."""
    if guess is None or used is not None:
        return ""
    return f"Your guess must be a plain number of at least 0, got {shown(guess)}."


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
