"""Linear layers by their shapes: each matmul forward, and the two of each layer backward."""

from collections.abc import Sequence
from itertools import accumulate
from math import log

from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.path import Path

from course_utils import units
from course_utils.arguments import choice, count, shown
from course_utils.draw import matmuls
from course_utils.draw.columns import DEEP_ORANGE
from course_utils.draw.matmuls import Matmul, Shapes
from course_utils.draw.picture import (
    BLACK,
    BLUE,
    GREY,
    ORANGE,
    PINK,
    Picture,
    inches,
    page,
    style,
)

MOST, LEAST = 0.72, 0.17  # inches: the longest side, and about the shortest
LINE, LANE, APART, BESIDE = 0.2, 0.18, 0.16, 0.06  # inches
WIDTH, FOOT = 9.6, 0.32  # inches: the page at least, and below all
NAME, LABEL = 12.5, 12  # points
OFF = "#666666"


def layers(rows: int, widths: Sequence[int], title: str = "", *, gradients: bool = True) -> Picture:
    """Draw 2 to 4 linear layers on `rows` rows: tensors as rectangles, matmuls with their FLOPs.

    `widths` are those of the data x and of each layer's output: [32, 32, 16] is x → w1 → h1 → w2
    → h2. Above, forward, left to right; below, unless `gradients` is False, right to left: the
    gradient of each weight and of each input but x, which is data. No bias, no activation function.
    Raises TypeError or ValueError for sizes that are not whole numbers of at least 1.
    """
    rows = count("rows", rows)
    if not isinstance(widths, (list, tuple)):
        raise TypeError(f"widths must be a list of 3 to 5 sizes, got {shown(widths)}")
    if not 3 <= len(widths) <= 5:
        raise ValueError(f"widths must be 3 to 5 sizes, for 2 to 4 layers, got {shown(widths)}")
    widths = [count(f"widths[{at}]", width) for at, width in enumerate(widths)]
    forward = list(matmuls.forward(rows, widths))
    backward = list(matmuls.backward(rows, widths)) if choice("gradients", gradients) else []
    with style():
        sheet = _Sheet(matmuls.tensors(rows, widths), forward, backward, title)
        sheet.forward(forward)
        if backward:
            sheet.backward(backward)
        sheet.foot(forward, backward)
    return Picture(sheet.figure, _words(title, rows, forward, backward))


def _words(title: str, rows: int, forward: list[Matmul], backward: list[Matmul]) -> str:
    """One line a matmul, and the sums."""
    lines = [f"{len(forward)} linear layers on {rows} rows.", "Forward:", *map(str, forward)]
    lines.append(f"Forward together: {_total(forward):,} FLOPs.")
    if backward:
        lines.append(f"Backward, from the loss's gradient for {forward[-1].result}:")
        lines += [*map(str, backward), "x.grad: not computed, x is data."]
        lines.append(f"Backward together: {_total(backward):,} FLOPs.")
    return "\n".join([*filter(None, [title]), *lines])


def _total(products: list[Matmul]) -> int:
    return sum(matmul.flops for matmul in products)


def _tensor(gradient: str) -> str:
    """'w1' of 'w1.grad'."""
    return gradient.removesuffix(".grad")


def _label(matmul: Matmul) -> list[str]:
    return [f"{matmul.left} · {matmul.right}", matmul.formula, f"= {units.flops(matmul.flops)}"]


class _Sheet:
    """Tensors on a line, forward above it; their gradients hang below, backward under them."""

    def __init__(
        self, tensors: Shapes, forward: list[Matmul], backward: list[Matmul], title: str
    ) -> None:
        self.tensors, self.power = tensors, _power(tensors)
        self.above = {matmul.right: _label(matmul) for matmul in forward}
        self.below = {_tensor(matmul.result): _label(matmul) for matmul in backward}
        if backward:
            self.below |= {"x": ["not computed:", "x is data"]}
            self.below |= {forward[-1].result: ["from the loss"]}
        self.widths = {name: self._width(name) for name in tensors}
        spare = (WIDTH - sum(self.widths.values())) / len(tensors)
        self.widths = {name: width + max(0, spare) for name, width in self.widths.items()}
        ends = accumulate(self.widths.values())
        self.middles = {n: end - self.widths[n] / 2 for n, end in zip(tensors, ends, strict=True)}
        outward = MOST + LANE + 3 * LINE + 0.1
        self.hang = FOOT + outward  # the gradients' upper edges
        self.stand = self.hang + 0.62 if backward else FOOT + 0.3  # the tensors' lower edges
        page_width = sum(self.widths.values())
        self.figure, self.ax = page(page_width, self.stand + outward, title)

    def _width(self, name: str) -> float:
        """Inches of the widest that stands in the column, and a gap."""
        lines = [*self.above.get(name, []), *self.below.get(name, []), f"{name}.grad"]
        wide = max(inches(line, LABEL) for line in lines)
        return max(wide, inches(self.called(name), NAME), self.sides(name)[0]) + APART

    def called(self, name: str) -> str:
        """'h1  64×32'."""
        return f"{name}  {'×'.join(map(str, self.tensors[name]))}"

    def sides(self, name: str) -> tuple[float, float]:
        """Width and height in inches: columns and rows."""
        largest = max(max(shape) for shape in self.tensors.values())
        rows, columns = (MOST * (n / largest) ** self.power for n in self.tensors[name])
        return columns, rows

    def rectangle(self, name: str, edge: float, hanging: bool = False, **look: object) -> None:
        """The tensor's, standing on `edge` or hanging from it."""
        width, height = self.sides(name)
        low = edge - height if hanging else edge
        self.ax.add_artist(Rectangle((self.middles[name] - width / 2, low), width, height, **look))

    def write(self, name: str, y: float, lines: Sequence[str], colour: str, size: float) -> None:
        """`lines` in the tensor's column, the first about `y`."""
        for row, line in enumerate(lines):
            at = self.middles[name], y - row * LINE
            self.ax.text(*at, line, ha="center", va="center", color=colour, fontsize=size)

    def arrow(self, points: Sequence[tuple[float, float]], colour: str, head: bool = True) -> None:
        """Along `points`, with a head at the last unless told."""
        look = {"arrowstyle": "-|>" if head else "-", "color": colour, "linewidth": 1.7}
        arrow = FancyArrowPatch(path=Path(points), mutation_scale=14, **look)
        self.ax.add_artist(arrow)

    def forward(self, products: list[Matmul]) -> None:
        """The tensors; above them an arrow from each input, over its weight, to the result."""
        lane = self.stand + MOST + LANE
        tops = {name: self.stand + self.sides(name)[1] for name in self.tensors}
        for name in self.tensors:
            colour = {"x": GREY, "w": BLUE, "h": PINK}[name[0]]
            self.rectangle(name, self.stand, facecolor=colour)
            self.write(name, self.stand - 0.16, [self.called(name)], BLACK, NAME)
        for matmul in products:
            start, end = self.middles[matmul.left] + BESIDE, self.middles[matmul.result] - BESIDE
            ends = (start, tops[matmul.left]), (end, tops[matmul.result])
            self.arrow([ends[0], (start, lane), (end, lane), ends[1]], BLACK)
            over = self.middles[matmul.right]
            self.arrow([(over, tops[matmul.right]), (over, lane)], BLACK, head=False)
            self.write(matmul.right, lane + 0.1 + 2.5 * LINE, _label(matmul), BLACK, LABEL)

    def backward(self, products: list[Matmul]) -> None:
        """The gradients; below them an arrow from each to those that are made of it."""
        lane = self.hang - MOST - LANE
        for name, lines in self.below.items():
            colour = OFF if name == "x" else DEEP_ORANGE
            self.write(name, self.hang + 0.16, [f"{name}.grad"], colour, NAME)
            self.write(name, lane - 0.1 - LINE / 2, lines, colour, LABEL)
            if name != "x":
                self.rectangle(name, self.hang, hanging=True, facecolor=ORANGE)
        self._crossed("x")
        for matmul in products:
            made, of = _tensor(matmul.result), _tensor(matmul.arriving)
            start = self.middles[of] - BESIDE
            end = self.middles[made] + BESIDE * made.startswith("h")
            ends = (start, self.hang - self.sides(of)[1]), (end, self.hang - self.sides(made)[1])
            self.arrow([ends[0], (start, lane), (end, lane), ends[1]], DEEP_ORANGE)

    def _crossed(self, name: str) -> None:
        """The outline of a gradient that is not computed."""
        look = {"facecolor": "none", "edgecolor": OFF, "linestyle": "--"}
        self.rectangle(name, self.hang, hanging=True, **look)
        (width, height), middle = self.sides(name), self.middles[name]
        for side in (-1, 1):
            ends = [middle - side * width / 2, middle + side * width / 2]
            self.ax.plot(ends, [self.hang - height, self.hang], color=OFF, linewidth=1.2)

    def foot(self, forward: list[Matmul], backward: list[Matmul]) -> None:
        """The sums, and whether the sides can be compared."""
        sums = f"Forward: {units.flops(_total(forward))}."
        sums += f" Backward: {units.flops(_total(backward))}." if backward else ""
        self.ax.text(0.1, 0.05, sums, fontsize=NAME)
        if self.power < 1:
            scale = "Larger sides are drawn shorter than to scale."
            self.ax.text(self.ax.get_xlim()[1] - 0.1, 0.05, scale, ha="right", color=OFF)


def _power(tensors: Shapes) -> float:
    """1 if sides can be drawn to scale, less where the smallest would not be seen."""
    sizes = [size for shape in tensors.values() for size in shape]
    ratio = max(sizes) / min(sizes)
    return min(1.0, log(MOST / LEAST) / log(ratio)) if ratio > 1 else 1.0
