"""Rooflines with their regions: what is shaded and named where, and that nothing hides it."""

import numpy as np
import pytest
from matplotlib.transforms import Bbox

from course_utils import draw

REGIONS = {"memory-bound", "compute-bound"}
POINTS = {"add": (0.125, 4.9e9), "sum": (0.25, 12.6e9), "product of 64": (10.7, 60e9)}


def shaded(ax):
    """The left and right end of each shaded region."""
    return [(box.get_x(), box.get_x() + box.get_width()) for box in ax.patches]


@pytest.mark.parametrize(("peak", "bandwidth"), [(206e9, 40e9), (989.5e12, 3350e9), (7e9, 30e9)])
def test_under_one_roof_both_regions_are_shaded_and_named(peak, bandwidth):
    figure = draw.roofline({"m": (peak, bandwidth)}, POINTS, title="found").figure
    figure.draw_without_rendering()
    (ax,) = figure.axes
    low, high = ax.get_xlim()
    ends = [(low, peak / bandwidth), (peak / bandwidth, high)]
    assert np.allclose(shaded(ax), ends, rtol=1e-12, atol=0)
    boxes = {label.get_text(): label.get_window_extent() for label in ax.texts}
    ridge = ax.transData.transform((peak / bandwidth, peak))[0]
    assert boxes["memory-bound"].x1 < ridge < boxes["compute-bound"].x0
    title = ax._left_title.get_window_extent()
    for box in (boxes[name] for name in REGIONS):
        assert ax.bbox.x0 <= box.x0 and box.x1 <= ax.bbox.x1
        assert ax.bbox.y1 < box.y0 and box.y1 < title.y0


@pytest.mark.parametrize(
    ("ridge", "names"),
    [(2500, ["memory-bound"]), (1e6, ["memory-bound"]), (0.04, ["compute-bound"])],
)
def test_a_region_too_narrow_for_its_name_is_not_named(ridge, names):
    (ax,) = draw.roofline({"m": (ridge, 1.0)}, title="t").figure.axes
    assert [label.get_text() for label in ax.texts] == names
    low, high = ax.get_xlim()
    assert shaded(ax)[0][1] == pytest.approx(min(ridge, high))


def test_several_roofs_have_no_regions_of_their_own():
    (ax,) = draw.roofline({"m": (100.0, 10.0), "k": (50.0, 10.0)}, title="t").figure.axes
    assert not ax.patches and not ax.texts


def test_bounds_draws_the_roof_its_ridge_and_the_operation():
    picture = draw.bounds(100e9, 10e9, 2.5, title="t")
    (ax,) = picture.figure.axes
    left, right = ax.get_xlim()
    roof = [(left, 10e9 * left), (10, 100e9), (right, 100e9)]
    line, ridge, operation = (found.get_xydata() for found in ax.lines[-3:])
    assert np.allclose(line, roof, rtol=1e-12, atol=0)
    assert ridge.tolist() == [[10, 100e9]] and operation.tolist() == [[2.5, 25e9]]
    assert np.allclose(shaded(ax), [(left, 10), (10, right)], rtol=1e-12, atol=0)
    assert picture.text == (
        "Roofline, both axes logarithmic. t\nMemory-bound left of the ridge at 10 FLOPs per byte, "
        "compute-bound right of it; the operation lies at 2.5 FLOPs per byte, where the roof is "
        "25 GFLOP/s."
    )
    assert (
        "1 FLOP per byte, where the roof is 100 GFLOP/s."
        in draw.bounds(1e11, 1e11, 1, title="t").text
    )
    words = {label.get_text() for label in ax.texts}
    assert REGIONS | {"ridge: 10\nFLOPs per byte", "peak 100 GFLOP/s", "bandwidth\n10 GB/s",
                      "2.5 FLOPs per byte,\nat most 25 GFLOP/s"} < words  # fmt: skip


LONG = "A 65536 × 65536 activation times a 65536 × 65536 weight, bf16: compute-bound"


@pytest.mark.parametrize("intensity", [0.4848, "below", "above", 97.3, 43_690])
@pytest.mark.parametrize("bandwidth", [1e9, 123.4e9, 3.35e12, 1e14])
@pytest.mark.parametrize("peak", [1e9, 12.34e12, 989.5e12, 1e16])
def test_nothing_in_bounds_hides_anything_else(peak, bandwidth, intensity):
    ridge = peak / bandwidth
    intensity = {"below": 0.99 * ridge, "above": 1.3 * ridge}.get(intensity, intensity)
    figure = draw.bounds(peak, bandwidth, intensity, title=LONG).figure
    figure.set_dpi(176)
    (ax,) = figure.axes
    figure.draw_without_rendering()
    labels = [ax.xaxis.label, ax.yaxis.label, ax._left_title, *ax.texts]
    boxes = [label.get_window_extent() for label in labels]
    along = np.geomspace(*ax.get_xlim(), 400)
    roof = ax.transData.transform(np.c_[along, np.minimum(peak, along * bandwidth)])
    dot = ax.transData.transform((intensity, min(peak, intensity * bandwidth)))
    reach = 3.5 / 72 * figure.dpi
    dot = Bbox.from_extents(*(dot - reach), *(dot + reach))
    for label, box in zip(labels, boxes, strict=True):
        assert box.count_overlaps([*boxes, dot]) == 1, label  # itself
        assert not box.count_contains(roof), label
        assert figure.bbox.x0 < box.x0 and box.x1 < figure.bbox.x1, label
        assert figure.bbox.y0 < box.y0 and box.y1 < figure.bbox.y1, label
    names = [label.get_text() for label in labels]
    assert set(names) >= REGIONS
    for start in ("ridge", "peak", "bandwidth"):
        (box,) = (box for name, box in zip(names, boxes, strict=True) if name.startswith(start))
        assert ax.bbox.x0 < box.x0 and box.y1 < ax.bbox.y1, start
    low, high = ax.get_ylim()
    assert low < intensity * bandwidth and peak < high


@pytest.mark.parametrize(
    ("given", "message"),
    [((0, 1, 1), "peak must be"), ((1, -1, 1), "bandwidth must be"), ((1, 1, 0), "intensity must"),
     ((1, 1, "2"), "intensity must be")],
)  # fmt: skip
def test_bounds_of_nothing_are_refused(given, message):
    with pytest.raises((TypeError, ValueError), match=message):
        draw.bounds(*given, title="t")
    with pytest.raises(TypeError, match="title must be a text"):
        draw.bounds(1, 1, 1, title="")
