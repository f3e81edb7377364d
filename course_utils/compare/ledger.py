"""Guess, arithmetic and measurement side by side: `compare(...)`, and the ledger of them all."""

import re
from collections.abc import Mapping
from numbers import Real

from course_utils import units
from course_utils.arguments import count, number, positive, shown, text
from course_utils.compare.bounds import bound
from course_utils.compare.comparison import ABSENT, Absent, Comparison
from course_utils.compare.kept import plain, rows
from course_utils.compare.trends import trend
from course_utils.session import in_order, session, sync
from course_utils.table import Sentence, Table, first_doubt, table


class Compare:
    """Call it to compare; `ledger()` lists the comparisons."""

    bound = staticmethod(bound)
    trend = staticmethod(trend)

    def __call__(
        self,
        *,
        id: str,
        what: str,
        unit: str,
        guess: object = ABSENT,
        predicted: object = ABSENT,
        measured: object = ABSENT,
        above: str = "",
        near: str = "",
        below: str = "",
        because: Mapping[str, object] | None = None,
        slips: Mapping[str, float] | None = None,
    ) -> Comparison:
        """Set `guess`, `predicted` and `measured` side by side and keep them in the ledger.

        Arithmetic and measurement may be numbers or an instrument's results (with `.value` and
        `.doubt`). `unit` is one of B, FLOPs, FLOP/s, B/s, s, or a noun such as 'days'. `above`,
        `near` and `below` are the chapter's sentences for a measurement well above, within a
        quarter of, or well below the arithmetic; `because` (flops, nbytes, limits) lets the
        measurements choose the sentence instead: see `bound`. A guess is answered at once: how far
        off it is, and the mistake it betrays: one of the chapter's own `slips`, which map a
        sentence ('you counted the multiplications only: ...') to the number it leads to, or a
        general one. A guess that is not a number counts as none, and a remark says so.

        Raises TypeError for an unknown keyword, and TypeError or ValueError when `predicted` or
        `measured` is neither None nor a finite number of at least 0, or a slip's number is not one.
        """
        sentences = {"above": above, "near": near, "below": below}
        for name, words in sentences.items():
            if words != "":
                text(name, words)
        unit = unit if unit == "" else text("unit", unit)
        names = (text("id", id), text("what", what), unit)
        values = (_guess(guess), _value("predicted", predicted), _value("measured", measured))
        for name, value in (("predicted", predicted), ("measured", measured)):
            if getattr(value, "unit", unit) != unit:
                raise ValueError(f"unit is {unit!r}, but {name} is in {value.unit!r}")
        if because is not None:
            sentences = _sentences(because, unit, measured)
        doubt = first_doubt(predicted, measured, (because or {}).get("limits"))
        remark = _remark(guess, values[0])
        said = {"remark": remark, "launch": "" if because is not None else _launch(measured)}
        row = Comparison(*names, *values, doubt, **sentences, slips=_slips(slips or {}), **said)
        session.ledger[row.id] = plain(row)
        sync()
        return row

    def mfu(self, *, flops: object, time: object, peak: object, devices: int = 1) -> str:
        """One sentence: the share of the peak that `flops` in `time` reached (a model's: its MFU).

        `time` and `peak` are a result of `measure.time` and a peak of `measure`, of one device;
        `devices` is how many of them did the `flops` together. What is not to be trusted, and a
        share above 1, reads as such. Raises TypeError or ValueError for anything else, and for 0.
        """
        if not hasattr(time, "value") or getattr(time, "unit", "") != "s":
            raise TypeError(f"time must come from measure.time, got {shown(time)}")
        if not hasattr(peak, "value") or not hasattr(peak, "dtype"):
            raise TypeError(f"peak must come from measure.reference_peak, got {shown(peak)}")
        if hasattr(flops, "kind") or getattr(flops, "unit", "") == "s":
            raise TypeError(f"flops must come from predict or measure.flops, got {shown(flops)}")
        seconds = positive("time", getattr(time, "per_call", time.value))
        rate = positive("peak", peak.value)
        share = positive("flops", getattr(flops, "value", flops)) / seconds / rate
        share /= count("devices", devices)
        doubt = first_doubt(flops, time, peak)
        if doubt:
            words = f"the MFU cannot be told: {doubt}"
        elif share > 1.05 and peak.kind == "datasheet":
            words = f"the MFU would be {share:.2f}: above 1, so FLOPs, time or format are mistaken"
        elif share > 1.05:
            words = f"the MFU would be {share:.2f}, and above 1 it shows that the peak is too low"
        else:
            words = f"the MFU is {share:.2f}, of the {peak.kind} {peak.dtype} peak"
        return Sentence(f"On this machine {words}.")

    def ledger(self, chapter: str | None = None) -> Table:
        """A chapter's comparisons ("04"), or all, by section, with how far each guess was off.

        Raises TypeError when `chapter` is neither None nor a text.
        """
        start = "" if chapter is None else f"{text('chapter', chapter)}."
        title = "Your ledger" if chapter is None else f"Your ledger of chapter {chapter}"
        every = rows(sync().ledger)
        here = [every[id] for id in in_order(every) if id.startswith(start)]
        head = ("section", "quantity", "your guess", "arithmetic", "this machine")
        head = (*head, "machine / arithmetic", "guess / truth")
        lines = [(row.id, row.what, *map(_short, row.cells())) for row in here]
        return table(head, lines, title=title)


compare = Compare()


def _short(cell: str) -> str:
    """A cell without the reason of its doubt, which stands under the comparison itself."""
    return re.sub(r"\(unsure: .*\)$", "(unsure)", cell)


def _guess(guess: object) -> float | None | Absent:
    """The learner's number, or None when there is none to use; never an error."""
    if guess is ABSENT:
        return ABSENT
    try:
        return float(number("guess", guess))
    except (TypeError, ValueError):
        return None


def _remark(guess: object, used: float | None | Absent) -> str:
    """A sentence about a guess that was given and could not be used."""
    if guess is None or used is not None:
        return ""
    return f"Your guess must be a plain number, got {shown(guess)}."


def _launch(measured: object) -> str:
    """A sentence about a time on the device that Python's launching exceeds, else ''."""
    if not getattr(measured, "launch_bound", False):
        return ""
    return f"Launched from Python, a call takes {units.duration(measured.per_call, significant=3)}."


def _value(name: str, value: object) -> float | None | Absent:
    """The number in `value` or in an instrument's result; None and ABSENT as they are."""
    value = getattr(value, "value", value)
    return value if value is None or value is ABSENT else number(name, value, at_least=0)


def _sentences(because: Mapping[str, object], unit: str, measured: object) -> dict[str, str]:
    """The sentence that the bounds choose for a measured time, wherever the time lies."""
    if unit != "s":
        raise ValueError(f"because explains times: unit must be 's', got {unit!r}")
    value = getattr(measured, "value", measured)
    known = isinstance(value, Real) and value > 0
    words = bound(measured, **because) if known else ""
    return dict.fromkeys(("above", "near", "below"), words)


def _slips(slips: object) -> dict[str, float]:
    """Each slip's sentence and its number, checked."""
    if not isinstance(slips, Mapping):
        raise TypeError(f"slips must map sentences to numbers, got {shown(slips)}")
    return {text("a slip", words): number(f"slips[{words!r}]", n) for words, n in slips.items()}
