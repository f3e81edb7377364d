"""A graph in columns: boxes that do not overlap, and arrows that go around them.

An arrow that passes a column has a row of its own there; arrows to the same box share it.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle
from matplotlib.path import Path

from course_utils.draw.picture import BLACK, inches

HEAD, LINE, PAD, APART, BETWEEN = 0.36, 0.235, 0.16, 0.3, 0.62  # inches
SHORTEST = 0.02  # inches; an arrow's head needs a piece of line to point along
SIZE = 12  # points
DEEP_ORANGE = "#A84600"  # dark enough for words on white
SWEEPS = 3  # through the columns, each way
Step = tuple[Hashable, Hashable]  # from a key of one column to one of the next


@dataclass
class Box:
    """A heading on `colour`, and `lines` below it; `hands` are the keys its arrows lead to."""

    heading: str
    colour: str
    depth: int = 0
    hands: Sequence[Hashable] = ()
    lines: Sequence[str] = ()
    accents: Sequence[str] = ()  # lines in the colour of the arrows
    dashed: bool = False

    @property
    def width(self) -> float:
        """Inches that the widest line takes, and the pads."""
        widest = max(inches(line, SIZE) for line in [*self.lines, *self.accents, "x"])
        return max(inches(self.heading, SIZE, self.weight), widest) + 2 * PAD

    @property
    def height(self) -> float:
        """Inches of heading and lines."""
        lines = len(self.lines) + len(self.accents)
        return HEAD + (LINE * lines + 0.12 if lines else 0)

    @property
    def weight(self) -> str:
        """Bold where lines follow."""
        return "bold" if self.lines else "normal"


def arranged(boxes: Mapping[Hashable, Box]) -> list[list[Hashable]]:
    """The keys of each column from top to bottom; (key, column) where arrows pass to that key.

    Of several orders, each from the mean rows of the neighbours, the one with the fewest crossings.
    """
    depth = max(box.depth for box in boxes.values())
    columns = [[key for key, box in boxes.items() if box.depth == d] for d in range(depth + 1)]
    steps = {step: None for key, box in boxes.items() for step in _steps(boxes, key, box)}
    for passing in dict.fromkeys(end for _, end in steps if end not in boxes):
        columns[passing[1]].append(passing)
    back = [(end, start) for start, end in steps]
    orders = [columns]
    for _ in range(SWEEPS):
        orders.append(_sorted(orders[-1], steps))
        orders.append(_sorted(orders[-1][::-1], back)[::-1])
    return min(orders[1:], key=lambda order: _crossings(order, steps))


def _sorted(columns: list[list[Hashable]], steps: Iterable[Step]) -> list[list[Hashable]]:
    """Each column by the mean row, as a share, of what leads to it from the column before."""
    done = columns[:1]
    for column in columns[1:]:
        shares = {key: (row + 0.5) / len(done[-1]) for row, key in enumerate(done[-1])}
        own = {key: (row + 0.5) / len(column) for row, key in enumerate(column)}
        before = {key: [shares[a] for a, b in steps if b == key and a in shares] for key in column}
        done.append(sorted(column, key=lambda key: fmean(before[key] or [own[key]])))
    return done


def _crossings(columns: list[list[Hashable]], steps: Iterable[Step]) -> int:
    """How many pairs of steps between the same columns cross."""
    at = {key: (here, row) for here, keys in enumerate(columns) for row, key in enumerate(keys)}
    ends = [(*at[a], at[b][1]) for a, b in steps]
    pairs = combinations(ends, 2)
    return sum(a[0] == b[0] and (a[1] - b[1]) * (a[2] - b[2]) < 0 for a, b in pairs)


def _steps(boxes: Mapping[Hashable, Box], key: Hashable, box: Box) -> list[Step]:
    """The arrows of a box, cut into steps from one column to the next."""
    ways = [_way(boxes, key, end) for end in dict.fromkeys(box.hands)]
    return [step for way in ways for step in pairwise(way)]


def _way(boxes: Mapping[Hashable, Box], start: Hashable, end: Hashable) -> list[Hashable]:
    between = range(boxes[start].depth + 1, boxes[end].depth)
    return [start, *((end, column) for column in between), end]


class Layout:
    """The middle of each key's place in inches, from the lower left corner; the size of all."""

    def __init__(self, boxes: Mapping[Hashable, Box], floor: float = 0) -> None:
        self.boxes, columns = boxes, arranged(boxes)
        pitch = max(box.height for box in boxes.values()) + APART
        self.height = floor + pitch * max(map(len, columns)) - APART
        middle, self.width = (self.height + floor) / 2, 0.0
        self.places, self.edges = {}, {}  # middles; left and right ends of columns
        for column in columns:
            wide = max(boxes[key].width for key in column if key in boxes)
            for row, key in enumerate(column):
                y = middle + ((len(column) - 1) / 2 - row) * pitch
                self.places[key] = self.width + wide / 2, y
                self.edges[key] = self.width, self.width + wide
            self.width += wide + BETWEEN
        self.width -= BETWEEN

    def draw(self, ax: Axes, colour: str) -> None:
        """Every box and every arrow."""
        for key, box in self.boxes.items():
            draw_box(ax, box, *self.places[key])
            for end in dict.fromkeys(box.hands):
                arrow = FancyArrowPatch(path=self._path(key, end), arrowstyle="-|>", color=colour)
                arrow.set(mutation_scale=15, linewidth=1.7, capstyle="butt", facecolor=colour)
                ax.add_artist(arrow)

    def _path(self, start: Hashable, end: Hashable) -> Path:
        """Level until it leaves a column and where it arrives; a curve between columns."""
        way = _way(self.boxes, start, end)
        points = [(self.places[start][0] + self.boxes[start].width / 2, self.places[start][1])]
        codes = [Path.MOVETO]
        for here, key in pairwise(way):
            (_, y0), (_, y1) = self.places[here], self.places[key]
            (_, x0), (x1, _) = self.edges[here], self.edges[key]
            middle = (x0 + x1) / 2
            points += [(x0, y0), (middle, y0), (middle, y1), (x1, y1)]
            codes += [Path.LINETO, *[Path.CURVE4] * 3]
        (x, y), half = self.places[end], self.boxes[end].width / 2
        if x - half - points[-1][0] > SHORTEST:
            points, codes = [*points, (x - half, y)], [*codes, Path.LINETO]
        return Path(points, codes)


def draw_box(ax: Axes, box: Box, x: float, y: float) -> None:
    """Draw `box` about (x, y)."""
    left, low, top = x - box.width / 2, y - box.height / 2, y + box.height / 2
    edge = {"edgecolor": "#777777", "linewidth": 1.1, "linestyle": "--" if box.dashed else "-"}
    shape = {"boxstyle": "round,pad=0,rounding_size=0.09", "zorder": 3}
    frame = FancyBboxPatch((left, low), box.width, box.height, **shape, **edge, facecolor="none")
    band = Rectangle((left, top - HEAD), box.width, HEAD, facecolor=box.colour, zorder=2)
    for patch in (band, frame):
        ax.add_artist(patch)
    band.set_clip_path(frame)
    written = {"ha": "center", "va": "center_baseline", "fontsize": SIZE, "zorder": 4}
    ax.text(x, top - HEAD / 2, box.heading, weight=box.weight, color=BLACK, **written)
    colours = [BLACK] * len(box.lines) + [DEEP_ORANGE] * len(box.accents)
    lines = zip([*box.lines, *box.accents], colours, strict=True)
    for row, (line, colour) in enumerate(lines):
        ax.text(x, top - HEAD - 0.06 - LINE * (row + 0.5), line, color=colour, **written)
