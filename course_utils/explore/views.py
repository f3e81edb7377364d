"""The storage explorer: slice, step and transpose a small matrix and watch what it reads."""

import ipywidgets as widgets
import torch

from course_utils import draw
from course_utils.draw.picture import Picture
from course_utils.explore.panel import Explorer, slider

ROWS, COLUMNS = 4, 4


def storage() -> Explorer:
    """A 4×4 matrix of 100 to 115, sliced by sliders, transposed by a checkbox."""
    whole = widgets.IntSlider
    controls = {
        "first_row": slider(whole, "first row", value=0, min=0, max=ROWS - 1),
        "row_step": slider(whole, "row step", value=2, min=1, max=3),
        "first_column": slider(whole, "first column", value=1, min=0, max=COLUMNS - 1),
        "column_step": slider(whole, "column step", value=1, min=1, max=3),
        "transposed": widgets.Checkbox(description="transpose (.T)", value=False),
    }
    return Explorer(controls, _view)


def _view(
    first_row: int, row_step: int, first_column: int, column_step: int, transposed: bool
) -> Picture:
    x = torch.arange(100, 100 + ROWS * COLUMNS).view(ROWS, COLUMNS)
    view = x[first_row::row_step, first_column::column_step]
    view = view.T if transposed else view
    code = f"x[{first_row}::{row_step}, {first_column}::{column_step}]{'.T' * transposed}"
    order = "contiguous" if view.is_contiguous() else "not contiguous"
    picture = draw.storage(view, f"{code}: {order}, a view of the same storage")
    return Picture(picture.figure, f"{code} is {order}.\n{picture.text}")
