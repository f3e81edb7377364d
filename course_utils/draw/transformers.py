"""A transformer's account in three panels: parameters, FLOPs per token, bytes against devices.

All three lie on one sheet in inches: three pairs of axes would take too long to follow a slider.
"""

from collections.abc import Callable, Iterator, Mapping
from math import ceil, floor, log10

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_utils import units
from course_utils.arguments import positive, text
from course_utils.draw.cost import checked_rows
from course_utils.draw.picture import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    PART_COLOURS,
    YELLOW,
    Picture,
    fixed,
    style,
)

WIDTH, HEIGHT = 10.4, 3.6  # inches
BOTTOM, TOP = 0.55, 2.5  # of the panels
# Where each panel's bars begin, and how long they may be.
PANELS = {
    "Parameters": (1.15, 1.2),
    "FLOPs per token": (4.35, 1.05),
    "Bytes of a step": (7.6, 2.5),
}
COLOURS = {**PART_COLOURS, "peak": BLACK, "KV cache": YELLOW}
BAR = 0.62  # the share of a row that its bar takes
SMALL = {"size": 9.5, "color": "#444444"}

Amounts = Mapping[str, float]


def account(
    parameters: Amounts,
    flops: Amounts,
    memory: Amounts,
    devices: Amounts,
    *,
    rule: float,
    title: str,
) -> Picture:
    """Draw what a transformer costs: each mapping names the bars of one panel.

    `parameters` are counts, `flops` FLOPs per token, beside the `rule`, 6·N; `memory` bytes, on a
    logarithmic axis with a dashed line for what each of `devices` has. Raises TypeError or
    ValueError for what is no number of at least 0.
    """
    given = {"parameters": parameters, "flops": flops, "memory": memory, "devices": devices}
    parameters, flops, memory, devices = checked_rows("account", given).values()
    beside = {**flops, "6·N": positive("rule", rule)}
    greens = dict.fromkeys(flops, GREEN) | {"6·N": GREY}
    with style():
        figure, (ax,) = fixed(WIDTH, HEIGHT, (0, 0, WIDTH, HEIGHT))
        ax.set(xlim=(0, WIDTH), ylim=(0, HEIGHT))
        ax.set_axis_off()
        ax.text(0.15, 3.38, text("title", title), va="center", size=12.5)
        first, second, third = PANELS.values()
        _linear(ax, first, parameters, dict.fromkeys(parameters, BLUE), units.amount)
        _linear(ax, second, beside, greens, lambda n: units.flops(n, significant=3))
        _logarithmic(ax, third, memory, devices)
        for name, (left, _) in PANELS.items():
            ax.text(left, 2.98, name, va="center", size=12.5, weight="bold")
    return Picture(figure, _words(title, given, rule))


def _linear(
    ax: Axes, place: tuple[float, float], amounts: Amounts, colours: Mapping[str, str],
    word: Callable[[float], str],
) -> None:  # fmt: skip
    """A bar for each amount, from 0 on, with its value at its end."""
    left, length = place
    most = max(amounts.values())
    for y, (name, amount) in _rows(ax, left, amounts):
        reach = left + length * amount / most
        _bar(ax, left, reach, y, len(amounts), colours[name])
        ax.text(reach + 0.05, y, word(amount), va="center", **SMALL)
    ax.plot([left, left], [BOTTOM, TOP], color=BLACK, linewidth=0.8)


def _logarithmic(ax: Axes, place: tuple[float, float], memory: Amounts, devices: Amounts) -> None:
    """Bytes on a logarithmic axis that holds every device, with a line for each."""
    left, length = place
    held = [amount for amount in (*memory.values(), *devices.values()) if amount]
    first, last = floor(log10(min(held))), ceil(log10(max(held)))

    def at(amount: float) -> float:
        return left + length * (log10(amount) - first) / (last - first)

    for y, (name, amount) in _rows(ax, left, memory):
        if amount:
            _bar(ax, left, at(amount), y, len(memory), COLOURS[name])
    _lines(ax, {name: at(amount) for name, amount in devices.items()})
    ax.plot([left, left, left + length], [TOP, BOTTOM, BOTTOM], color=BLACK, linewidth=0.8)
    for power in range(first, last + 1, ceil((last - first + 1) / 5)):
        ax.text(at(10.0**power), BOTTOM - 0.07, units.size(10.0**power), ha="center", va="top",
                **SMALL)  # fmt: skip
    ax.text(left + length / 2, BOTTOM - 0.29, "logarithmic", ha="center", va="top", **SMALL)


def _lines(ax: Axes, places: Amounts) -> None:
    """A dashed line at each place, and its name above, out of the way of its neighbours'."""
    for number, (name, x) in enumerate(places.items()):
        ax.plot([x, x], [BOTTOM, TOP], color=BLACK, linestyle="--", linewidth=1.2, zorder=0)
        side, up = (("right", 0.03), ("center", 0.2), ("left", 0.03))[number % 3]
        ax.text(x, TOP + up, name, ha=side, **SMALL)


def _rows(ax: Axes, left: float, amounts: Amounts) -> Iterator[tuple[float, tuple[str, float]]]:
    """The height of each row, from the top, and its name and amount; writes the names."""
    step = (TOP - BOTTOM) / len(amounts)
    for number, (name, amount) in enumerate(amounts.items()):
        y = TOP - step * (number + 0.5)
        ax.text(left - 0.08, y, name, ha="right", va="center", size=11)
        yield y, (name, amount)


def _bar(ax: Axes, left: float, right: float, y: float, rows: int, colour: str) -> None:
    height = BAR * (TOP - BOTTOM) / rows
    box = Rectangle((left, y - height / 2), right - left, height, facecolor=colour, linewidth=0)
    ax.add_artist(box)


def _words(title: str, given: Mapping[str, Amounts], rule: float) -> str:
    """All numbers of the picture, a line a panel."""
    shows = units.amount, units.flops, units.size
    panels = [
        ", ".join(f"{name} {show(value)}" for name, value in amounts.items())
        for show, amounts in zip(shows, list(given.values())[:3], strict=True)
    ]
    panels[1] += f"; 6·N is {units.flops(rule)}"
    has = ", ".join(f"{name} {units.size(room)}" for name, room in given["devices"].items())
    panels[2] += f". Dashed, what devices have: {has}"
    lines = [f"{name}: {words}." for name, words in zip(PANELS, panels, strict=True)]
    return "\n".join([f"Three bar charts. {title}", *lines])
