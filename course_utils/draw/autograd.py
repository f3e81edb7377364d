"""Draw the graph that autograd recorded: which operation hands its gradient to which."""

from collections import Counter
from dataclasses import dataclass

import torch
from matplotlib.axes import Axes

from course_utils.arguments import shown, text
from course_utils.draw.picture import BLACK, Picture, canvas, style

LIMIT = 24
LEAF, OPERATION = "#A6DDC1", "#9ECAE9"


@dataclass
class _Node:
    """One operation or leaf: its label, its distance from the result, its inputs' nodes."""

    label: str
    depth: int
    leaf: bool
    parents: list[int]


def graph(y: torch.Tensor, title: str = "", **names: torch.Tensor) -> Picture:
    """Draw what `y.backward()` walks through, from `y` at the left to the leaves at the right.

    `names` says what the leaves are called, as `graph(y, w=w)`. Raises ValueError when `y` has no
    graph or one too large to read.
    """
    if not isinstance(y, torch.Tensor) or y.grad_fn is None:
        raise ValueError(f"y must be a tensor with a graph (a grad_fn), got {shown(y)}")
    known = {id(tensor): name for name, tensor in names.items()}
    nodes = _walk(y, known)
    if len(nodes) > LIMIT:
        raise ValueError(f"the graph must have at most {LIMIT} nodes to be read, got {len(nodes)}")
    with style():
        depth = max(node.depth for node in nodes.values())
        figure, (ax,) = canvas(1.75 * (depth + 1) + 0.4, 0.9 + 0.6 * _tallest(nodes))
        _draw(ax, nodes)
        if title:
            ax.set_title(text("title", title))
    return Picture(figure, _words(nodes))


def _walk(y: torch.Tensor, known: dict[int, str]) -> dict[int, _Node]:
    """Every node behind `y`, breadth first, keyed by identity."""
    nodes, queue = {}, [(y.grad_fn, 0)]
    keep = []  # a node's Python wrapper, and its id, last only as long as something refers to it
    while queue:
        fn, depth = queue.pop(0)
        keep.append(fn)
        parents = [parent for parent, _ in fn.next_functions if parent is not None]
        variable = getattr(fn, "variable", None)
        label = known.get(id(variable), "leaf") if variable is not None else _operation(fn)
        node = nodes.setdefault(id(fn), _Node(label, depth, variable is not None, []))
        node.depth, node.parents = max(node.depth, depth), [id(parent) for parent in parents]
        queue += [(parent, depth + 1) for parent in parents]
    return nodes


def _operation(fn: object) -> str:
    """'MulBackward0' as 'Mul'."""
    return fn.name().rstrip("0123456789").removesuffix("Backward")


def _draw(ax: Axes, nodes: dict[int, _Node]) -> None:
    positions, rows = {}, {}
    for key, node in nodes.items():
        rows.setdefault(node.depth, []).append(key)
    for depth, keys in rows.items():
        for row, key in enumerate(keys):
            positions[key] = (depth, (len(keys) - 1) / 2 - row)
    for key, node in nodes.items():
        colour = LEAF if node.leaf else OPERATION
        box = {"boxstyle": "round,pad=0.4", "facecolor": colour, "edgecolor": "none"}
        ax.text(*positions[key], node.label, ha="center", va="center", bbox=box, zorder=3)
        for parent in node.parents:
            look = {"arrowstyle": "-|>", "color": BLACK, "shrinkA": 24, "shrinkB": 26}
            ax.annotate("", positions[parent], positions[key], arrowprops=look)
    tallest = _tallest(nodes)
    ax.set(xlim=(-0.6, max(rows) + 0.6), ylim=(-tallest / 2 - 0.3, tallest / 2 + 0.3))
    ax.axis("off")


def _tallest(nodes: dict[int, _Node]) -> int:
    """The most nodes at one distance from the result."""
    return max(Counter(node.depth for node in nodes.values()).values())


def _words(nodes: dict[int, _Node]) -> str:
    lines = [
        f"{node.label} hands gradients to {', '.join(nodes[p].label for p in node.parents)}."
        for node in nodes.values()
        if node.parents
    ]
    return "\n".join(["Graph of the backward pass, from the result to the leaves.", *lines])
