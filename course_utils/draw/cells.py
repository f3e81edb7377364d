"""Draw a tensor beside its storage: which cells it reads, in which order."""

from collections.abc import Iterator
from itertools import product
from math import isfinite

import torch
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Rectangle

from course_utils.arguments import shape, shown, text
from course_utils.draw.picture import BLACK, TINTS, Picture, fixed, style

LIMIT = 96  # storage cells that stay legible
PER_LINE = 16
UNTOUCHED = "#EEEEEE"
GAP = 1.2
INCHES = 0.5  # a cell's edge
TITLE = 0.4  # inches above the axes


def storage(x: torch.Tensor, title: str = "", *, mark: tuple[int, ...] | None = None) -> Picture:
    """Draw the tensor `x` (at most 3 dimensions) above its whole storage.

    Each row has a colour, in the tensor and in the storage cells it reads; cells that `x` does not
    touch stay grey. `mark` frames one element in both. Raises TypeError for what is not a tensor
    and ValueError for one without readable storage, or too large to draw.
    """
    cells = _checked(x)
    mark = None if mark is None else shape("mark", mark)
    if mark is not None and mark not in {index for index, _ in _elements(x)}:
        raise ValueError(f"mark must be an index of the shape {tuple(x.shape)}, got {mark}")
    with style():
        figure, (ax,) = fixed(1, 1, (0, 0, 1, 1))
        top = _draw_tensor(ax, x, cells, mark)
        width, bottom = _draw_storage(ax, x, cells, mark, top)
        _frame(ax, figure, title, width, bottom, _heading(x))
    return Picture(figure, _description(x, len(cells), mark))


def mask(allowed: torch.Tensor, title: str = "") -> Picture:
    """Draw a boolean mask of shape (queries, keys): filled where a query may look at a key."""
    if not isinstance(allowed, torch.Tensor) or allowed.dtype != torch.bool or allowed.dim() != 2:
        raise TypeError(
            f"allowed must be a boolean tensor of shape (queries, keys), got {shown(allowed)}"
        )
    if not 0 < allowed.numel() <= 4 * LIMIT:
        raise ValueError(f"allowed must have 1 to {4 * LIMIT} cells, got {allowed.numel()}")
    rows, columns = allowed.shape
    with style():
        figure, (ax,) = fixed(1, 1, (0, 0, 1, 1))
        for row, column in product(range(rows), range(columns)):
            allows = bool(allowed[row, column])
            _cell(ax, column, -row, "1" if allows else "0", TINTS[0] if allows else UNTOUCHED)
        ax.text(columns / 2, 1.35, "keys →", ha="center", color=BLACK)
        ax.text(-0.25, 1 - rows / 2, "queries →", rotation=-90, ha="right", va="center")
        _frame(ax, figure, title, max(columns, 8), 1 - rows, "", top=1.9)
    seen = "; ".join(f"query {r} sees {_listed(allowed[r])}" for r in range(rows))
    return Picture(figure, f"Mask of shape ({rows}, {columns}): {seen}.")


def _listed(row: torch.Tensor) -> str:
    keys = row.nonzero().flatten().tolist()
    return "keys " + " ".join(map(str, keys)) if keys else "no key"


def _checked(x: torch.Tensor) -> list:
    """Every value in the storage of `x`, or an error that says why it cannot be drawn."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"x must be a tensor, got {shown(x)}")
    if x.layout != torch.strided:
        raise ValueError(f"x must have one storage with strides to be drawn, got {x.layout}")
    if x.is_meta:
        raise ValueError("x lies on the meta device, which has shapes but no storage to draw")
    if x.dim() > 3:
        raise ValueError(
            f"x must have at most 3 dimensions to be drawn, got shape {tuple(x.shape)}"
        )
    flat = torch.empty(0, dtype=x.dtype, device=x.device).set_(x.untyped_storage())
    size = max(flat.numel(), x.numel())
    if size > LIMIT:
        raise ValueError(f"x must have at most {LIMIT} cells to be drawn legibly, got {size}")
    return flat.tolist()


def _elements(x: torch.Tensor) -> Iterator[tuple[tuple[int, ...], int]]:
    """Each index of `x` with its position in storage."""
    for index in product(*(range(size) for size in x.shape)):
        steps = sum(i * s for i, s in zip(index, x.stride(), strict=True))
        yield index, x.storage_offset() + steps


def _tint(x: torch.Tensor, index: tuple[int, ...]) -> str:
    """The colour of the row that `index` lies in."""
    if x.dim() < 2:
        return TINTS[0]
    rows = x.shape[-2] * (index[0] if x.dim() == 3 else 0) + index[-2]
    return TINTS[rows % len(TINTS)]


def _draw_tensor(ax: Axes, x: torch.Tensor, cells: list, mark: tuple[int, ...] | None) -> float:
    """The tensor as one grid, or one a leading index; returns the height it takes."""
    for index, where in _elements(x):
        panel = index[0] if x.dim() == 3 else 0
        row, column = ((0, 0) + index)[-2:]
        left = panel * (x.shape[-1] + GAP) + column if x.dim() == 3 else column
        _cell(ax, left, -row, cells[where], _tint(x, index), framed=index == mark)
    if x.dim() == 3:
        for panel in range(x.shape[0]):
            left = panel * (x.shape[-1] + GAP)
            ax.text(left, 1.08, f"[{panel}]", fontsize=10, color="#666666")
    return float(x.shape[-2]) if x.dim() > 1 else 1.0


def _draw_storage(
    ax: Axes, x: torch.Tensor, cells: list, mark: tuple[int, ...] | None, top: float
) -> tuple[float, float]:
    """The storage as lines of cells with their positions; returns width and lowest edge."""
    colours: dict[int, str] = {}
    for index, where in _elements(x):
        colours.setdefault(where, _tint(x, index))
    marked = {where for index, where in _elements(x) if index == mark}
    first = -top - 1.9
    for where, value in enumerate(cells):
        left, y = where % PER_LINE, first - (where // PER_LINE) * 1.6
        _cell(ax, left, y, value, colours.get(where, UNTOUCHED), framed=where in marked)
        ax.text(
            left + 0.5, y - 0.12, str(where), ha="center", va="top", fontsize=8, color="#777777"
        )
    ax.text(0, first + 1.95, _storage_label(x, cells), fontsize=10.5, color="#555555")
    _draw_steps(ax, x, first)
    lines = (max(len(cells), 1) - 1) // PER_LINE
    panels = x.shape[0] * (x.shape[-1] + GAP) if x.dim() == 3 else (x.shape[-1] if x.dim() else 1)
    return max(min(len(cells), PER_LINE), panels), first - lines * 1.6 - 0.6


def _storage_label(x: torch.Tensor, cells: list) -> str:
    item = x.element_size()
    total = f"{len(cells)} cells × {item} bytes = {len(cells) * item} bytes"
    return f"storage, one line of memory: {total} (arrows: one step)"


def _draw_steps(ax: Axes, x: torch.Tensor, y: float) -> None:
    """An arrow a dimension: how far one step along it moves in storage."""
    start = x.storage_offset()
    for size, step in zip(x.shape, x.stride(), strict=True):
        end = start + step
        if size < 2 or step == 0 or start // PER_LINE != 0 or end // PER_LINE != 0:
            continue
        a, b = (start + 0.5, y + 1.02), (end + 0.5, y + 1.02)
        bend = -min(0.55, 1.1 / step)  # long arrows stay as low as short ones
        arrow = FancyArrowPatch(
            a, b, connectionstyle=f"arc3,rad={bend}", arrowstyle="-|>", mutation_scale=9
        )
        arrow.set(color=BLACK, linewidth=1.2, zorder=5)
        ax.add_artist(arrow)


def _cell(
    ax: Axes, left: float, bottom: float, value: object, colour: str, framed: bool = False
) -> None:
    edge, width, order = (BLACK, 2.6, 4) if framed else ("white", 1.6, 2)
    inset = 0.03
    box = Rectangle((left + inset, bottom + inset), 1 - 2 * inset, 1 - 2 * inset)
    box.set(facecolor=colour, edgecolor=edge, linewidth=width, zorder=order)
    ax.add_artist(box)  # not add_patch: `_frame` sets the limits, finding them takes long
    ax.text(
        left + 0.5, bottom + 0.5, _short(value), ha="center", va="center", fontsize=10, zorder=6
    )


def _short(value: object) -> str:
    """A value in at most four characters."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float) and isfinite(value):
        return f"{value:.0f}" if value == round(value) and abs(value) < 1e4 else f"{value:.2g}"
    return str(value)


def _heading(x: torch.Tensor) -> str:
    return f"shape {tuple(x.shape)}    stride {x.stride()}    offset {x.storage_offset()}"


def _frame(
    ax: Axes,
    figure: object,
    title: str,
    width: float,
    bottom: float,
    heading: str,
    top: float = 2.3,
) -> None:
    """Size the page so that a cell has the same size in every figure."""
    wide, high = (max(width, 12) + 1) * INCHES, (top - bottom) * INCHES
    if title:
        ax.set_title(text("title", title), x=0.3 * INCHES / wide, y=1)
    ax.text(0, 1.75, heading, fontsize=11.5, family="DejaVu Sans Mono", color=BLACK)
    ax.set_xlim(-0.6, max(width, 12) + 0.4)
    ax.set_ylim(bottom, top)
    ax.set_aspect("equal")
    ax.axis("off")
    figure.set_size_inches(wide, high + TITLE)
    ax.set_position((0, 0, 1, high / (high + TITLE)))


def _description(x: torch.Tensor, cells: int, mark: tuple[int, ...] | None) -> str:
    positions = " ".join(str(where) for _, where in _elements(x))
    lines = [
        f"Tensor of {_heading(x)}.".replace("    ", ", "),
        f"It reads these of its {cells} storage cells, in order: {positions or 'none'}.",
    ]
    marked = [where for index, where in _elements(x) if index == mark]
    lines += [f"Element {mark} lies at position {marked[0]}."] if marked else []
    return "\n".join(lines)
