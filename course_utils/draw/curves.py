"""Lines over a growing size, drawn at once or while the points arrive."""

from collections.abc import Callable, Mapping, Sequence

from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter, NullLocator

from course_utils import units
from course_utils.arguments import text
from course_utils.draw.picture import Picture, canvas, style
from course_utils.measure.sweep import Sweep

MARKERS = "osD^vP"


def curves(
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    x: str,
    y: str,
    unit: str,
    title: str,
    sizes: Sequence[int] = (),
) -> Picture:
    """Draw each series (name → xs and ys) as a line on logarithmic axes labelled `x` and `y`.

    `unit` is the unit of the ys ('s', 'B/s', 'FLOP/s', ...); `sizes` sets the x ticks.
    """
    with style():
        figure, (ax,) = canvas(8.6, 3.9)
        for (name, (xs, ys)), marker in zip(series.items(), MARKERS, strict=False):
            ax.plot(xs, ys, marker=marker, label=name)
        ax.set(xscale="log", yscale="log", xlabel=text("x", x), ylabel=text("y", y))
        ax.set_title(text("title", title))
        _label_ticks(ax, sizes, unit)
        ax.grid(True, which="major")
        ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    names = ", ".join(series)
    return Picture(figure, f"Line chart, both axes logarithmic: {y} over {x}. Lines: {names}.")


def live(
    sweep: Sweep,
    *,
    x: str,
    y: str,
    unit: str,
    title: str,
    value: Callable[[int, float], float] = lambda _size, seconds: seconds,
) -> None:
    """Run `sweep` and draw it while it runs: one figure that grows, and a progress bar.

    `value` turns a size and its median seconds into what the y axis shows. The figure's text form
    stays the same from the first point to the last.
    """
    from tqdm.notebook import tqdm

    def picture() -> Picture:
        points = {name: sweep.points(name) for name in sweep.series}
        shown = {
            name: (sizes, [value(n, s) for n, s in zip(sizes, seconds, strict=True)])
            for name, (sizes, seconds) in points.items()
        }
        return curves(shown, x=x, y=y, unit=unit, title=title, sizes=sweep.sizes)

    handle = display(picture(), display_id=True)
    label = f"{len(sweep)} points, about {sweep.budget:g} s of measuring "
    for _ in tqdm(sweep, total=len(sweep), bar_format=label + "{bar}"):
        handle.update(picture())


def _label_ticks(ax: Axes, sizes: Sequence[int], unit: str) -> None:
    """Ticks in words: the sizes themselves, and values with their unit."""
    if sizes:
        ax.set_xlim(sizes[0] / 1.3, sizes[-1] * 1.3)
        ax.set_xticks(sizes, [_size_label(size) for size in sizes], minor=False)
        ax.xaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(lambda value, _: units.quantity(value, unit, significant=2))
    ax.yaxis.set_minor_formatter(NullFormatter())


def _size_label(size: int) -> str:
    """16384 as '16K', 3000 as '3000': powers of two with the binary K and M."""
    for power, letter in ((2**30, "G"), (2**20, "M"), (2**10, "K")):
        if size >= power and size % power == 0:
            return f"{size // power}{letter}"
    return str(size)
