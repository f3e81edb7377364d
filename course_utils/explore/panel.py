"""What every explorer is: controls that work by keyboard, a picture, and its words."""

import asyncio
from collections.abc import Callable, Mapping
from html import escape
from threading import get_ident

import ipywidgets as widgets

from course_utils.draw.picture import PIXELS_PER_INCH, Picture
from course_utils.explore.amount import ONE_AT_A_TIME, Amount
from course_utils.explore.labels import ROOT, labels

ALLOWED = (
    Amount,
    widgets.IntSlider,
    widgets.FloatSlider,
    widgets.FloatLogSlider,
    widgets.SelectionSlider,
    widgets.ToggleButtons,
    widgets.Checkbox,
    widgets.Button,
    widgets.Text,
    widgets.FloatText,
    widgets.IntText,
)


class Explorer:
    """Controls by name, and a function that turns their values into a `Picture`.

    In Lab it shows live controls; slides, GitHub and paper show the picture of the moment. A
    combination of values that the function rejects (ValueError) is explained under the picture,
    which stays as it was.

    JupyterLab may hand a control's messages to a second thread. matplotlib and its settings belong
    to the first, where the learner's cells run: so whatever thread a change comes by, the thread
    that made the explorer draws it, and draws what the controls hold by then.
    """

    def __init__(self, controls: Mapping[str, object], picture: Callable[..., Picture]) -> None:
        for name, control in controls.items():
            _check(name, control)
        self.controls = dict(controls)
        self._picture = picture
        self._home, self._loop = get_ident(), _running_loop()
        self._writing = False
        self._drawn = self.values()
        self.current = picture(**self._drawn)
        self._image = widgets.Image(format="png", layout=widgets.Layout(max_width="100%"))
        self._words = widgets.HTML()
        shown = [getattr(control, "box", control) for control in self.controls.values()]
        self.box = widgets.VBox([*shown, self._image, self._words, labels()])
        self.box.add_class(ROOT)
        self._show()
        for control in self.controls.values():
            control.observe(self._changed, names="value")

    def values(self) -> dict[str, object]:
        """The present value of each control, by name; ValueError if one cannot be read."""
        return {name: control.value for name, control in self.controls.items()}

    def write(self, **values: object) -> None:
        """Set the controls of these names, and draw once."""
        with ONE_AT_A_TIME:
            self._writing = True
            try:
                for name, value in values.items():
                    self.controls[name].value = value
            finally:
                self._writing = False
        self._changed(None)

    def _changed(self, _: object) -> None:
        if self._writing:
            return
        if self._loop is None or get_ident() == self._home:
            self._redraw()
        else:
            self._loop.call_soon_threadsafe(self._redraw)

    def _redraw(self) -> None:
        """Show what the controls hold now; nothing is left to do where an earlier call did."""
        with ONE_AT_A_TIME:
            try:
                values = self.values()
                if values != self._drawn:
                    self.current, self._drawn = self._picture(**values), values
                    self._show()
            except ValueError as error:
                self._say(f"✗ {error}\nThe picture stays as it was.")
            else:
                self._say(self.current.text)

    def _show(self) -> None:
        """Put the present picture and its words on the page."""
        width, height = self.current.figure.get_size_inches() * PIXELS_PER_INCH
        self._image.width, self._image.height = f"{width:.0f}", f"{height:.0f}"
        self._image.value = self.current.quick()
        self._say(self.current.text)

    def _say(self, words: str) -> None:
        lines = escape(words).replace("\n", "<br>")
        self._words.value = f"<p>{lines}</p>"

    def _repr_mimebundle_(self, **options: object) -> tuple[dict[str, object], dict[str, object]]:
        with ONE_AT_A_TIME:
            still, size = self.current._repr_mimebundle_()
        return {**self.box._repr_mimebundle_(**options), **still}, size


def _check(name: str, control: object) -> None:
    if not isinstance(control, ALLOWED):
        kind = type(control).__name__
        raise TypeError(f"control {name!r} must work by keyboard in Lab; {kind} does not")
    if not control.description:
        raise ValueError(f"control {name!r} must have a description")


def _running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that this thread runs, as a notebook's cells do; None in a script."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def slider(kind: type[widgets.Widget], description: str, **options: object) -> widgets.Widget:
    """A slider wide enough for its description and for fine steps."""
    layout = widgets.Layout(width="36em", max_width="100%")
    wide = {"description_width": "11em"}
    return kind(description=description, layout=layout, style=wide, **options)


def buttons(description: str, options: list, value: object) -> widgets.ToggleButtons:
    """A row of buttons of which one is chosen."""
    return widgets.ToggleButtons(
        description=description,
        options=options,
        value=value,
        style={"description_width": "11em", "button_width": "auto"},
    )


def row(description: str, shown: list[widgets.Widget]) -> widgets.HBox:
    """What is `shown` side by side, behind a description that lines up with those of controls."""
    name = widgets.Label(description, layout={"width": "11em", "justify_content": "flex-end"})
    return widgets.HBox([name, *shown], layout={"flex_flow": "row wrap"})


def writer(description: str, press: Callable[[], None]) -> widgets.Button:
    """A button as wide as its description, for values that `press` writes into controls."""
    button = widgets.Button(description=description, layout={"width": "auto"})
    button.on_click(lambda _: press())
    return button
