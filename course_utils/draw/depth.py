"""What happens over the layers of a network: one chart for the way forth, one for the way back.

Drawn in boxes, so that it follows a slider.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from math import ceil, floor, log10, nan

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from course_utils.arguments import number, shown, text
from course_utils.draw.picture import BLACK, BLUE, ORANGE, Picture, across, fixed, style, upward

WIDTH, HEIGHT = 10.4, 4.15  # inches
BOXES = (0.85, 1.0, 4.4, 2.3), (5.75, 1.0, 4.4, 2.3)
DARK = {BLUE: "#003A5C", ORANGE: "#662B00"}  # of one hue: their mixtures need few colours
LEFT, KEY = 0.15, 0.16  # where the title begins, and how high the key stands
LIMITS = {"largest in fp32": 3.4028235e38, "smallest in fp32": 1.4012985e-45}
MOST = 7  # numbers on an axis
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
Line = Sequence[float]
Fan = tuple[Sequence[Line], Line | None, tuple[Line, Line] | None]


def fans(panels: Mapping[str, Fan], *, title: str) -> Picture:
    """Draw two charts over layers 0, 1, 2, ..., with one logarithmic axis for both.

    Each panel maps the name of what it shows to its lines: those of single draws, thin; one that
    arithmetic gives, dashed; and a low and a high one with a band between. The last two may be
    None. Where a line is 0 it has a gap.
    """
    if not isinstance(panels, Mapping) or len(panels) != 2:
        raise ValueError(f"panels must name two charts, got {shown(panels)}")
    low, high = _powers([value for name, fan in panels.items() for value in _values(name, fan)])
    with style():
        figure, axes = fixed(WIDTH, HEIGHT, *BOXES)
        for ax, (name, fan), colour in zip(axes, panels.items(), (BLUE, ORANGE), strict=True):
            _frame(ax, len(fan[0][0]) - 1, low, high)
            _limits(ax, back=ax is axes[1])
            _fan(ax, fan, colour)
            ax.text(0, 1.06, name, transform=ax.transAxes, size=11.5, color=colour)
        _numbers(axes[0], low, high)
        figure.text(LEFT / WIDTH, KEY / HEIGHT, _key(*panels.values()), size=10, color=BLACK)
        place = (LEFT - BOXES[0][0]) / BOXES[0][2]
        axes[0].set_title(text("title", title), x=place, y=1, pad=32)
    return Picture(figure, f"Two charts over the layers, y logarithmic. {title}")


def _values(name: str, fan: Fan) -> Iterator[float]:
    """Each value of a panel; raises ValueError unless its lines are equally long."""
    draws, line, band = fan
    every = [*draws, *([] if line is None else [line]), *([] if band is None else band)]
    if not len(draws) or len({len(each) for each in every}) != 1 or len(draws[0]) < 2:
        raise ValueError(f"panels[{name!r}] must have lines over the same two layers or more")
    for each in every:
        for value in each:
            yield number(f"panels[{name!r}]", float(value), at_least=0)


def _powers(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten between which all values lie: at least two each way from 1."""
    logs = [log10(value) for value in values if value > 0]
    return floor(min([-2.0, *logs])), ceil(max([2.0, *logs]))


def _frame(ax: Axes, last: int, low: int, high: int) -> None:
    """The axes, with numbers under the x axis."""
    ax.set(yscale="log", xlim=(0, last), ylim=(10.0**low, 10.0**high))
    across(ax, range(0, last + 1, _step(last)), str)
    ax.set_xlabel("layer", labelpad=20)
    ax.yaxis.set_visible(False)


def _limits(ax: Axes, *, back: bool) -> None:
    """Where fp32 ends, named where the way begins: there every line is far from it."""
    low, high = ax.get_ylim()
    end, (x, ha) = ax.get_xlim()[1], ((-2, "right") if back else (4, "left"))
    for name, limit in LIMITS.items():
        if low < limit < high:
            ax.add_artist(Line2D((0, end), (limit, limit), color=BLACK, linewidth=1, ls=":"))
            y, va = (3, "bottom") if limit < 1 else (-3, "top")
            given = {"textcoords": "offset points", "ha": ha, "va": va, "size": 9.5}
            ax.annotate(name, (end if back else 0, limit), (x, y), **given)


def _numbers(ax: Axes, low: int, high: int) -> None:
    """Powers of ten at the y axis."""
    step = _step(high - low)
    first = ceil(low / step) * step
    upward(ax, [10.0**power for power in range(first, high + 1, step)], _power)


def _step(span: int) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50, ... that makes at most `MOST` numbers of a span."""
    steps = (step * 10**power for power in count() for step in (1, 2, 5))
    return next(step for step in steps if span // step < MOST)


def _power(value: float) -> str:
    """1 and 10 as they are, else ten with its power raised."""
    power = round(log10(value))
    return str(10**power) if power in (0, 1) else f"10{str(power).translate(RAISED)}"


def _fan(ax: Axes, fan: Fan, colour: str) -> None:
    """The band, the draws as one line with gaps, which is quicker, and the dashed line."""
    draws, line, band = fan
    at = range(len(draws[0]))
    if band is not None:
        ax.fill_between(at, *band, color=colour, alpha=0.2, linewidth=0)
    xs = [x for _ in draws for x in (*at, nan)]
    ys = [y if y > 0 else nan for each in draws for y in (*each, nan)]
    ax.add_artist(Line2D(xs, ys, color=colour, linewidth=1))
    if line is not None:
        ax.add_artist(Line2D(at, line, color=DARK[colour], linestyle="--", linewidth=2.2))


def _key(*fans: Fan) -> str:
    """What the kinds of lines mean."""
    words = f"Thin: {len(fans[0][0])} draws of the weights."
    return words if fans[0][1] is None else f"{words} Dashed: arithmetic. Band: 95 % of all draws."
