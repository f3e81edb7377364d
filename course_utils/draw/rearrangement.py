"""Draw what a rearrangement does: the same cells before and after, each in its own colour."""

from itertools import product

import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_utils.arguments import shown, text
from course_utils.draw.picture import TINTS, Picture, canvas, style

LIMIT = 96
GAP = 0.9


def pattern(
    before: torch.Tensor, after: torch.Tensor, title: str, *, groups: torch.Tensor | None = None
) -> Picture:
    """Draw `before` and `after` side by side; a cell has the colour of its row in `before`.

    `before` has at most 3 dimensions and values that tell its cells apart, as torch.arange gives;
    in `after`, at most 4. A value that `before` lacks, such as a sum, stays white. With `groups`,
    whole numbers of the shape of `before`, a cell has the colour of its group, and cell i of
    `after`, counted in order, that of group i: for a reduction, whose results are no cells.
    """
    for name, tensor, most in (("before", before, 3), ("after", after, 4)):
        _check(name, tensor, most)
    coloured = _of_rows(before, after) if groups is None else _of_groups(before, after, groups)
    first, second = coloured
    with style():
        figure, (left, right) = canvas(9.6, 1, columns=2)
        heights = [_grid(left, before, first, "before"), _grid(right, after, second, "after")]
        figure.set_size_inches(9.6, 0.42 * max(heights) + 0.9)
        figure.suptitle(text("title", title), x=0.01, ha="left", fontsize=12.5, weight="bold")
    flat = " ".join(f"{value:g}" for value in after.flatten().tolist())
    words = f"{tuple(before.shape)} becomes {tuple(after.shape)}: {flat}"
    return Picture(figure, f"{title}\n{words}")


def _check(name: str, tensor: object, most: int) -> None:
    if not isinstance(tensor, torch.Tensor) or tensor.is_meta:
        raise TypeError(f"{name} must be a tensor with values, got {shown(tensor)}")
    if tensor.dim() > most or not 0 < tensor.numel() <= LIMIT:
        raise ValueError(
            f"{name} must have at most {most} dimensions and 1 to {LIMIT} cells, "
            f"got shape {tuple(tensor.shape)}"
        )


def _of_rows(before: torch.Tensor, after: torch.Tensor) -> tuple[list[str], list[str]]:
    """The colour of each cell of both, in order: that of its value's row in `before`."""
    width = before.shape[-1] if before.dim() else 1
    values = before.flatten().tolist()
    known = {value: TINTS[(i // width) % len(TINTS)] for i, value in enumerate(values)}
    return [known[value] for value in values], [
        known.get(value, "white") for value in after.flatten().tolist()
    ]


def _of_groups(
    before: torch.Tensor, after: torch.Tensor, groups: object
) -> tuple[list[str], list[str]]:
    """The colour of each cell of both, in order: that of its group."""
    if not isinstance(groups, torch.Tensor) or groups.shape != before.shape:
        raise ValueError(f"groups must have the shape of before, got {shown(groups)}")
    colours = [TINTS[int(group) % len(TINTS)] for group in groups.flatten()]
    return colours, [TINTS[i % len(TINTS)] for i in range(after.numel())]


def _grid(ax: Axes, x: torch.Tensor, colours: list[str], name: str) -> float:
    """Draw the tensor as grids of its last two dimensions, beside and below each other."""
    shape = (1,) * (4 - x.dim()) + tuple(x.shape)
    blocks = x.reshape(shape)
    width, height = shape[3] + GAP, shape[2] + GAP
    every = product(*(range(size) for size in shape))
    for (a, b, row, column), colour in zip(every, colours, strict=True):
        value = blocks[a, b, row, column].item()
        left, top = b * width + column, -(a * height + row)
        box = {"facecolor": colour, "edgecolor": "#999999", "linewidth": 0.6}
        ax.add_patch(Rectangle((left, top), 1, 1, **box))
        ax.text(left + 0.5, top + 0.5, f"{value:g}", ha="center", va="center", fontsize=8.5)
    ax.set(xlim=(-0.3, max(shape[1] * width, 8)), ylim=(1 - shape[0] * height, 1.3))
    ax.set_title(f"{name}: shape {tuple(x.shape)}", fontsize=11, weight="normal")
    ax.set_aspect("equal", anchor="NW")
    ax.axis("off")
    return shape[0] * height + 0.5
