"""The bit explorer: a value in six formats at once, and every bit of one of them as a button."""

from fractions import Fraction
from math import isfinite

import ipywidgets as widgets

from course_utils import draw, units
from course_utils import formats as floats
from course_utils.draw.picture import Picture
from course_utils.explore.panel import Explorer, buttons

COLOURS = ("#E8B9D2", "#FFBF86", "#9ECAE9")


class FloatExplorer(Explorer):
    """A text for the value, buttons for the format, and its bits as buttons that flip."""

    def __init__(self, value: str) -> None:
        self._row = widgets.Box(layout=widgets.Layout(flex_flow="row wrap"))
        controls = {
            "value": widgets.Text(description="value", value=value),
            "name": buttons("bits of", list(floats.FORMATS), "float32"),
        }
        super().__init__(controls, _picture)
        *shown, image, words = self.box.children
        self.box.children = (*shown, self._row, image, words)
        self._fill()

    def _update(self, change: object) -> None:
        super()._update(change)
        if not self._words.value.startswith("<p>✗"):
            self._fill()

    def _fill(self) -> None:
        """A button for each bit of the chosen format, coloured by what it belongs to."""
        name = self.controls["name"].value
        pattern = floats.encode(self.controls["value"].value, name)
        made, place = [], floats.FORMATS[name].bits
        for part, colour in zip(floats.fields(pattern, name), COLOURS, strict=True):
            for bit in part:
                place -= 1
                made.append(self._button(bit, colour, pattern ^ (1 << place), name))
        self._row.children = made

    def _button(self, bit: str, colour: str, flipped: int, name: str) -> widgets.Button:
        layout = widgets.Layout(width="1.9em", padding="0", margin="1px")
        style = {"button_color": colour, "text_color": "black"}
        button = widgets.Button(
            description=bit, layout=layout, style=style, tooltip="flip this bit"
        )
        button.on_click(lambda _: self._set(flipped, name))
        return button

    def _set(self, pattern: int, name: str) -> None:
        self.controls["value"].value = repr(floats.decode(pattern, name))


def float_bits(value: str = "19303.0890") -> FloatExplorer:
    """Type a value and see its bits in six formats; press a bit of one of them to flip it."""
    return FloatExplorer(value)


def _picture(value: str, name: str) -> Picture:
    rows = {each: _row(value, each) for each in floats.FORMATS}
    picture = draw.bits(rows, f"{value} in six formats", chosen=name)
    pattern = floats.encode(value, name)
    below, above = floats.neighbours(pattern, name)
    gap = units.digits(floats.spacing(pattern, name), 3)
    beside = f"{name} beside it: {below:.10g} and {above:.10g}, spacing {gap}."
    return Picture(picture.figure, f"{picture.text}\n{beside}")


def _row(value: str, name: str) -> tuple[str, str, str, str]:
    """Sign, exponent, mantissa, and the stored value with its error."""
    pattern = floats.encode(value, name)
    stored = floats.decode(pattern, name)
    return (*floats.fields(pattern, name), f"= {stored:.12g}{_error(value, stored)}")


def _error(value: str, stored: float) -> str:
    """How far the stored value is off, relative to the value that was typed."""
    typed = floats.exact(value)
    if isinstance(typed, float) or not isfinite(stored):
        return ""
    off = abs(typed - Fraction(stored)) / abs(typed)
    return ", exact" if off == 0 else f", off by {units.digits(float(off), 2)} of it"
