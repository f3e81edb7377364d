"""Two charts over the layers of a network: what stands on them, and that nothing hides it."""

import numpy as np
import pytest

from course_utils import draw

UP = ([[1, 2, 4], [1, 3, 9]], [1, 2.5, 6.25], ([1, 1.5, 2], [1, 4, 16]))
DOWN = ([[5, 0, 1], [7, 3, 1]], None, None)


def drawn(**panels):
    return draw.fans({"forth": UP, "back": DOWN} | panels, title="t")


def lines(ax):
    """The lines of single draws, cut at their gaps, and the dashed ones."""
    found = [line for line in ax.lines if len(line.get_xydata()) > 2]
    thin = [line for line in found if line.get_linestyle() == "-" and line.get_linewidth() == 1]
    dashed = [line for line in found if line.get_linestyle() == "--"]
    (thin,) = (line.get_ydata() for line in thin)
    ends = np.flatnonzero(np.isnan(line_x(ax)))
    return [part[:3].tolist() for part in np.split(thin, ends + 1)[:-1]], dashed


def line_x(ax):
    return next(line.get_xdata() for line in ax.lines if np.isnan(line.get_xdata()).any())


def test_each_panel_has_its_draws_the_arithmetic_and_the_band():
    picture = drawn()
    forth, back = picture.figure.axes
    thin, (dashed,) = lines(forth)
    assert thin == [[1, 2, 4], [1, 3, 9]]
    assert dashed.get_xydata().tolist() == [[0, 1], [1, 2.5], [2, 6.25]]
    (band,) = forth.collections
    corners = {tuple(corner) for corner in band.get_paths()[0].vertices.tolist()}
    assert corners == {(0, 1), (1, 1.5), (2, 2), (1, 4), (2, 16)}
    assert picture.text == "Two charts over the layers, y logarithmic. t"
    assert {"forth"} < {label.get_text() for label in forth.texts}
    thin, dashed = lines(back)
    assert np.array_equal(thin, [[5, np.nan, 1], [7, 3, 1]], equal_nan=True)
    assert not dashed and not back.collections


def test_both_charts_have_one_axis_which_spans_two_powers_of_ten_each_way():
    for figure in (drawn().figure, drawn(back=([[0.2, 1]], None, None)).figure):
        assert [ax.get_ylim() for ax in figure.axes] == [(0.01, 100)] * 2
    figure = drawn(back=([[3e-7, 1]], None, None)).figure
    assert [ax.get_ylim() for ax in figure.axes] == [pytest.approx((1e-7, 100))] * 2
    assert [ax.get_yscale() for ax in figure.axes] == ["log", "log"]
    assert [ax.get_xlim() for ax in figure.axes] == [(0, 2), (0, 1)]


def test_the_key_names_what_is_there():
    (key,) = (label.get_text() for label in drawn().figure.texts)
    assert key == "Thin: 2 draws of the weights. Dashed: arithmetic. Band: 95 % of all draws."
    (key,) = (label.get_text() for label in drawn(forth=DOWN).figure.texts)
    assert key == "Thin: 2 draws of the weights."


@pytest.mark.parametrize(
    ("end", "named"),
    [(1e37, set()), (1e40, {"largest in fp32"}), (1e-44, set()), (1e-60, {"smallest in fp32"})],
)
def test_where_fp32_ends_is_marked_if_it_is_in_the_picture(end, named):
    forth = ([[1, end**0.5, end]], None, None)
    for ax in drawn(forth=forth).figure.axes:
        names = {label.get_text() for label in ax.texts if "fp32" in label.get_text()}
        dotted = [line for line in ax.lines if line.get_linestyle() == ":"]
        assert names == named and len(dotted) == len(named)


@pytest.mark.parametrize("power", [-120, -46, -13, -2, 2, 7, 39, 50, 99])
@pytest.mark.parametrize("last", [1, 5, 7, 13, 30, 41, 60])
def test_numbers_are_few_and_round_and_nothing_hides_anything(power, last):
    along = [10.0 ** (power * layer / last) for layer in range(last + 1)]
    panels = {"forth →": ([along], along, (along, along)),
              "← back": ([along[::-1]], along[::-1], (along[::-1], along[::-1]))}  # fmt: skip
    title = "No activation, 60 layers of width 512, s = 0.00001: signal vanishing, gradients kept"
    figure = draw.fans(panels, title=title).figure
    figure.set_dpi(176)
    figure.draw_without_rendering()
    labels = [ax._left_title for ax in figure.axes if ax._left_title.get_text()]
    labels += [*figure.texts, *(ax.xaxis.label for ax in figure.axes)]
    labels += [label for ax in figure.axes for label in ax.texts]
    boxes = [label.get_window_extent() for label in labels]
    curves = np.concatenate([
        ax.transData.transform(np.c_[fine, line_at(fine, power, last, ax)])
        for ax, fine in ((ax, np.linspace(0, last, 300)) for ax in figure.axes)
    ])  # fmt: skip
    for label, box in zip(labels, boxes, strict=True):
        assert box.count_overlaps(boxes) == 1, label.get_text()  # itself
        assert not box.count_contains(curves), label.get_text()
        assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1, label.get_text()
        assert figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1, label.get_text()
    numbers = [label.get_text() for label in figure.axes[1].texts if label.get_text().isdigit()]
    steps = {int(b) - int(a) for a, b in zip(numbers, numbers[1:], strict=False)}
    assert numbers[0] == "0" and 2 <= len(numbers) <= 7 and steps < {1, 2, 5, 10}


def line_at(fine, power, last, ax):
    """The drawn line at fine steps, which rises in the first chart and falls in the second."""
    first = ax is ax.figure.axes[0]
    return 10.0 ** (power * (fine if first else last - fine) / last)


def test_powers_of_ten_are_written_as_such():
    figure = drawn(back=([[1e-7, 1]], None, None)).figure
    words = {label.get_text() for label in figure.axes[0].texts}
    assert {"10⁻⁶", "10⁻⁴", "10⁻²", "1", "10²"} < words
    assert {"10", "1", "10⁻¹"} < {label.get_text() for label in drawn().figure.axes[0].texts}


@pytest.mark.parametrize(
    ("panels", "message"),
    [({"a": UP}, "must name two charts"), ([UP, UP], "must name two charts"),
     ({"a": UP, "b": ([], None, None)}, "over the same two layers"),
     ({"a": UP, "b": ([[1]], None, None)}, "over the same two layers"),
     ({"a": UP, "b": ([[1, 2], [1]], None, None)}, "over the same two layers"),
     ({"a": UP, "b": ([[1, 2]], [1, 2, 3], None)}, "over the same two layers"),
     ({"a": UP, "b": ([[1, -2]], None, None)}, "panels\\['b'\\] must be"),
     ({"a": UP, "b": ([[1, float("nan")]], None, None)}, "panels\\['b'\\] must be")],
)  # fmt: skip
def test_panels_that_cannot_be_drawn_are_refused(panels, message):
    with pytest.raises(ValueError, match=message):
        draw.fans(panels, title="t")
