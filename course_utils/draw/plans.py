"""A training plan: how long the run takes, and whether a device holds the model."""

from collections.abc import Mapping
from itertools import accumulate
from math import log

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator, NullLocator

from course_utils import units
from course_utils.arguments import positive
from course_utils.draw.cost import checked_rows
from course_utils.draw.picture import (
    BLACK,
    BLUE,
    GREY,
    PALETTE,
    PART_COLOURS,
    Picture,
    across,
    fixed,
    style,
)

WIDTH, HEIGHT = 10.4, 3.1  # inches
SECOND, YEAR = 1 / 86_400, 365.25  # in days
CENTURY = 100 * YEAR
LANDMARKS = {
    1e-9 * SECOND: "1 ns",
    1e-6 * SECOND: "1 µs",
    1e-3 * SECOND: "1 ms",
    SECOND: "1 s",
    60 * SECOND: "1 min",
    3600 * SECOND: "1 h",
    1: "1 day",
    7: "1 week",
    30: "1 month",
    YEAR: "1 year",
    10 * YEAR: "10 years",
    1e3 * YEAR: "1000 years",
    1e6 * YEAR: "$10^6$ years",
    1e9 * YEAR: "$10^9$ years",
    1e12 * YEAR: "$10^{12}$ years",
}
APART = 0.12  # the share of the axis that a landmark's name takes
PREFIXES = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
ROOM = "#E4E4E4"  # what a device has


def plan(
    days: float, memory: Mapping[str, Mapping[str, float]], capacity: float, *, title: str
) -> Picture:
    """A training plan: days on a logarithmic axis, and bytes per device against its `capacity`.

    `memory` maps a way to place the model (copied, sharded) to bytes by part.
    """
    positive("days", days)
    positive("capacity", capacity)
    memory = checked_rows("memory", memory)
    with style():
        boxes = (0.2, 0.9, 4.7, 1.4), (6.8, 0.9, 3.4, 1.4)
        figure, (left, right) = fixed(WIDTH, HEIGHT, *boxes)
        _time(left, days)
        _memory(right, memory, capacity)
        _name_parts(figure, _colours(memory))
        figure.text(0.2 / WIDTH, 2.85 / HEIGHT, title, va="center", fontsize=12.5)
    totals = {name: sum(parts.values()) for name, parts in memory.items()}
    held = ", ".join(f"{name} {units.size(t)}, {_fits(t, capacity)}" for name, t in totals.items())
    words = f"{title}. It takes {_lasting(days)}. Memory per device: {held}"
    return Picture(figure, f"{words}; the device has {units.size(capacity)}.")


def _fits(needed: float, capacity: float) -> str:
    return "fits" if needed <= capacity else "does not fit"


def _lasting(days: float) -> str:
    """Days as days; less than one in hours to nanoseconds, more than a century in years."""
    if days < 1:
        return units.duration(days / SECOND)
    if days < CENTURY:
        count = units.digits(days)
        return f"{count} day{'s' * (count != '1')}"
    return f"{units.amount(days / YEAR)} years"


def _time(ax: Axes, days: float) -> None:
    """One bar on an axis of eight hours to a lifetime, longer where the run needs it."""
    start, end = min(0.3, days / 30), max(20_000, days * 10)
    landmarks = _apart(start, end)
    ax.set(xscale="log", xlim=(start, end), ylim=(-0.8, 0.8))
    ax.xaxis.set(major_locator=NullLocator(), minor_locator=NullLocator())
    ax.yaxis.set_visible(False)
    for place, name in landmarks.items():  # texts: ticks take five times as long to draw
        ax.text(place, -0.87, name, ha="center", va="top", fontsize=9.5, color="#444444")
    marks = [[(place, -0.8), (place, 0.8)] for place in landmarks]
    ax.add_collection(LineCollection(marks, colors=GREY, linewidths=1.2, zorder=0), autolim=False)
    _bar(ax, 0, start, days - start, BLUE, 0.8)
    inside = log(days / start) > log(end / days)
    beside = {"ha": "right", "color": "white"} if inside else {"ha": "left"}
    ax.text(days, 0, f" {_lasting(days)} ", va="center", fontweight="bold", **beside)
    ax.set_xlabel("logarithmic", labelpad=18)
    ax.set_title("Time", y=1)


def _apart(start: float, end: float) -> dict[float, str]:
    """The landmarks between `start` and `end` whose names can be read side by side."""
    kept, room = {}, APART * log(end / start)
    for days, name in LANDMARKS.items():
        before = max(kept, default=start / end)
        if days > start and log(days / before) > room and log(end / days) > room / 2:
            kept[days] = name
    return kept


def _memory(ax: Axes, memory: Mapping[str, Mapping[str, float]], capacity: float) -> None:
    """A bar a row over what the device has; beside it in words whether it fits."""
    widest = max(capacity, *(sum(parts.values()) for parts in memory.values()))
    unit = units.size(widest).split()[1]
    scale = 1000 ** PREFIXES.index(unit)
    for row in range(len(memory)):
        _bar(ax, row, 0, capacity / scale, ROOM, 0.64)
    _stack(ax, memory, scale)
    for row, (name, parts) in enumerate(memory.items()):
        _beside(ax, row - 0.16, name)
        needed = sum(parts.values())
        _beside(ax, row + 0.16, f"{units.size(needed, significant=3)}: {_fits(needed, capacity)}")
    ax.axvline(capacity / scale, color=BLACK, linestyle="--", linewidth=1.6)
    ax.set(xlim=(0, 1.05 * widest / scale), ylim=(len(memory) - 0.55, -0.45))
    ax.yaxis.set_visible(False)
    end = ax.get_xlim()[1]
    across(ax, [at for at in MaxNLocator(4).tick_values(0, end) if at <= end], units.digits)
    ax.set_xlabel(f"{unit} per device (dashed: it has {units.size(capacity)})", labelpad=20)
    ax.set_title("Memory, without activations", y=1)


def _bar(ax: Axes, y: float, left: float, width: float, colour: str, height: float) -> None:
    """A bar about `y`; `barh` would look for limits that are known."""
    box = Rectangle((left, y - height / 2), width, height, facecolor=colour, linewidth=0)
    ax.add_artist(box)


def _beside(ax: Axes, y: float, words: str) -> None:
    """`words` left of the axis."""
    ax.text(-0.03, y, words, transform=ax.get_yaxis_transform(), ha="right", va="center")


def _stack(ax: Axes, memory: Mapping[str, Mapping[str, float]], scale: float) -> None:
    """Each row's parts end to end."""
    colours = _colours(memory)
    for row, amounts in enumerate(memory.values()):
        ends = accumulate(amounts.values())
        for (part, amount), end in zip(amounts.items(), ends, strict=True):
            _bar(ax, row, (end - amount) / scale, amount / scale, colours[part], 0.64)


def _colours(memory: Mapping[str, Mapping[str, float]]) -> dict[str, str]:
    """Each part's colour, in the order of the parts."""
    parts = dict.fromkeys(part for row in memory.values() for part in row)
    spare = iter(PALETTE * len(parts))
    return {part: PART_COLOURS.get(part) or next(spare) for part in parts}


def _name_parts(figure: Figure, colours: Mapping[str, str]) -> None:
    """The parts' names under the bars, each behind its colour."""
    for place, (part, colour) in enumerate(colours.items()):
        left = WIDTH - 0.1 - 1.5 * (len(colours) - place)
        box = Rectangle((left / WIDTH, 0.17 / HEIGHT), 0.28 / WIDTH, 0.11 / HEIGHT, color=colour)
        figure.add_artist(box)
        figure.text((left + 0.36) / WIDTH, 0.22 / HEIGHT, part, va="center")
