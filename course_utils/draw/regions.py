"""The two regions under one roof, and where an operation lies: quick enough to follow a slider."""

from math import ceil, floor, log10

from matplotlib.axes import Axes

from course_utils import units
from course_utils.arguments import positive, text
from course_utils.draw.picture import BLACK, BLUE, Picture, across, fixed, style, upward
from course_utils.draw.rooflines import name_regions

WIDTH, HEIGHT = 10.4, 4.15  # inches
LEFT, BOX = 0.15, (1.5, 0.75, 7.4, 2.75)
USUAL = 0.1, 1e5  # FLOPs per byte: the x axis spans at least these, so that it rarely jumps
MOST = 7  # numbers on an axis


def bounds(peak: float, bandwidth: float, intensity: float, *, title: str) -> Picture:
    """Draw one roof, its two regions and an operation that reaches it.

    `peak` in FLOP/s, `bandwidth` in B/s, `intensity` in FLOPs per byte. Raises TypeError or
    ValueError for what is not a number above 0.
    """
    peak, bandwidth = positive("peak", peak), positive("bandwidth", bandwidth)
    intensity = positive("intensity", intensity)
    ridge = peak / bandwidth
    rate = min(peak, intensity * bandwidth)
    with style():
        figure, (ax,) = fixed(WIDTH, HEIGHT, BOX)
        powers = _powers(peak, bandwidth, intensity)
        _frame(ax, *powers)
        name_regions(ax, ridge)
        _roof(ax, peak, bandwidth, ridge)
        ax.plot([intensity], [rate], "o", color=BLACK, zorder=4)
        at_most = f"{_intensity(intensity)},\nat most {units.rate(rate)}"
        _beside(ax, (intensity, rate), (8, -5), at_most, "left", "top", BLACK)
        ax.set_title(text("title", title), x=(LEFT - BOX[0]) / BOX[2], y=1, pad=26)
    return Picture(figure, _words(title, ridge, intensity, rate))


def _powers(
    peak: float, bandwidth: float, intensity: float
) -> tuple[tuple[int, int], tuple[int, int]]:
    """The powers of ten between which the axes lie, with room for every name."""
    ridge = peak / bandwidth
    left = floor(log10(min(USUAL[0], ridge / 1000, intensity / 4)))
    right = ceil(log10(max(USUAL[1], ridge * 100, intensity * 2)))
    bottom = floor(log10(bandwidth) + left - 1)
    return (left, right), (bottom, ceil(log10(peak * 50)))


def _frame(ax: Axes, x: tuple[int, int], y: tuple[int, int]) -> None:
    """Logarithmic axes with powers of ten at their marks."""
    ax.set(xscale="log", yscale="log", xlim=(10.0 ** x[0], 10.0 ** x[1]))
    ax.set(ylim=(10.0 ** y[0], 10.0 ** y[1]))
    across(ax, _some(*x), units.digits)
    upward(ax, _some(*y), units.rate)
    ax.set_xlabel("FLOPs per byte moved", labelpad=22)
    ax.set_ylabel("rate", labelpad=86)


def _some(first: int, last: int) -> list[float]:
    """At most `MOST` of the powers of ten from that of `first` to that of `last`."""
    return [10.0**power for power in range(first, last + 1, ceil((last - first + 1) / MOST))]


def _roof(ax: Axes, peak: float, bandwidth: float, ridge: float) -> None:
    """The slope and the ceiling, each with its rate, and the ridge between them."""
    left, right = ax.get_xlim()
    ax.plot([left, ridge, right], [left * bandwidth, peak, peak], color=BLUE)
    ax.plot([ridge], [peak], "|", color=BLUE, markersize=14, markeredgewidth=2)
    _beside(ax, (ridge, peak), (-4, 8), f"ridge: {units.digits(ridge)}\nFLOPs per byte", "right")
    _beside(ax, (right, peak), (-2, 8), f"peak {units.rate(peak)}", "right")
    up = left * (ridge / left) ** 0.62
    moved = f"bandwidth\n{units.rate(bandwidth, unit='B/s')}"
    _beside(ax, (up, up * bandwidth), (-6, 4), moved, "right")


def _beside(
    ax: Axes,
    place: tuple[float, float],
    offset: tuple[float, float],
    words: str,
    ha: str,
    va: str = "bottom",
    colour: str = "#00507D",
) -> None:
    """`words` at an offset, in points, from a place on the axes."""
    given = {"textcoords": "offset points", "ha": ha, "va": va, "size": 9.5, "color": colour}
    ax.annotate(words, place, offset, annotation_clip=False, **given)


def _intensity(value: float) -> str:
    digits = units.digits(value)
    return f"{digits} FLOP{'s' * (digits != '1')} per byte"


def _words(title: str, ridge: float, intensity: float, rate: float) -> str:
    return (
        f"Roofline, both axes logarithmic. {title}\nMemory-bound left of the ridge at "
        f"{_intensity(ridge)}, compute-bound right of it; the operation lies at "
        f"{_intensity(intensity)}, where the roof is {units.rate(rate)}."
    )
