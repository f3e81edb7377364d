"""Number formats as pictures: bits, the numbers they can hold, range against precision."""

from collections.abc import Mapping, Sequence
from functools import cache

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Rectangle
from matplotlib.path import Path
from matplotlib.textpath import TextPath

from course_utils import units
from course_utils.arguments import number, shown, text
from course_utils.draw.picture import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PINK,
    Picture,
    canvas,
    fixed,
    style,
)

PARTS = (("sign", "#E8B9D2"), ("exponent", "#FFBF86"), ("mantissa", "#9ECAE9"))
DIGITS = {"linestyle": "", "markersize": 5.2, "color": BLACK, "markeredgewidth": 0}
LIMIT = 400  # marks on a number line


def bits(rows: Mapping[str, tuple[str, str, str, str]], title: str, *, chosen: str = "") -> Picture:
    """Draw each format's bits: `rows` maps a name to sign, exponent, mantissa and a remark.

    The row named `chosen` has a bold name.
    """
    if not isinstance(rows, Mapping) or not rows:
        raise TypeError(f"rows must map format names to bits, got {shown(rows)}")
    with style():
        height = 0.52 * len(rows) + 0.75
        figure, (ax,) = fixed(11.0, height + 0.35, (0.1, 0.1, 10.8, height - 0.1))
        _cells(ax, [parts for *parts, _ in rows.values()])
        for row, (name, (*parts, remark)) in enumerate(rows.items()):
            _remark(ax, -row, sum(map(len, parts)), remark)
            weight = "bold" if name == chosen else "normal"
            ax.text(-0.8, 0.3 - row, name, ha="right", va="center", fontsize=10, weight=weight)
        for left, (part, colour) in zip((0, 9, 22), PARTS, strict=True):
            ax.add_patch(Rectangle((left, 1.05), 1, 0.6, color=colour))
            ax.text(left + 1.5, 1.35, part, va="center", fontsize=10)
        ax.set(xlim=(-13, 66), ylim=(-len(rows) + 0.7, 1.8))
        ax.axis("off")
        ax.set_title(text("title", title), y=1)
    words = [f"{name}: {' '.join(parts)} {remark}" for name, (*parts, remark) in rows.items()]
    return Picture(figure, "\n".join([title, *words]))


def _cells(ax: Axes, rows: Sequence[Sequence[str]]) -> None:
    """The bits of all rows: a hundred cells as six artists, quick enough to follow a finger."""
    placed = [
        (left + 0.06, -row, colour, digit)
        for row, parts in enumerate(rows)
        for left, (colour, digit) in enumerate(_coloured(parts))
    ]
    for _, colour in PARTS:
        boxes = [_box(x, y) for x, y, own, _ in placed if own == colour]
        ax.add_collection(PolyCollection(boxes, facecolors=colour, linewidths=0))
    for digit in "01":
        middles = [(x + 0.44, y + 0.31) for x, y, _, own in placed if own == digit]
        ax.plot(*zip(*middles, strict=True), marker=_glyph(digit), label=digit, **DIGITS)


def _coloured(parts: Sequence[str]) -> list[tuple[str, str]]:
    """Each digit of sign, exponent and mantissa with the colour of its part."""
    return [
        (colour, digit) for part, (_, colour) in zip(parts, PARTS, strict=True) for digit in part
    ]


def _box(x: float, y: float) -> list[tuple[float, float]]:
    return [(x, y), (x + 0.88, y), (x + 0.88, y + 0.62), (x, y + 0.62)]


@cache
def _glyph(digit: str) -> Path:
    """The outline of a digit about its own centre, to be stamped as a marker."""
    outline = TextPath((0, 0), digit, prop=FontProperties(family="DejaVu Sans"))
    middle = outline.get_extents().get_points().mean(axis=0)
    return Path(outline.vertices - middle, outline.codes)


def _remark(ax: Axes, y: float, bits: int, remark: str) -> None:
    """The stored value: behind its bits, or under them where they take the whole width."""
    x, aligned, height = (bits + 0.8, "left", 0.3) if bits < 40 else (64, "right", -0.14)
    ax.text(x, y + height, remark, ha=aligned, va="center", fontsize=9, color=BLACK)


def number_line(values: Mapping[str, Sequence[float]], *, title: str, x: str) -> Picture:
    """Draw the numbers that each format can hold as marks on a line."""
    if not isinstance(values, Mapping) or not values:
        raise TypeError(f"values must map format names to numbers, got {shown(values)}")
    for name, marks in values.items():
        if len(marks) > LIMIT:
            raise ValueError(f"{name} has {len(marks)} marks; up to {LIMIT} can be told apart")
    with style():
        figure, (ax,) = canvas(9.4, 0.62 * len(values) + 1.1)
        colours = (BLUE, ORANGE, GREEN, PINK)
        for row, (marks, colour) in enumerate(zip(values.values(), colours, strict=False)):
            ax.vlines(marks, row - 0.3, row + 0.3, color=colour, linewidth=1.4)
        ax.set_yticks(range(len(values)), list(values))
        ax.set_xlabel(text("x", x))
        ax.set_title(text("title", title))
        ax.invert_yaxis()
    words = [
        f"{name}: {len(marks)} numbers from {min(marks):g} to {max(marks):g}"
        for name, marks in values.items()
    ]
    return Picture(figure, "\n".join([f"Number lines. {title}", *words]))


def ranges(formats: Mapping[str, tuple[float, float, float, float]], *, title: str) -> Picture:
    """Range against precision: each format as a bar from its smallest to its largest number.

    `formats` maps a name to log10 of smallest subnormal, smallest normal and largest number, and
    to the decimal digits that its mantissa is worth.
    """
    for name, values in formats.items():
        for i, value in enumerate(values):
            number(f"formats[{name!r}][{i}]", value)
    with style():
        figure, (ax,) = canvas(9.4, 0.5 * len(formats) + 1.2)
        for row, (tiny, normal, largest, digits) in enumerate(formats.values()):
            ax.barh(row, largest - normal, left=normal, color=BLUE, height=0.55)
            ax.barh(row, normal - tiny, left=tiny, color="#9ECAE9", height=0.55)
            ax.text(largest + 4, row, f"{digits:.1f} digits", va="center", fontsize=10)
        ax.set_yticks(range(len(formats)), list(formats))
        ax.set_xlabel("power of ten (light: subnormal, with fewer digits)")
        ax.set_xlim(right=max(v[2] for v in formats.values()) + 75)
        ax.set_title(text("title", title))
        ax.invert_yaxis()
    words = [
        f"{name}: 1e{units.digits(v[0], 3)} to 1e{units.digits(v[2], 3)}, "
        f"{units.digits(v[3], 2)} decimal digits"
        for name, v in formats.items()
    ]
    return Picture(figure, "\n".join([f"Bars. {title}", *words]))
