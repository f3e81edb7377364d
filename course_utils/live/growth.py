"""Figures that grow while something runs: one display, updated a few times a second."""

from collections.abc import Callable, Sequence
from time import perf_counter

import numpy as np
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from course_utils.arguments import number, shown, text
from course_utils.draw.lines import MARKERS
from course_utils.draw.picture import PALETTE, Picture, canvas, style

EVERY = 0.5  # seconds between two updates: drawing must not take the time that training needs
MOST = 6  # lines that can still be told apart
FEW = 25  # up to this many points, each has a marker


class Growing:
    """Named lines of (x, y) points and the figure that shows them; use it as a `with` block."""

    def __init__(self, names: Sequence[str], picture: Callable[["Growing"], Picture]) -> None:
        if not 0 < len(names) <= MOST or len(set(names)) < len(names):
            raise ValueError(f"names must be 1 to {MOST} different ones, got {shown(names)}")
        self.points: dict[str, list[tuple[float, float]]] = {text("name", n): [] for n in names}
        self._picture = picture
        self._drawn = 0.0

    def __enter__(self) -> "Growing":
        self._handle = display(self._picture(self), display_id=True)
        self._drawn = perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.update(self._picture(self))

    def add(self, name: str, x: float, y: float) -> None:
        """Add a point to the line `name`; redraw if the last redraw is `EVERY` seconds ago."""
        if name not in self.points:
            raise ValueError(f"name must be one of {list(self.points)}, got {shown(name)}")
        self.points[name].append((float(x), float(y)))
        if perf_counter() - self._drawn > EVERY:
            self._handle.update(self._picture(self))
            self._drawn = perf_counter()

    def follow(self, name: str) -> Callable[[object], None]:
        """A callback for the training loop: adds each step's number and loss."""
        return lambda step: self.add(name, step.number, step.loss)


def lines(
    names: Sequence[str],
    *,
    x: str,
    y: str,
    title: str,
    xs: tuple[float, float],
    log: bool = True,
    floor: float = 0.0,
) -> Growing:
    """Lines that grow from left to right over `xs`; the y axis is logarithmic with `log`.

    A value that cannot be drawn (NaN, infinite, or 0 on a logarithmic axis) leaves a gap; with
    `floor`, smaller ones are drawn at the floor.
    """
    labels = {"xlabel": text("x", x), "ylabel": text("y", y)}
    left, right = (number("xs", value) for value in xs)

    def picture(figure: Growing) -> Picture:
        with style():
            drawing, (ax,) = canvas(8.6, 3.9)
            for (name, points), look in zip(figure.points.items(), _looks(), strict=False):
                _line(ax, name, points, look, floor)
            ax.set(xlim=(left, right), **labels)
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
            _scale(ax, log)
            ax.set_title(text("title", title))
            ax.grid(True)
            ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
        scale = ", logarithmic" if log else ""
        words = f"Line chart: {y}{scale} over {x}. Lines: {', '.join(figure.points)}."
        return Picture(drawing, f"{title}\n{words}")

    return Growing(names, picture)


def valley(
    names: Sequence[str],
    surface: Callable[[np.ndarray, np.ndarray], np.ndarray],
    *,
    xs: tuple[float, float],
    ys: tuple[float, float],
    title: str,
    lowest: tuple[float, float] = (0.0, 0.0),
) -> Growing:
    """Paths over the contours of `surface`, a function of two arrays; a star marks the `lowest`."""
    grid = np.meshgrid(np.linspace(*xs, 200), np.linspace(*ys, 120))
    heights = np.asarray(surface(*grid), dtype=float)
    levels = np.geomspace(max(heights.min(), heights.max() / 1e4), heights.max(), 14)

    def picture(figure: Growing) -> Picture:
        with style():
            drawing, (ax,) = canvas(8.6, 3.9)
            ax.contour(*grid, heights, levels=levels, colors="#BBBBBB", linewidths=0.9)
            for (name, points), look in zip(figure.points.items(), _looks(), strict=False):
                _path(ax, name, points, look)
            ax.plot(*lowest, "*", color="black", markersize=13, zorder=5)
            ax.set(xlim=xs, ylim=ys, xlabel="first parameter", ylabel="second parameter")
            ax.set_title(text("title", title))
            ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
        words = f"Contours of the loss, its lowest point at {lowest}. Paths: "
        return Picture(drawing, f"{title}\n{words}{', '.join(figure.points)}.")

    return Growing(names, picture)


def _looks() -> list[dict[str, str]]:
    return [{"color": c, "marker": m} for c, m in zip(PALETTE, MARKERS, strict=True)]


def _line(
    ax: Axes, name: str, points: list[tuple[float, float]], look: dict[str, str], floor: float
) -> None:
    xs, ys = np.array(points, dtype=float).reshape(-1, 2).T
    ys = np.where(np.isfinite(ys), ys, np.nan)
    ys = np.maximum(ys, floor) if floor else ys
    step = max(1, len(xs) // FEW)
    ax.plot(xs, ys, label=name, markevery=step, markersize=5, **look)


def _path(ax: Axes, name: str, points: list[tuple[float, float]], look: dict[str, str]) -> None:
    xs, ys = np.array(points, dtype=float).reshape(-1, 2).T
    ax.plot(xs, ys, label=name, markersize=4, linewidth=1.6, alpha=0.9, **look)


def _scale(ax: Axes, log: bool) -> None:
    """Make the y axis logarithmic if asked to, as soon as a value is positive; no ticks before."""
    values = [y for line in ax.get_lines() for y in line.get_ydata() if y > 0]
    if log and values:
        ax.set_yscale("log")
    elif not values:
        ax.set_yticks([])
