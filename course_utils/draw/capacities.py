"""What each device must hold, in its parts, over what devices have."""

from collections.abc import Mapping
from itertools import accumulate

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from course_utils import units
from course_utils.arguments import positive, text
from course_utils.draw.cost import checked_rows
from course_utils.draw.picture import (
    BLACK,
    GREY,
    PALETTE,
    PART_COLOURS,
    Picture,
    across,
    fixed,
    style,
)
from course_utils.draw.plans import PREFIXES

WIDTH, ROW = 10.4, 0.46  # inches
LEFT, LENGTH, BELOW, ABOVE = 1.75, 4.9, 0.95, 0.5
FEWEST = 4  # the axis is at most so many times as long as what is needed


def needs(
    parts: Mapping[str, float], devices: Mapping[str, float], *, title: str,
    beside: Mapping[str, str] | None = None,
) -> Picture:  # fmt: skip
    """Draw the bytes that a device needs, part by part, and below it what each of `devices` has.

    All to one scale; a device that has far more reaches the end of the axis, with an arrow.
    `beside` has words for the right of a device's bar. Raises TypeError or ValueError for what are
    not bytes.
    """
    parts = checked_rows("parts", {"needed": parts})["needed"]
    needed = positive("the sum of parts", sum(parts.values()))
    devices = {name: positive(f"devices[{name!r}]", has) for name, has in devices.items()}
    height = BELOW + ROW * (len(devices) + 1) + ABOVE
    with style():
        box = LEFT, BELOW, LENGTH, ROW * (len(devices) + 1)
        figure, (ax,) = fixed(WIDTH, height, box)
        scale, unit = _frame(ax, needed, devices)
        _stack(ax, parts, scale)
        for row, (name, has) in enumerate(devices.items(), start=1):
            _device(ax, row, name, has / scale, (beside or {}).get(name, ""))
        ax.axvline(needed / scale, color=BLACK, linestyle="--", linewidth=1.6)
        ax.set_xlabel(f"{unit} per device (dashed: needed)", labelpad=20)
        _name_parts(figure, height, parts)
        words = text("title", title)
        figure.text(0.1 / WIDTH, 1 - 0.25 / height, words, va="center", size=12.5, weight="bold")
    held = ", ".join(f"{part} {units.size(amount)}" for part, amount in parts.items())
    return Picture(figure, f"Stacked bar. {title}\nNeeded per device: {held}.")


def _frame(ax: Axes, needed: float, devices: Mapping[str, float]) -> tuple[float, str]:
    """Set the axis from 0 to where it shows what is needed well; its scale, and the scale's unit.

    It ends at the smallest device that has enough, if one has and that is not far beyond.
    """
    enough = [has for has in devices.values() if has >= needed]
    end = 1.06 * (min(*enough, FEWEST * needed) if enough else needed)
    unit = units.size(end).split()[1]
    scale = 1000 ** PREFIXES.index(unit)
    ax.set(xlim=(0, end / scale), ylim=(len(devices) + 0.5, -0.5))
    ax.yaxis.set_visible(False)
    ax.spines["left"].set_visible(False)
    places = MaxNLocator(5).tick_values(0, end / scale)
    across(ax, [at for at in places if at <= end / scale], units.digits)
    return scale, unit


def _stack(ax: Axes, parts: Mapping[str, float], scale: float) -> None:
    """The parts end to end in the first row, and their sum beside it."""
    colours = _colours(parts)
    for (part, amount), end in zip(parts.items(), accumulate(parts.values()), strict=True):
        _bar(ax, 0, (end - amount) / scale, amount / scale, colours[part])
    _left(ax, 0, "needed")
    _right(ax, 0, units.size(sum(parts.values()), significant=3))


def _device(ax: Axes, row: int, name: str, has: float, words: str) -> None:
    """A device's bar, with an arrow where it goes on beyond the axis."""
    end = ax.get_xlim()[1]
    _bar(ax, row, 0, min(has, end), GREY)
    if has > end:
        ax.plot([end], [row], ">", color=GREY, markersize=13, clip_on=False)
    _left(ax, row, name)
    _right(ax, row, words)


def _bar(ax: Axes, y: float, left: float, width: float, colour: str) -> None:
    ax.add_artist(Rectangle((left, y - 0.32), width, 0.64, facecolor=colour, linewidth=0))


def _left(ax: Axes, y: float, words: str) -> None:
    ax.text(-0.02, y, words, transform=ax.get_yaxis_transform(), ha="right", va="center")


def _right(ax: Axes, y: float, words: str) -> None:
    ax.text(1.04, y, words, transform=ax.get_yaxis_transform(), va="center", size=10.5)


def _colours(parts: Mapping[str, float]) -> dict[str, str]:
    spare = iter(PALETTE * len(parts))
    return {part: PART_COLOURS.get(part) or next(spare) for part in parts}


def _name_parts(figure: Figure, height: float, parts: Mapping[str, float]) -> None:
    """The parts' names under the axis, each behind its colour."""
    for place, (part, colour) in enumerate(_colours(parts).items()):
        left = LEFT + 1.45 * place
        box = (left / WIDTH, 0.14 / height), 0.28 / WIDTH, 0.11 / height
        figure.add_artist(Rectangle(*box, color=colour))
        figure.text((left + 0.36) / WIDTH, 0.19 / height, part, va="center")
