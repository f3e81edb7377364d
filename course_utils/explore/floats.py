"""The bit explorer: a value in six formats at once, and every bit of one of them as a button."""

from fractions import Fraction
from functools import partial
from math import copysign, isfinite, isnan

import ipywidgets as widgets

from course_utils import draw, formats, units
from course_utils.arguments import one_line
from course_utils.draw.picture import Picture
from course_utils.explore.amount import ONE_AT_A_TIME
from course_utils.explore.panel import Explorer, buttons

COLOURS = {"sign": "#E8B9D2", "exponent": "#FFBF86", "mantissa": "#9ECAE9"}
MOST_BITS = max(form.bits for form in formats.FORMATS.values())


class FloatExplorer(Explorer):
    """A text for the value, buttons for the format, and its bits as buttons that flip."""

    def __init__(self, value: str) -> None:
        self._bits = [self._button(left) for left in range(MOST_BITS)]
        self._row = widgets.Box(layout=widgets.Layout(flex_flow="row wrap"))
        controls = {
            "value": widgets.Text(description="value", value=value),
            "name": buttons("bits of", list(formats.FORMATS), "float32"),
        }
        super().__init__(controls, _picture)
        *shown, image, words, labels = self.box.children
        self.box.children = (*shown, self._row, image, words, labels)

    def _show(self) -> None:
        super()._show()
        self._fill(**self._drawn)

    def _fill(self, value: str, name: str) -> None:
        """Give each bit's button its digit and part; they stay, so that one keeps the focus."""
        parts = zip(COLOURS, formats.fields(formats.encode(value, name), name), strict=True)
        bits = [(part, bit) for part, digits in parts for bit in digits]
        for place, (button, (part, bit)) in enumerate(zip(self._bits, bits, strict=False)):
            button.description, button.style.button_color = bit, COLOURS[part]
            button.tooltip = f"flip bit {len(bits) - 1 - place} ({part})"
        if len(self._row.children) != len(bits):
            self._row.children = self._bits[: len(bits)]

    def _button(self, left: int) -> widgets.Button:
        layout = widgets.Layout(width="1.8em", padding="0", margin="1px")
        button = widgets.Button(layout=layout, style={"text_color": "black"})
        button.on_click(partial(self._flip, left))
        return button

    def _flip(self, left: int, _: widgets.Button) -> None:
        """Flip the bit with `left` others before it, in the format that the buttons show."""
        with ONE_AT_A_TIME:
            name = self._drawn["name"]
            place = formats.FORMATS[name].bits - 1 - left
            flipped = formats.decode(self._pattern(name) ^ (1 << place), name)
            negative = isnan(flipped) and copysign(1, flipped) < 0  # repr drops a NaN's sign
            self.controls["value"].value = "-nan" if negative else repr(flipped)

    def _pattern(self, name: str) -> int:
        """The bits of the typed value, of the drawn one if that cannot be read."""
        try:
            return formats.encode(self.controls["value"].value, name)
        except ValueError:
            return formats.encode(self._drawn["value"], name)


def float_bits(value: str = "19303.0890") -> FloatExplorer:
    """Type a value and see its bits in six formats; press a bit of one of them to flip it."""
    return FloatExplorer(value)


def _picture(value: str, name: str) -> Picture:
    rows = {each: _row(value, each) for each in formats.FORMATS}
    picture = draw.bits(rows, f"{one_line(value, 60)} in six formats", chosen=name)
    pattern = formats.encode(value, name)
    below, above = formats.neighbours(pattern, name)
    gap = units.digits(formats.spacing(pattern, name), 3)
    beside = f"{name} beside it: {below:.10g} and {above:.10g}, spacing {gap}."
    return Picture(picture.figure, f"{picture.text}\n{beside}")


def _row(value: str, name: str) -> tuple[str, str, str, str]:
    """Sign, exponent, mantissa, and the stored value with its error."""
    pattern = formats.encode(value, name)
    stored = formats.decode(pattern, name)
    return (*formats.fields(pattern, name), f"= {stored:.12g}{_error(value, stored)}")


def _error(value: str, stored: float) -> str:
    """How far the stored value is off, relative to the value that was typed."""
    typed = formats.exact(value)
    if isinstance(typed, float) or not isfinite(stored):
        return ""
    off = abs(typed - Fraction(stored)) / abs(typed)
    return ", exact" if off == 0 else f", off by {units.digits(float(off), 2)} of it"
