"""A number that is typed exactly or moved along a slider, as the learner likes."""

import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import chain
from math import log
from threading import RLock

import ipywidgets as widgets

from course_utils import units
from course_utils.arguments import one_line

# JupyterLab may call from a thread beside the main one: explorers change one at a time.
ONE_AT_A_TIME = RLock()

FACTORS = {
    "": Fraction(1),
    "%": Fraction(1, 100),
    **dict.fromkeys(("k", "thousand"), Fraction(10**3)),
    **dict.fromkeys(("m", "million"), Fraction(10**6)),
    **dict.fromkeys(("g", "b", "bn", "billion"), Fraction(10**9)),
    **dict.fromkeys(("t", "tn", "trillion"), Fraction(10**12)),
    "p": Fraction(10**15),
}
NUMBER = re.compile(r"([-+]?[\d._]+(?:e[-+]?\d{1,2})?) *([a-z]*|%)", re.IGNORECASE)
THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


class Amount:
    """A text field that holds the number, and a slider of round numbers beside it.

    The text is the one truth, so that nothing can disagree with it: the slider writes into it, and
    stands at its round number that is nearest to what was typed. A `unit`, FLOP/s or B/s, stands
    behind the number and may be left out.
    """

    def __init__(
        self, description: str, value: float, grid: Sequence[float], limits: tuple[float, float],
        *, whole: bool = False, unit: str = "",
    ) -> None:  # fmt: skip
        self.description, self.limits, self.whole = description, limits, whole
        self.unit = unit
        self._grid = [float(each) for each in grid]
        self.text = widgets.Text(
            written(value, unit),
            description=description,
            continuous_update=False,
            layout=widgets.Layout(width="21em"),
            style={"description_width": "11em"},
        )
        self.slider = widgets.SelectionSlider(
            options=[written(each, unit) for each in grid],
            index=self._nearest(),
            readout=False,
            layout=widgets.Layout(width="22em"),
        )
        self.slider.observe(self._moved, names="index")
        self.text.observe(self._typed, names="value")
        layout = widgets.Layout(flex_flow="row wrap")
        self.box = widgets.HBox([self.text, self.slider], layout=layout)

    @property
    def value(self) -> float | int:
        """The number in the text field; ValueError says why it cannot be read or used."""
        number = read(self.description, without(self.unit, self.text.value))
        low, high = self.limits
        if not low <= float(number) <= high or (self.whole and number.denominator > 1):
            kind = "a whole number " if self.whole else ""
            raise ValueError(
                f"{self.description} must be {kind}from {written(low, self.unit)} to "
                f"{written(high, self.unit)}, got {one_line(self.text.value, 40)!r}"
            )
        return int(number) if self.whole else float(number)

    @value.setter
    def value(self, number: float) -> None:
        self.text.value = written(number, self.unit)

    def observe(self, handler: Callable, names: str = "value") -> None:
        """Call `handler` when the number changes."""
        self.text.observe(handler, names=names)

    def _moved(self, _: object) -> None:
        with ONE_AT_A_TIME:
            if self.slider.index != self._nearest():
                self.text.value = self.slider.value

    def _typed(self, _: object) -> None:
        with ONE_AT_A_TIME:
            nearest = self._nearest()
            if nearest is not None:
                self.slider.index = nearest

    def _nearest(self) -> int | None:
        """Where the slider belongs; None while the text cannot be read."""
        try:
            number = self.value
        except ValueError:
            return None
        return min(range(len(self._grid)), key=lambda i: abs(log(self._grid[i] / number)))


def read(name: str, text: str) -> Fraction:
    """The exact number that a text such as 70e9, 70G, 70 billion, 1,024 or 38% stands for."""
    found = NUMBER.fullmatch(THOUSANDS.sub("", text.strip()))
    try:
        return Fraction(found[1]) * FACTORS[found[2].lower()]
    except (TypeError, KeyError, ValueError):
        raise ValueError(
            f"{name} must read as a number, such as 70e9, 70G, 70 billion, 0.5 or 50%, "
            f"got {one_line(text, 40)!r}"
        ) from None


def without(unit: str, text: str) -> str:
    """A text without the unit at its end, in whatever case it is written."""
    text = text.strip()
    return text[: -len(unit)] if unit and text.lower().endswith(unit.lower()) else text


def written(number: float, unit: str = "") -> str:
    """A number as the field shows it, in words where `read` gives it back exactly."""
    exact = {"significant": 15}
    words = units.rate(number, unit=unit, **exact) if unit else units.amount(number, **exact)
    same = float(read("number", without(unit, words))) == number
    return words if same else f"{number!r} {unit}".strip()


def tenths(first: int, last: int) -> list[int]:
    """Round numbers from 10**first to 10**last (first at least 1), twelve a factor of ten."""
    steps = (10, 12, 15, 20, 25, 30, 40, 50, 60, 70, 80, 90)
    decades = ([step * 10**power // 10 for step in steps] for power in range(first, last))
    return [*chain(*decades), 10**last]


def doublings(first: int, last: int) -> list[int]:
    """Whole numbers from 2**first to 2**last, two a factor of two: 1, 2, 3, 4, 6, 8, 12, ..."""
    between = (3 * 2**power for power in range(max(first - 1, 0), last - 1))
    return sorted([*between, *(2**power for power in range(first, last + 1))])
