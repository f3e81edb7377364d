"""The graph with its values and gradients, and linear layers with the FLOPs of their gradients."""

import re
from itertools import combinations

import numpy as np
import pytest
import torch
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle
from matplotlib.path import Path
from matplotlib.transforms import Bbox

from course_utils import draw, measure, predict


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


def test_the_chapter_s_layers_in_words():
    lines = draw.layers(64, [32, 32, 16], "T").text.splitlines()
    assert lines == [
        "T",
        "2 linear layers on 64 rows.",
        "Forward:",
        "h1 = x · w1: 2·64·32·32 = 131,072 FLOPs",
        "h2 = h1 · w2: 2·64·32·16 = 65,536 FLOPs",
        "Forward together: 196,608 FLOPs.",
        "Backward, from the loss's gradient for h2:",
        "w2.grad = h1ᵀ · h2.grad: 2·32·64·16 = 65,536 FLOPs",
        "h1.grad = h2.grad · w2ᵀ: 2·64·16·32 = 65,536 FLOPs",
        "w1.grad = xᵀ · h1.grad: 2·32·64·32 = 131,072 FLOPs",
        "x.grad: not computed, x is data.",
        "Backward together: 262,144 FLOPs.",
    ]
    assert draw.layers(64, [32, 32, 16], "T", gradients=False).text.splitlines() == lines[:6]


LAYERS = [(64, [32, 32, 16]), (64, [784, 128, 64, 10]), (8, [3, 5, 7, 11, 13]), (1, [1, 1, 1])]


@pytest.mark.parametrize(("rows", "widths"), LAYERS)
def test_flops_are_those_that_torch_runs(rows, widths):
    h, weights = torch.ones(rows, widths[0]), list(zip(widths, widths[1:], strict=False))
    model = torch.nn.Sequential(*(torch.nn.Linear(a, b, bias=False) for a, b in weights))
    counted = measure.flops(lambda: model(h).sum().backward())
    text = draw.layers(rows, widths).text
    sums = {name: int(total.replace(",", "")) for name, total in
            re.findall(r"(\w+) together: ([\d,]+) FLOPs", text)}  # fmt: skip
    assert sums == {"Forward": counted.forward, "Backward": counted.backward}
    each = [int(n.replace(",", "")) for n in re.findall(r"= ([\d,]+) FLOPs", text)]
    ahead = [predict.matmul_flops(rows, a, b) for a, b in weights]
    assert each == ahead + [n for n in ahead[::-1] for _ in "wh"][:-1]
    for formula, flops in re.findall(r": ([\d·]+) = ([\d,]+) FLOPs", text):
        assert np.prod([int(n) for n in formula.split("·")]) == int(flops.replace(",", ""))


@pytest.mark.parametrize(("rows", "widths"), LAYERS)
def test_each_formula_has_the_shapes_of_its_factors(rows, widths):
    """Each line, run as it is written on tensors of the drawn shapes, gives the result's shape."""
    picture = draw.layers(rows, widths)
    drawn_as = [re.fullmatch(r"(\w+)  (\d+)×(\d+)", word) for word in words(picture)]
    shapes = {m[1]: (int(m[2]), int(m[3])) for m in drawn_as if m}
    for line in re.findall(r"^(\S+) = (\S+) · (\S+): 2·(\d+)·(\d+)·(\d+)", picture.text, re.M):
        result, left, right, *sizes = line
        (a, b), (c, d) = (shape(shapes, factor) for factor in (left, right))
        assert b == c and [a, b, d] == list(map(int, sizes))
        assert (a, d) == shape(shapes, result)


def shape(shapes, name):
    """A gradient has the shape of its tensor; ᵀ turns it."""
    found = shapes[name.removesuffix(".grad").removesuffix("ᵀ")]
    return found[::-1] if name.endswith("ᵀ") else found


def rectangles(picture):
    return [p for p in picture.figure.axes[0].patches if isinstance(p, Rectangle)]


def test_sides_are_to_scale_and_a_gradient_has_the_shape_of_its_tensor():
    boxes = [
        (box.get_width(), box.get_height()) for box in rectangles(draw.layers(64, [32, 32, 16]))
    ]
    unit = boxes[0][1] / 64
    tensors = [(32, 64), (32, 32), (32, 64), (16, 32), (16, 64)]
    assert np.allclose(boxes[:5], np.array(tensors) * unit)
    assert np.allclose(sorted(boxes[5:]), sorted(boxes[:5]))


def test_uneven_sides_keep_their_order_can_be_seen_and_say_so():
    picture = draw.layers(64, [784, 128, 64, 10], gradients=False)
    x, w1, *_, h3 = rectangles(picture)
    assert w1.get_height() == x.get_width() > w1.get_width() > x.get_height() > h3.get_width() > 0.1
    note = "Larger sides are drawn shorter than to scale."
    assert note in words(picture) and note not in words(draw.layers(64, [32, 32, 16]))


def test_forward_arrows_lead_right_and_gradients_left():
    picture = draw.layers(64, [32, 32, 16])
    arrows = [p for p in picture.figure.axes[0].patches if isinstance(p, FancyArrowPatch)]
    headed = [a for a in arrows if a.get_arrowstyle().arrow == "-|>"]
    steps = [tuple(a._path_original.vertices[[0, -1], 0]) for a in headed]
    (x0, h1), (after_h1, h2), *back = steps
    assert x0 < h1 < after_h1 < h2
    assert len(back) == 3 and all(end < start for start, end in back)
    assert "not computed:" in words(picture) and words(picture).count("x.grad") == 1
    forward = draw.layers(64, [32, 32, 16], gradients=False)
    assert not any("grad" in word or "not computed" in word for word in words(forward))


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize(
    ("rows", "widths"), [*LAYERS, (8, [32] * 5), (65536, [16384, 53248, 16384, 128256, 1])]
)
def test_nothing_in_layers_hides_anything_else(rows, widths, gradients):
    picture = draw.layers(rows, widths, "t", gradients=gradients)
    figure = picture.figure
    figure.draw_without_rendering()
    (ax,) = figure.axes
    texts = [t.get_window_extent() for t in ax.texts]
    boxes = [p.get_window_extent() for p in rectangles(picture)]
    assert not any(a.overlaps(b) for a, b in combinations([*texts, *boxes], 2))
    assert all(contains(figure.bbox, extent) for extent in texts)
    for arrow in (p for p in ax.patches if isinstance(p, FancyArrowPatch)):
        pixels = ax.transData.transform(along(arrow._path_original))
        assert not any(Bbox.count_contains(text, pixels) for text in texts)
        assert not any(box.padded(-1).count_contains(pixels) for box in boxes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, [1, 2, 3]), "rows must be a whole number at least 1, got 0"),
        ((8, 32), r"widths must be a list of 3 to 5 sizes, got 32 \(int\)"),
        ((8, [32, 32]), r"widths must be 3 to 5 sizes, for 2 to 4 layers, got \[32, 32\]"),
        ((8, [1] * 6), "widths must be 3 to 5 sizes"),
        ((8, [32, 1.5, 2]), r"widths\[1\] must be a whole number at least 1, got 1.5"),
        ((8, [32, 32, 16], 3), "title must be a text"),
    ],
)
def test_bad_layers_are_named(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        draw.layers(*arguments)
    with pytest.raises(TypeError, match="gradients must be True or False"):
        draw.layers(8, [1, 2, 3], gradients=1)


@pytest.mark.parametrize(
    "picture",
    [lambda: drawn(example()), lambda: drawn(diamond()),
     lambda: draw.layers(64, [32, 32, 16], "T"), lambda: draw.layers(64, [784, 128, 64, 10], "T")],
)  # fmt: skip
def test_it_fits_on_a_slide(picture):
    width, height = picture().shown_size
    assert width <= 1000 and height <= 420
