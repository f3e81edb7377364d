"""Rooflines: the rate that an operation can reach, over its FLOPs per byte moved."""

from collections.abc import Collection, Iterator, Mapping
from itertools import chain, count
from math import log10

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_utils import units
from course_utils.arguments import number, positive, shown, text
from course_utils.draw.picture import BLACK, PALETTE, Picture, canvas, style
from course_utils.table import first_doubt

NARROWEST, WIDEST = 0.03, 3000.0  # FLOPs per byte: the x axis spans at least these
BELOW, ABOVE, STEP = -11, 5, -4  # in points: a name's height above its dot, and its further tries
CLEAR = 3  # pixels kept free around a name: a dot's radius
REGIONS = (("memory-bound", "#D9E9F5"), ("compute-bound", "#FFF3E6"))
ROOM = 0.17  # the share of the axis that a region's name takes


def roofline(
    roofs: Mapping[str, tuple[float, float]],
    points: Mapping[str, tuple[float, float]] | None = None,
    *,
    title: str,
    live: bool | Collection[str] = True,
) -> Picture:
    """Draw each machine's roof, and measured operations as points.

    `roofs` maps a name to (peak in FLOP/s, bandwidth in B/s), `points` to (FLOPs per byte,
    FLOP/s). `live` says which roofs were measured (True: all), and so differ between machines.
    Numbers may be an instrument's results: an unsure point is drawn empty, an unsure roof dashed.
    Under a single roof both regions are shaded and named.
    """
    given, unsure = points or {}, {}
    roofs, points = _pairs("roofs", roofs, unsure), _pairs("points", given, unsure)
    if not roofs:
        raise ValueError(f"roofs must name at least one machine, got {shown(roofs)}")
    with style():
        figure, (ax,) = canvas(8.8, 4.3)
        for (name, roof), colour in zip(roofs.items(), PALETTE * len(roofs), strict=False):
            _roof(ax, name, *roof, color=colour, linestyle="--" if unsure[name] else "-")
        for name, (intensity, rate) in points.items():
            inside = "white" if unsure[name] else BLACK
            ax.plot([intensity], [rate], "o", color=BLACK, markerfacecolor=inside, zorder=4)
        _axes(ax, text("title", title))
        if len(roofs) == 1:
            name_regions(ax, *(peak / bandwidth for peak, bandwidth in roofs.values()))
            ax.set_title(title, pad=26)
        _label(ax, points)
    return Picture(figure, _words(title, roofs, points, live, unsure))


def _pairs(name: str, pairs: object, doubts: dict[str, str]) -> dict[str, tuple[float, float]]:
    """The numbers of each pair, checked; the doubt about either of them goes into `doubts`."""
    if not isinstance(pairs, Mapping):
        raise TypeError(f"{name} must map names to pairs of numbers, got {shown(pairs)}")
    numbers = {}
    for key, pair in pairs.items():
        x, y = (getattr(value, "value", value) for value in pair)
        x = positive(f"{name}[{key!r}][0]", x)
        numbers[key] = x, number(f"{name}[{key!r}][1]", y, at_least=0)
        doubts[key] = first_doubt(*pair)
    return numbers


def _roof(ax: Axes, name: str, peak: float, bandwidth: float, color: str, linestyle: str) -> None:
    """The slope of the bandwidth up to the ridge, then the ceiling of the peak."""
    intensity = np.geomspace(NARROWEST, WIDEST, 200)
    rate = np.minimum(peak, intensity * bandwidth)
    label = f"{name} (unsure)" if linestyle == "--" else name
    ax.plot(intensity, rate, color=color, linestyle=linestyle, label=label)
    ax.plot([peak / bandwidth], [peak], "|", color=color, markersize=14, markeredgewidth=2)


def _axes(ax: Axes, title: str) -> None:
    ax.set(xscale="log", yscale="log", xlabel="FLOPs per byte moved", ylabel="rate")
    ax.set_title(title)
    ax.yaxis.set_major_formatter(lambda value, _: units.rate(value, significant=2))
    ax.xaxis.set_major_formatter(lambda value, _: units.digits(value, 2))
    ax.grid(True, which="major")
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))


def name_regions(ax: Axes, ridge: float) -> None:
    """Shade both regions, and name each above the axes where there is room for its name."""
    across = ax.get_xaxis_transform()
    low, high = ax.get_xlim()
    middle = min(max(ridge, low), high)
    for (name, tint), left, right in zip(REGIONS, (low, middle), (middle, high), strict=True):
        box = Rectangle((left, 0), right - left, 1, transform=across, facecolor=tint, zorder=0)
        ax.add_artist(box)
        if log10(right / left) > ROOM * log10(high / low):
            ax.text((left * right) ** 0.5, 1.02, name, transform=across, ha="center")


def _label(ax: Axes, points: Mapping[str, tuple[float, float]]) -> None:
    """Each point's name beside it, at the first position clear of lines, points and other names."""
    ax.figure.draw_without_rendering()  # settles where everything lies
    lines = np.concatenate([ax.transData.transform(line.get_xydata()) for line in ax.lines])
    taken = []
    for name, point in sorted(points.items(), key=lambda item: item[1]):
        label = ax.annotate(name, point, (0, 0), textcoords="offset points", fontsize=9.5)
        for offset, side in _positions():
            label.set(position=offset, ha=side)
            box = label.get_window_extent().padded(CLEAR)
            hidden = box.count_contains(lines) or box.count_overlaps(taken)
            if not hidden and box.y1 <= ax.bbox.y1:
                break
        taken.append(box)


def _positions() -> Iterator[tuple[tuple[float, float], str]]:
    """Where to try a name: its offset from the dot in points, and how it is aligned."""
    for y in chain((BELOW, ABOVE), count(BELOW + STEP, STEP)):
        yield (5, y), "left"
        yield (-5, y), "right"


def _words(
    title: str,
    roofs: Mapping[str, tuple[float, float]],
    points: Mapping[str, tuple[float, float]],
    live: bool | Collection[str],
    doubts: Mapping[str, str],
) -> str:
    lines = [f"Roofline, both axes logarithmic. {title}"]
    for name, (peak, bandwidth) in roofs.items():
        varies = live is True or (live is not False and name in live)
        digits = 3 if varies else 4
        words = f"{units.rate(peak, significant=digits)}, ridge at "
        words += f"{units.digits(peak / bandwidth, digits)} FLOPs per byte"
        words = units.unsure(words, doubts[name])
        lines.append(f"{name}: {units.measured(words) if varies else words}")
    return "\n".join([*lines, *([f"Points: {', '.join(points)}"] if points else [])])
