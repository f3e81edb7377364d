"""Histograms over powers of two: bins and regions where they belong, names that hide nothing."""

import numpy as np
import pytest

from course_utils import draw

SHARES, BEFORE = [0, 0.2, 0.5, 0.3, 0, 0], [0.7, 0.3, 0, 0, 0, 0]
REGIONS = {"lost: 20 %": (-np.inf, -9), "kept: 80 %": (-9, -6.5), "too large: 0 %": (-6.5, np.inf)}


def drawn(shares=SHARES, before=BEFORE, regions=REGIONS, first=-10, width=1.0):
    return draw.magnitudes(shares, first, width, regions, title="found", before=before)


def outline(ax, zorder):
    """The corners of the histogram that lies at this height."""
    (patch,) = (patch for patch in ax.patches if patch.get_zorder() == zorder)
    return patch.get_xy().tolist()


def test_bins_stand_where_they_begin_and_are_as_high_as_their_shares():
    (ax,) = drawn().figure.axes
    corners = [[-9, 0], [-9, 0.2], [-8, 0.2], [-8, 0.5], [-7, 0.5], [-7, 0.3], [-6, 0.3], [-6, 0]]
    assert outline(ax, 2)[:-1] == corners
    assert outline(ax, 3)[:3] == [[-10, 0], [-10, 0.7], [-9, 0.7]]
    assert ax.get_xlim() == (-10, -4) and ax.get_ylim()[1] > 0.7


def test_regions_are_shaded_within_the_axes_and_named_above_them():
    figure = drawn().figure
    (ax,) = figure.axes
    figure.draw_without_rendering()
    boxes = [patch for patch in ax.patches if patch.get_zorder() == 0]
    spans = [(box.get_x(), box.get_x() + box.get_width()) for box in boxes]
    assert spans == [(-10, -9), (-9, -6.5), (-6.5, -4)]
    names = [label for label in ax.texts if label.get_text() in REGIONS]
    assert [name.get_text() for name in names] == list(REGIONS)
    places = [name.get_window_extent() for name in names]
    title = ax._left_title.get_window_extent()
    for place in places:
        assert ax.bbox.y1 < place.y0 and place.y1 < title.y0 and place.x1 < figure.bbox.x1
        assert place.count_overlaps(places) == 1


@pytest.mark.parametrize("name", ["subnormal, fewer digits: < 0.0001 %"])
def test_long_names_do_not_meet(name):
    kinds = ("becomes 0: 0.00012 %", name, "normal: > 99.99 %", "infinite: < 0.0001 %")
    regions = {kind: (place, place + 1) for place, kind in enumerate(kinds)}
    figure = drawn(regions=regions).figure
    figure.draw_without_rendering()
    (ax,) = figure.axes
    places = [label.get_window_extent() for label in ax.texts if label.get_text() in kinds]
    assert len(places) == 4 and places[-1].x1 < figure.bbox.x1
    assert all(left.x1 + 10 < right.x0 for left, right in zip(places, places[1:], strict=False))


def test_the_words_and_the_marks():
    picture = drawn()
    assert picture.text == (
        "Histogram, the x axis in powers of two. found\nThe fullest bin begins at 2⁻⁸. An outline "
        "shows them before. Regions from left to right: lost: 20 %; kept: 80 %; too large: 0 %."
    )
    assert "outline" not in drawn(before=()).text
    wide = drawn([0.5] * 200, (), first=-60, width=0.5).figure
    labels = {label.get_text() for label in wide.axes[0].texts}
    assert {"2⁻⁶⁰", "2⁻¹⁰", "2⁰", "2⁴⁰", "0 %", "50 %", "100 %"} <= labels


def test_nothing_in_any_bin_is_drawn_too():
    assert drawn([0.0] * 6, ()).png


@pytest.mark.parametrize(
    ("given", "message"),
    [({"shares": []}, "as many bins"), ({"before": [1.0]}, "as many bins as shares, got 1"),
     ({"shares": [-1.0], "before": ()}, r"shares\[0\] must be"), ({"width": 0}, "width must be"),
     ({"regions": {}}, "regions must name one to 4"), ({"first": "2"}, "first must be")],
)  # fmt: skip
def test_what_is_no_histogram(given, message):
    with pytest.raises((TypeError, ValueError), match=message):
        drawn(**given)
