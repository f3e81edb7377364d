"""What every explorer is: controls that work by keyboard, a picture, and its words."""

from collections.abc import Callable, Mapping
from html import escape

import ipywidgets as widgets

from course_utils.draw.picture import Picture

ALLOWED = (
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
    """

    def __init__(
        self, controls: Mapping[str, widgets.Widget], picture: Callable[..., Picture]
    ) -> None:
        for name, control in controls.items():
            if not isinstance(control, ALLOWED):
                kind = type(control).__name__
                raise TypeError(f"control {name!r} must work by keyboard in Lab; {kind} does not")
            if not control.description:
                raise ValueError(f"control {name!r} must have a description")
        self.controls = dict(controls)
        self._picture = picture
        self.current = picture(**self.values())
        self._image = widgets.Image(format="png", layout=widgets.Layout(max_width="100%"))
        self._words = widgets.HTML()
        self.box = widgets.VBox([*self.controls.values(), self._image, self._words])
        self._show()
        for control in self.controls.values():
            control.observe(self._update, names="value")

    def values(self) -> dict[str, object]:
        """The present value of each control, by name."""
        return {name: control.value for name, control in self.controls.items()}

    def _update(self, _change: object) -> None:
        try:
            self.current = self._picture(**self.values())
        except ValueError as error:
            self._words.value = f"<p>✗ {escape(str(error))}</p>"
        else:
            self._show()

    def _show(self) -> None:
        self._image.value = self.current.png
        self._image.width, self._image.height = map(str, self.current.shown_size)
        lines = escape(self.current.text).replace("\n", "<br>")
        self._words.value = f"<p>{lines}</p>"

    def _repr_mimebundle_(self, **options: object) -> tuple[dict[str, object], dict[str, object]]:
        still, size = self.current._repr_mimebundle_()
        return {**self.box._repr_mimebundle_(**options), **still}, size


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
