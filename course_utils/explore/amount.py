"""A number that is typed exactly or moved along a slider, as the learner likes."""

import re
from collections.abc import Callable, Sequence
from fractions import Fraction
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
}
NUMBER = re.compile(r"([-+]?[\d._]+(?:e[-+]?\d{1,2})?) *([a-z]*|%)", re.IGNORECASE)
THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


class Amount:
    """A text field that holds the number, and a slider of round numbers beside it.

    The text is the one truth, so that nothing can disagree with it: the slider writes into it, and
    stands at its round number that is nearest to what was typed.
    """

    def __init__(
        self, description: str, value: float, grid: Sequence[float], limits: tuple[float, float],
        *, whole: bool = False,
    ) -> None:  # fmt: skip
        self.description, self.limits, self.whole = description, limits, whole
        self._grid = [float(each) for each in grid]
        self.text = widgets.Text(
            written(value),
            description=description,
            continuous_update=False,
            layout=widgets.Layout(width="21em"),
            style={"description_width": "11em"},
        )
        self.slider = widgets.SelectionSlider(
            options=[written(each) for each in grid],
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
        number = read(self.description, self.text.value)
        low, high = self.limits
        if not low <= float(number) <= high or (self.whole and number.denominator > 1):
            kind = "a whole number " if self.whole else ""
            raise ValueError(
                f"{self.description} must be {kind}from {written(low)} to {written(high)}, "
                f"got {one_line(self.text.value, 40)!r}"
            )
        return int(number) if self.whole else float(number)

    @value.setter
    def value(self, number: float) -> None:
        self.text.value = written(number)

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


def written(number: float) -> str:
    """A number as the field shows it, in words where `read` gives it back exactly."""
    words = units.amount(number, significant=15)
    return words if float(read("number", words)) == number else repr(number)
