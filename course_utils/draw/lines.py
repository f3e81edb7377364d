"""Lines over a growing size."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullFormatter, NullLocator

from course_utils import units
from course_utils.arguments import choice, shown, text
from course_utils.draw.picture import Picture, canvas, style

MARKERS = "osD^vP"
DECADE = 10  # a logarithmic axis that spans less may show no power of ten


def curves(
    series: Mapping[str, tuple[Sequence[float], Sequence[object]]],
    *,
    x: str,
    y: str,
    unit: str,
    title: str,
    sizes: Sequence[int] = (),
    log: bool = True,
) -> Picture:
    """Draw each series (name → xs and ys) as a line on logarithmic axes labelled `x` and `y`.

    With `log=False` the y axis is linear and begins at 0, as for shares. `unit` is the unit of the
    ys ('s', 'B/s', 'FLOP/s', ...); `sizes` sets the x ticks. A y may be an instrument's result; an
    unsure one is drawn as an empty marker.
    """
    if not isinstance(series, Mapping) or not 0 < len(series) <= len(MARKERS):
        raise ValueError(f"series must name 1 to {len(MARKERS)} lines, got {shown(series)}")
    with style():
        figure, (ax,) = canvas(8.6, 3.9)
        for (name, (xs, ys)), marker in zip(series.items(), MARKERS, strict=False):
            values = [getattr(y, "value", y) for y in ys]
            (line,) = ax.plot(xs, values, marker=marker, label=name)
            _hollow(ax, line, [bool(getattr(y, "doubt", "")) for y in ys])
        ax.set(xscale="log", xlabel=text("x", x), ylabel=text("y", y))
        if not choice("log", log):
            ax.set_ylim(bottom=0)
        elif any(len(ys) for _, ys in series.values()):
            ax.set_yscale("log")
        else:  # nothing measured yet: a logarithmic axis without values is an error
            ax.set_yticks([])
        ax.set_title(text("title", title))
        _label_ticks(ax, sizes, unit)
        ax.grid(True, which="major")
        handles, labels = ax.get_legend_handles_labels()
        order = sorted(range(len(labels)), key=lambda i: labels[i] == "unsure")
        ax.legend(
            [handles[i] for i in order],
            [labels[i] for i in order],
            loc="center left",
            bbox_to_anchor=(1.01, 0.5),
        )
    names = ", ".join(series)
    scale = "both axes logarithmic" if log else "the x axis logarithmic"
    return Picture(figure, f"Line chart, {scale}: {y} over {x}. Lines: {names}.")


def _label_ticks(ax: Axes, sizes: Sequence[int], unit: str) -> None:
    """Ticks in words: the sizes themselves, and values with their unit."""
    if sizes:
        ax.set_xlim(sizes[0] / 1.3, sizes[-1] * 1.3)
        ax.set_xticks(sizes, [_size_label(size) for size in sizes], minor=False)
        ax.xaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(lambda value, _: units.quantity(value, unit, significant=2))
    ax.yaxis.set_minor_formatter(NullFormatter())
    low, high = ax.get_ylim()
    if ax.get_yscale() == "log" and high < DECADE * low:
        ax.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
        ax.yaxis.set_minor_locator(NullLocator())


def _size_label(size: int) -> str:
    """16384 as '16K', 3000 as '3000': powers of two with the binary K and M."""
    for power, letter in ((2**30, "G"), (2**20, "M"), (2**10, "K")):
        if size >= power and size % power == 0:
            return f"{size // power}{letter}"
    return str(size)


def _hollow(ax: Axes, line: Line2D, unsure: Sequence[bool]) -> None:
    """Redraw the points of `line` that are `unsure` as empty markers."""
    points = [point for point, empty in zip(zip(*line.get_data()), unsure) if empty]  # noqa: B905
    if points:
        look = {"marker": line.get_marker(), "color": line.get_color(), "linestyle": "none"}
        label = None if "unsure" in ax.get_legend_handles_labels()[1] else "unsure"
        ax.plot(*zip(*points, strict=True), markerfacecolor="white", label=label, zorder=3, **look)
