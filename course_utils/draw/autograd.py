"""Draw the graph that autograd recorded: which operation hands which gradient to which."""

from collections.abc import Mapping
from gc import get_objects
from graphlib import TopologicalSorter
from math import isfinite
from textwrap import wrap

import torch
from matplotlib.figure import Figure

from course_utils import units
from course_utils.arguments import cause, shown
from course_utils.draw.columns import APART, DEEP_ORANGE, Box, Layout, draw_box
from course_utils.draw.picture import BLACK, Picture, inches, page, style

LIMIT = 24  # nodes
NUMBERS = 4  # of a tensor whose values are written out
LEAF, OPERATION = "#A6DDC1", "#9ECAE9"
NOTE, NOTE_LINE = 11, 0.3  # points, inches
Functions = dict[object, list[object]]


def graph(y: torch.Tensor, /, title: str = "", **names: torch.Tensor) -> Picture:
    """Draw what `y.backward()` walks through, from `y` at the left to the leaves at the right.

    `names` says what leaves and results in between are called, as `graph(y, w=w, p=p, y=y)`. Then
    each of them shows its value and the gradient of `y` that arrives there, the shape where it has
    more than 4 numbers; so does `y`. What is not in the graph, such as data, stands apart. No
    `.grad` changes and the graph stays usable, but the hooks that tensors carry are called.

    Raises TypeError for a name of no tensor, and ValueError when `y` has no graph, one too large
    to read, or, with names, one that a backward pass has used up.
    """
    if not isinstance(y, torch.Tensor) or y.grad_fn is None:
        raise ValueError(f"y must be a tensor with a graph (a grad_fn), got {shown(y)}")
    for name, tensor in names.items():
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} must be a tensor, got {shown(tensor)}")
    recorded = _recorded(y)
    if len(recorded) > LIMIT:
        found = len(recorded)
        raise ValueError(f"the graph must have at most {LIMIT} nodes to be read, got {found}")
    known = {fn: _named(fn, names) for fn in recorded}
    boxes = _plain(recorded, known)
    if names:
        _fill(boxes, y, known)
    inside = {name for own in known.values() for name in own}
    apart = [_apart(name, tensor) for name, tensor in names.items() if name not in inside]
    notes = _notes(y) if names else []
    with style():
        figure = _draw(boxes, apart, notes, title)
    return Picture(figure, _words(boxes, apart, notes))


def _recorded(y: torch.Tensor) -> Functions:
    """Every function behind `y`, breadth first, with those that it hands gradients to."""
    recorded, queue = {}, [y.grad_fn]
    while queue:
        fn = queue.pop(0)
        if fn not in recorded:
            recorded[fn] = [after for after, _ in fn.next_functions if after is not None]
            queue += recorded[fn]
    return recorded


def _named(fn: object, names: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Those of `names` that `fn` made, or whose gradient it keeps."""
    leaf = getattr(fn, "variable", None)
    return {k: t for k, t in names.items() if t.grad_fn is fn or (leaf is not None and t is leaf)}


def _operation(fn: object) -> str:
    """'MulBackward0' as 'Mul'."""
    return fn.name().rstrip("0123456789").removesuffix("Backward")


def _plain(recorded: Functions, known: Mapping[object, Mapping]) -> dict[object, Box]:
    """A box for each function: its name, and whom it hands gradients to."""
    depths = dict.fromkeys(recorded, 0)
    for fn in reversed(list(TopologicalSorter(recorded).static_order())):
        for after in recorded[fn]:
            depths[after] = max(depths[after], depths[fn] + 1)
    return {fn: _heading(fn, list(known[fn]), depths[fn], hands) for fn, hands in recorded.items()}


def _heading(fn: object, names: list[str], depth: int, hands: list[object]) -> Box:
    called = ", ".join(names)
    if hasattr(fn, "variable"):
        return Box(called or "leaf", LEAF, depth, hands)
    operation = _operation(fn)
    return Box(f"{called} ({operation})" if called else operation, OPERATION, depth, hands)


def _fill(boxes: Mapping[object, Box], y: torch.Tensor, known: Mapping[object, Mapping]) -> None:
    """Write into the boxes the values and gradients of the tensors in `known`, and of `y`."""
    held = {fn: list(own.values()) for fn, own in known.items()}
    held[y.grad_fn] = held[y.grad_fn] or [y]
    tensors = [tensor for own in held.values() for tensor in own]
    arriving = iter(_gradients(y, tensors) if y.numel() == 1 else [])
    for fn, own in held.items():
        if own:
            boxes[fn].lines = _lines("", own)
            if y.numel() == 1:
                boxes[fn].accents = _lines("gradient ", [next(arriving) for _ in own])


def _gradients(y: torch.Tensor, tensors: list[torch.Tensor]) -> list[torch.Tensor | None]:
    """The gradient of `y` for each of `tensors`."""
    kept = [(tensor, tensor.grad) for tensor in _retaining()]
    ones = torch.ones_like(y)
    try:
        return list(torch.autograd.grad(y, tensors, ones, retain_graph=True, allow_unused=True))
    except RuntimeError as error:
        raise ValueError(
            "y must have a graph that is not used up: compute y again, or call "
            f"backward(retain_graph=True) before; torch says: {cause(error)}"
        ) from error
    finally:
        for tensor, grad in kept:
            tensor.grad = grad


def _retaining() -> list[torch.Tensor]:
    """Every result, of any graph, that was asked to `retain_grad`: a graph does not know its own.

    torch.autograd.grad fills the `.grad` of those on its way.
    """
    return [kept for kept in get_objects() if type(kept) is torch.Tensor and kept.retains_grad]


def _lines(before: str, tensors: list[torch.Tensor | None]) -> list[str]:
    """What the tensors hold, each once, in lines that a box can hold."""
    return wrap(before + "; ".join(dict.fromkeys(map(_value, tensors))), 22)


def _value(tensor: torch.Tensor | None) -> str:
    """'6' or '[1, 2, 3]', 'shape (64, 32)' if it has more numbers, or none that can be read."""
    if tensor is None:
        return "none"
    if tensor.numel() > NUMBERS or tensor.is_meta or tensor.layout is not torch.strided:
        return f"shape {tuple(tensor.shape)}"
    return _written(tensor.tolist())


def _written(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    return units.digits(value) if isinstance(value, float) and isfinite(value) else str(value)


def _why(tensor: torch.Tensor) -> str:
    return "not in the graph" if tensor.requires_grad else "data, not in the graph"


def _apart(name: str, tensor: torch.Tensor) -> Box:
    return Box(name, "white", lines=[*_lines("", [tensor]), _why(tensor)], dashed=True)


def _notes(y: torch.Tensor) -> list[str]:
    if y.numel() == 1:
        return ["Arrows show which way the gradients go."]
    return [f"y has {y.numel()} numbers; gradients start from one, so none are shown."]


def _draw(boxes: Mapping[object, Box], apart: list[Box], notes: list[str], title: str) -> Figure:
    """The graph; below it the notes at the left and the boxes apart at the right."""
    under = max((box.height + APART for box in apart), default=NOTE_LINE * len(notes))
    layout = Layout(boxes, floor=under)
    beside = sum(box.width + APART for box in apart)
    needed = beside + max((inches(note, NOTE) for note in notes), default=0)
    width = max(layout.width, needed)
    figure, ax = page(width, layout.height, title)
    layout.draw(ax, DEEP_ORANGE if notes else BLACK)
    for row, note in enumerate(notes):
        ax.text(0, 0.05 + NOTE_LINE * row, note, fontsize=NOTE, color="#444444")
    right = width
    for box in reversed(apart):
        draw_box(ax, box, right - box.width / 2, box.height / 2)
        right -= box.width + APART
    return figure


def _words(boxes: Mapping[object, Box], apart: list[Box], notes: list[str]) -> str:
    """Who hands gradients to whom; then values and gradients, and what is no part of it."""
    hands = [
        f"{box.heading} hands gradients to {', '.join(boxes[p].heading for p in box.hands)}."
        for box in boxes.values()
        if box.hands
    ]
    held = [
        f"{box.heading}: {', '.join(filter(None, map(' '.join, (box.lines, box.accents))))}."
        for box in boxes.values()
        if box.lines
    ]
    rest = [f"{box.heading}: {' '.join(box.lines[:-1])}, {box.lines[-1]}." for box in apart]
    first = "Graph of the backward pass, from the result to the leaves."
    return "\n".join([first, *hands, *held, *rest, *notes])
