"""Magnitudes as a histogram over powers of two, and what a number format makes of each of them."""

from collections.abc import Mapping, Sequence
from math import floor, log10

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Polygon, Rectangle

from course_utils import units
from course_utils.arguments import number, positive, shown, text
from course_utils.draw.picture import BLACK, BLUE, Picture, across, fixed, style, upward

WIDTH, HEIGHT = 10.4, 3.9  # inches
LEFT, BOX = 0.15, (1.05, 0.72, 9.1, 2.3)
TINTS = ("#F3CFE0", "#FBEFC0", "#E4F1E9", "#FFD9B8")
NAMES_AT = (0.0, 0.24, 0.56, 0.77)  # shares of the width: where the name of each region begins
OUTLINE = {"fill": False, "edgecolor": BLACK, "linestyle": (0, (2, 1.5)), "linewidth": 1.2}
ROUND = (1, 2, 5, 10)


def magnitudes(
    shares: Sequence[float],
    first: float,
    width: float,
    regions: Mapping[str, tuple[float, float]],
    *,
    title: str,
    before: Sequence[float] = (),
) -> Picture:
    """Draw the share of numbers in each bin, over regions that are shaded and named.

    Bin i holds the numbers from 2**(first + i·width) on. `regions` maps at most four names to the
    powers of two between which each lies, from left to right. `before` are shares of the same bins
    at another time, drawn as an outline. Raises TypeError or ValueError for what is no such data.
    """
    shares, before = _shares("shares", shares), _shares("before", before)
    first, width = number("first", first), positive("width", width)
    if not 0 < len(regions) <= len(TINTS):
        raise ValueError(f"regions must name one to {len(TINTS)} regions, got {shown(regions)}")
    if not len(shares) or len(before) not in (0, len(shares)):
        raise ValueError(f"before must have as many bins as shares, got {len(before)}")
    edges = first + width * np.arange(len(shares) + 1)
    with style():
        figure, (ax,) = fixed(WIDTH, HEIGHT, BOX)
        _frame(ax, edges, max([*shares, *before]))
        _shade(ax, regions)
        ax.add_artist(Polygon(_stairs(shares, edges), facecolor=BLUE, zorder=2))
        if len(before):
            ax.add_artist(Polygon(_stairs(before, edges), zorder=3, **OUTLINE))
        ax.set_title(text("title", title), x=(LEFT - BOX[0]) / BOX[2], y=1, pad=30)
    return Picture(figure, _words(title, shares, edges, regions, len(before) > 0))


def _shares(name: str, shares: Sequence[float]) -> np.ndarray:
    checked = [number(f"{name}[{i}]", value, at_least=0) for i, value in enumerate(shares)]
    return np.array(checked, dtype=float)


def _stairs(shares: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The outline of the bins as points, from the first to the last that can be seen."""
    seen = np.flatnonzero(shares > 1e-4 * shares.max())
    first, last = (seen[0], seen[-1]) if len(seen) else (0, 0)
    x = edges[first : last + 2].repeat(2)
    return np.column_stack([x, [0, *shares[first : last + 1].repeat(2), 0]])


def _frame(ax: Axes, edges: np.ndarray, most: float) -> None:
    """Powers of two below, and shares up to a round number that leaves room above the largest."""
    low, high = edges[0], edges[-1]
    size = 10.0 ** floor(log10(most)) if most > 0 else 1.0
    top = next(step * size for step in ROUND if step * size > most)
    ax.set(xlim=(low, high), ylim=(0, 1.08 * top))
    tens = range(10 * -int(-low // 10), int(high) + 1, 10)
    across(ax, tens, units.power_of_two)
    upward(ax, (0, top / 2, top), lambda share: f"{units.digits(100 * share, 2)} %")
    ax.set_xlabel("magnitude, in powers of two", labelpad=22)
    ax.set_ylabel("share in each bin", labelpad=48)


def _shade(ax: Axes, regions: Mapping[str, tuple[float, float]]) -> None:
    """Each region in its tint, and the names in a row above, each beside a square of the tint."""
    low, high = ax.get_xlim()
    over = ax.get_xaxis_transform()
    for (name, (left, right)), tint, at in zip(regions.items(), TINTS, NAMES_AT, strict=False):
        left, right = (min(max(end, low), high) for end in (left, right))
        box = Rectangle((left, 0), right - left, 1, transform=over, facecolor=tint, zorder=0)
        ax.add_artist(box)
        key = {"facecolor": tint, "edgecolor": "#666666", "linewidth": 0.6, "clip_on": False}
        ax.add_artist(Rectangle((at, 1.045), 0.014, 0.065, transform=ax.transAxes, **key))
        ax.text(at + 0.02, 1.04, name, transform=ax.transAxes, size=10.5, va="bottom")


def _words(
    title: str,
    shares: np.ndarray,
    edges: np.ndarray,
    regions: Mapping[str, tuple[float, float]],
    outlined: bool,
) -> str:
    fullest = units.power_of_two(float(edges[int(shares.argmax())]))
    outline = " An outline shows them before." if outlined else ""
    return (
        f"Histogram, the x axis in powers of two. {title}\nThe fullest bin begins at {fullest}."
        f"{outline} Regions from left to right: {'; '.join(regions)}."
    )
