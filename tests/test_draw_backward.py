"""The graph that autograd recorded, with its values and gradients."""

import re
from itertools import combinations

import numpy as np
import pytest
import torch
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path

from course_utils import draw


def example():
    """The chapter's: ½(x·w − 5)²."""
    x, w = torch.tensor([1.0, 2.0, 3.0]), torch.ones(3, requires_grad=True)
    p = x @ w
    e = p - 5
    s = e**2
    return {"y": 0.5 * s, "s": s, "e": e, "p": p, "w": w, "x": x}


def diamond():
    a, b = (torch.tensor(value, requires_grad=True) for value in (2.0, -3.0))
    c = a * b
    return {"y": c + a, "c": c, "a": a, "b": b}


def many_ways():
    q = torch.tensor([1.23456, -2.34567, 1e-7, 12345.6], requires_grad=True)
    k = q * q + q
    z = ((k + q) * k).sum() + q.sum()
    return {"y": z, "k": k, "q": q, "other": torch.ones(2, requires_grad=True), "m": torch.eye(2)}


def of_matrices():
    x, w = torch.arange(12.0).view(4, 3), torch.arange(6.0).view(3, 2).requires_grad_()
    v = torch.tensor([0.5, -1.0], requires_grad=True)
    h = x @ w
    return {"y": (h.relu() @ v).mean(), "h": h, "w": w, "v": v, "x": x}


def of_uneven_boxes():
    """A narrow box below a wide one, with an arrow that leads up."""
    t, m, b = (torch.full((4,), value, requires_grad=True) for value in (1.125, 2.25, 4.5))
    wide, narrow = t * 3, torch.addcmul(t, m, b)
    return {"y": wide.sum() + narrow.sum(), "a_name_that_is_wide": wide}


GRAPHS = [example, diamond, many_ways, of_matrices, of_uneven_boxes]


def drawn(tensors, title="t"):
    return draw.graph(tensors["y"], title, **tensors)


def words(picture):
    return [t.get_text() for t in picture.figure.axes[0].texts]


def numbers(line):
    return [float(n) for n in re.findall(r"-?\d[\d.e-]*", line)]


def said(picture, name):
    """The value and the gradient in the line that begins with `name`."""
    line = next(x for x in picture.text.splitlines() if re.match(rf"{name}( \(\w+\))?: ", x))
    value, _, gradient = line.partition(": ")[2].removesuffix(".").partition(", gradient ")
    return value, gradient


def test_the_chapter_s_graph_in_words():
    assert drawn(example()).text.splitlines() == [
        "Graph of the backward pass, from the result to the leaves.",
        "y (Mul) hands gradients to s (Pow).",
        "s (Pow) hands gradients to e (Sub).",
        "e (Sub) hands gradients to p (Dot).",
        "p (Dot) hands gradients to w.",
        "y (Mul): 0.5, gradient 1.",
        "s (Pow): 1, gradient 0.5.",
        "e (Sub): 1, gradient 1.",
        "p (Dot): 6, gradient 1.",
        "w: [1, 1, 1], gradient [1, 2, 3].",
        "x: [1, 2, 3], data, not in the graph.",
        "Arrows show which way the gradients go.",
    ]


def test_a_box_holds_name_value_and_gradient():
    assert words(drawn(example())) == [
        "y (Mul)", "0.5", "gradient 1", "s (Pow)", "1", "gradient 0.5", "e (Sub)", "1",
        "gradient 1", "p (Dot)", "6", "gradient 1", "w", "[1, 1, 1]", "gradient [1, 2, 3]",
        "Arrows show which way the gradients go.", "x", "[1, 2, 3]", "data, not in the graph",
    ]  # fmt: skip


@pytest.mark.parametrize("make", [example, diamond, many_ways])
def test_gradients_are_those_of_a_backward_pass(make):
    """Rounded to 4 digits: 0.05 % of the last one."""
    picture, tensors = drawn(make()), make()
    kept = {n: t for n, t in tensors.items() if t.requires_grad and n != "other"}
    for tensor in kept.values():
        tensor.retain_grad()
    tensors["y"].backward()
    for name, tensor in kept.items():
        value, gradient = said(picture, name)
        assert numbers(value) == pytest.approx(tensor.flatten().tolist(), rel=5e-4)
        assert numbers(gradient) == pytest.approx(tensor.grad.flatten().tolist(), rel=5e-4)


def test_no_grad_changes_and_the_graph_stays_usable():
    """Also of what retains its gradient, named or not; torch.autograd.grad alone would fill it."""
    before = torch.tensor([7.0, 8.0, 9.0])
    tensors = example()
    tensors["w"].grad, own = before, before.clone()
    for name in "pes":
        tensors[name].retain_grad()
    tensors["e"].grad = earlier = torch.tensor(4.0)
    draw.graph(tensors["y"], w=tensors["w"], s=tensors["s"])
    assert tensors["w"].grad is before and before.equal(own)
    assert tensors["p"].grad is None and tensors["s"].grad is None
    assert tensors["e"].grad is earlier and earlier == 4
    tensors["y"].backward()
    assert tensors["p"].grad == 1 and tensors["s"].grad == 0.5
    assert tensors["w"].grad.tolist() == [8, 10, 12]


def test_more_than_four_numbers_are_a_shape():
    picture = drawn(of_matrices())
    assert said(picture, "w") == ("shape (3, 2)", "shape (3, 2)")
    assert said(picture, "h") == ("shape (4, 2)", "shape (4, 2)")
    assert said(picture, "v") == ("[0.5, -1]", "[37, 53.5]")
    assert "x: shape (4, 3), data, not in the graph." in picture.text
    w = torch.tensor([[1.0, float("nan")], [-12345.6, 1e-9]], requires_grad=True)
    assert said(draw.graph(w.sum(), w=w), "w")[0] == "[[1, nan], [-12350, 1e-9]]"


def test_without_names_there_are_operations_and_leaves_alone():
    picture = draw.graph(example()["y"])
    assert words(picture) == ["Mul", "Pow", "Sub", "Dot", "leaf"]
    assert "gradient 1" not in picture.text and "Arrows" not in picture.text


def test_gradients_start_from_a_single_number():
    w = torch.ones(3, requires_grad=True)
    picture = draw.graph(w * 2, w=w)
    assert said(picture, "w") == ("[1, 1, 1]", "") and said(picture, "Mul") == ("[2, 2, 2]", "")
    assert "y has 3 numbers; gradients start from one, so none are shown." in words(picture)
    assert said(draw.graph((w * 2).sum().view(1, 1), w=w), "w") == ("[1, 1, 1]", "[2, 2, 2]")


def test_a_stranger_stands_apart_without_arrows():
    (ax,) = drawn(many_ways()).figure.axes
    frames = [p for p in ax.patches if isinstance(p, FancyBboxPatch)]
    dashed = [frame for frame in frames if frame.get_linestyle() == "--"]
    assert len(dashed) == 2
    highest = max(frame.get_bbox().y1 for frame in dashed)
    for arrow in (p for p in ax.patches if isinstance(p, FancyArrowPatch)):
        assert arrow._path_original.vertices[:, 1].min() > highest
    assert {"not in the graph", "data, not in the graph"} <= {t.get_text() for t in ax.texts}


def test_results_of_one_operation_share_a_box():
    w = torch.tensor([2.0, 3.0], requires_grad=True)
    a, b = w.unbind()
    picture = draw.graph(a * 5, a=a, b=b, w=w, also=w)
    assert "a, b (Unbind): 2; 3, gradient 5; none." in picture.text
    assert "w, also: [2, 3], gradient [5, 0]." in picture.text


@pytest.mark.parametrize("make", GRAPHS)
def test_nothing_in_a_graph_hides_anything_else(make):
    figure = drawn(make()).figure
    figure.draw_without_rendering()
    (ax,) = figure.axes
    to_pixels = ax.transData.transform_bbox
    frames = [p for p in ax.patches if isinstance(p, FancyBboxPatch)]
    boxes = [to_pixels(frame.get_bbox()) for frame in frames]
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))
    extents = [t.get_window_extent() for t in ax.texts]
    assert not any(a.overlaps(b) for a, b in combinations(extents, 2))
    inside = [any(contains(box, text) for box in boxes) for text in extents]
    assert inside.count(False) == 1  # the note
    for box in boxes:
        assert contains(figure.bbox, box)
    for arrow in (p for p in ax.patches if isinstance(p, FancyArrowPatch)):
        pixels = ax.transData.transform(along(arrow._path_original))
        assert not any(box.padded(-2).count_contains(pixels) for box in boxes)
        before, tip = arrow._path_original.vertices[-2:]
        assert tip[0] - before[0] >= 0.02 and tip[1] == before[1]  # else it has no head


@pytest.mark.parametrize("make", [example, diamond, many_ways])
def test_arrows_do_not_cross(make):
    """Each pair of curves between the same two columns."""
    (ax,) = drawn(make()).figure.axes
    arrows = [p._path_original for p in ax.patches if isinstance(p, FancyArrowPatch)]
    pieces = [piece for path in arrows for piece in path.iter_bezier()]
    paths = [curve.control_points for curve, code in pieces if code == Path.CURVE4]
    for a, b in combinations(paths, 2):
        if a[0, 0] == b[0, 0]:
            assert (a[0, 1] - b[0, 1]) * (a[-1, 1] - b[-1, 1]) >= 0


def along(path):
    """Points on a path of curves and lines."""
    return np.concatenate([curve(np.linspace(0, 1, 40)) for curve, _ in path.iter_bezier()])


def contains(outer, inner):
    return (outer.x0 <= inner.x0 and inner.x1 <= outer.x1
            and outer.y0 <= inner.y0 and inner.y1 <= outer.y1)  # fmt: skip


def test_a_network_with_many_ways_is_refused_at_once():
    """Two ways in each of 40 layers are 2**40 from the result to the leaf."""
    y = torch.ones(1, requires_grad=True)
    for _ in range(40):
        y = y + y * 2
    with pytest.raises(ValueError, match="at most 24 nodes to be read, got 81"):
        draw.graph(y)


def test_a_graph_that_is_used_up_is_named():
    tensors = example()
    tensors["y"].backward()
    with pytest.raises(ValueError, match="y must have a graph that is not used up"):
        drawn(tensors)
    with pytest.raises(TypeError, match=r"w must be a tensor, got 3 \(int\)"):
        draw.graph(example()["y"], w=3)
