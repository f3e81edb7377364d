"""Figures: what stands on the axes, the words beside them, and what is refused."""

from io import BytesIO
from itertools import combinations

import matplotlib as mpl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from course_utils import draw, live, measure
from course_utils.draw.cells import TINTS, UNTOUCHED
from course_utils.live import growth, series


def cells(picture):
    """(left, bottom) → colour of every drawn cell."""
    (ax,) = picture.figure.axes
    return {
        (round(p.get_x() - 0.03, 2), round(p.get_y() - 0.03, 2)): mpl.colors.to_hex(
            p.get_facecolor()
        ).upper()
        for p in ax.patches
        if isinstance(p, mpl.patches.Rectangle)
    }


def texts(picture):
    return [t.get_text() for ax in picture.figure.axes for t in ax.texts if t.get_text()]


def test_storage_colours_the_cells_that_a_view_touches():
    x = torch.arange(16).view(4, 4)
    drawn = cells(draw.storage(x[:2, 1]))
    lines = sorted({bottom for _, bottom in drawn})
    storage = [colour for (_, bottom), colour in sorted(drawn.items()) if bottom == lines[0]]
    assert [i for i, colour in enumerate(storage) if colour != UNTOUCHED] == [1, 5]
    assert len(storage) == 16


def test_storage_says_what_it_draws():
    picture = draw.storage(torch.arange(16).view(4, 4).T, "turned", mark=(1, 2))
    assert "shape (4, 4), stride (1, 4), offset 0" in picture.text
    assert "in order: 0 4 8 12 1 5" in picture.text
    assert "Element (1, 2) lies at position 9" in picture.text
    assert picture.figure.axes[0].get_title(loc="left") == "turned"


def test_a_row_has_one_colour_in_the_tensor_and_in_storage():
    drawn = cells(draw.storage(torch.arange(6).view(2, 3)))
    for row in (0, 1):
        colours = [c for c in drawn.values() if c == TINTS[row].upper()]
        assert len(colours) == 6  # three cells above, three below


@settings(max_examples=25)
@given(st.lists(st.integers(0, 4), max_size=3), st.randoms())
def test_storage_draws_any_small_tensor(sizes, random):
    x = torch.zeros(sizes)
    axes = list(range(x.dim()))
    random.shuffle(axes)
    picture = draw.storage(x.permute(axes))
    assert f"stride {tuple(x.permute(axes).stride())}" in picture.text
    assert picture.png.startswith(b"\x89PNG")


def test_expand_reads_the_same_cells_again():
    assert "in order: 0 1 0 1 0 1" in draw.storage(torch.arange(2).expand(3, 2)).text


@pytest.mark.parametrize("dtype", [torch.bool, torch.float64, torch.int8, torch.bfloat16])
def test_storage_of_other_dtypes(dtype):
    item = torch.ones(1, dtype=dtype).element_size()
    assert any(f"4 cells × {item} byte" in t for t in texts(draw.storage(torch.ones(4).to(dtype))))


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        ([1, 2], TypeError, r"x must be a tensor, got \[1, 2\] \(list\)"),
        (torch.zeros(97), ValueError, "at most 96 cells.*got 97"),
        (torch.zeros(1, 1, 1, 1), ValueError, "at most 3 dimensions"),
        (torch.zeros(3, device="meta"), ValueError, "meta device"),
        (torch.zeros(1).expand(1000), ValueError, "at most 96 cells"),
    ],
)
def test_storage_refuses_what_it_cannot_draw(x, error, message):
    with pytest.raises(error, match=message):
        draw.storage(x)


def test_a_mark_outside_is_refused():
    with pytest.raises(ValueError, match=r"mark must be an index of the shape \(2, 2\)"):
        draw.storage(torch.zeros(2, 2), mark=(2, 0))


def test_mask():
    picture = draw.mask(torch.ones(3, 3).tril().bool())
    assert "query 0 sees keys 0; query 1 sees keys 0 1" in picture.text
    assert sum(colour == TINTS[0].upper() for colour in cells(picture).values()) == 6
    assert "no key" in draw.mask(torch.zeros(2, 2).bool()).text
    with pytest.raises(TypeError, match="boolean"):
        draw.mask(torch.ones(2, 2))


def test_bars_carry_their_values():
    given_ = {"H100": 989.5e12, "A100": 312e12}
    picture = draw.bars(given_, unit="FLOP/s", title="t", highlight={"mine": 1.5e11}, log=True)
    widths = [bar.get_width() for bar in picture.figure.axes[0].patches]
    assert widths == [989.5e12, 312e12, 1.5e11]
    assert texts(picture) == ["990 TFLOP/s", "312 TFLOP/s", "150 GFLOP/s"]
    assert "H100: 989.5 TFLOP/s" in picture.text and "mine: ≈ 150 GFLOP/s" in picture.text


def test_bars_need_values():
    with pytest.raises(ValueError, match="at least one bar"):
        draw.bars({}, unit="B", title="t")
    with pytest.raises(ValueError, match=r"values\['a'\] must be"):
        draw.bars({"a": float("nan")}, unit="B", title="t")


def test_stacked_bars_lie_end_to_end():
    rows = {"a": {"parameters": 4, "gradients": 4, "optimizer": 8}, "b": {"parameters": 2}}
    picture = draw.stacked(rows, unit="bytes", title="t")
    boxes = [(p.get_x(), p.get_width()) for p in picture.figure.axes[0].patches if p.get_width()]
    assert sorted(boxes) == [(0, 2), (0, 4), (4, 4), (8, 8)]
    assert "a: parameters 4, gradients 4, optimizer 8; together 16 bytes" in picture.text


def test_curves_draw_every_point():
    picture = draw.curves(
        {"a": ([1, 2], [0.1, measure.Quantity(0.2, "noise")]), "b": ([1], [3.0])},
        x="n", y="time", unit="s", title="t", sizes=[1, 2],
    )  # fmt: skip
    (ax,) = picture.figure.axes
    assert [list(line.get_ydata()) for line in ax.lines] == [[0.1, 0.2], [0.2], [3.0]]
    assert ax.lines[1].get_markerfacecolor() == "white"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("n", "time")
    assert ax.get_xscale() == ax.get_yscale() == "log"


def test_curves_without_points_still_draw():
    picture = draw.curves({"a": ([], [])}, x="n", y="t", unit="s", title="t", sizes=[1, 2])
    assert picture.png.startswith(b"\x89PNG")


@pytest.mark.parametrize("log", [True, False])
def test_live_shows_one_figure_whose_words_never_change(monkeypatch, log):
    shown = []

    class Handle:
        update = staticmethod(shown.append)

    monkeypatch.setattr(series, "display", lambda first, **_: shown.append(first) or Handle)
    sweep = measure.sweep({"a": lambda n: lambda: sum(range(n))}, [10, 100], budget=20)
    live.timings(sweep, x="n", y="time", unit="s", title="t", log=log)
    assert shown[-1].figure.axes[0].get_yscale() == ("log" if log else "linear")
    assert len(shown) == 3 and len({picture.text for picture in shown}) == 1
    assert [len(p.figure.axes[0].lines[0].get_ydata()) for p in shown] == [0, 1, 2]


def test_a_picture_is_sharp_small_and_sized():
    picture = draw.bars({"a": 1}, unit="B", title="t")
    data, metadata = picture._repr_mimebundle_()
    assert set(data) == {"image/png", "text/plain"} and data["text/plain"] == picture.text
    width, height = Image.open(BytesIO(picture.png)).size
    assert metadata["image/png"] == {"width": width // 2, "height": height // 2}
    assert len(picture.png) < 40_000


def test_the_learner_s_own_style_is_untouched():
    before = mpl.rcParams["axes.titlesize"]
    draw.bars({"a": 1}, unit="B", title="t").png  # noqa: B018
    assert mpl.rcParams["axes.titlesize"] == before


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: draw.bars({"a": 0}, unit="B", title="t"), "at least one bar above 0"),
        (lambda: draw.bars(None, unit="B", title="t"), "values must map names"),
        (lambda: draw.bars({"a": 1}, unit="B", title="t", highlight={"a": 2}), "names of its own"),
        (lambda: draw.stacked({}, unit="B", title="t"), "rows must map at least one row"),
        (lambda: draw.stacked({"a": {"x": -1}}, unit="B", title="t"),
         r"rows\['a'\]\['x'\] must be"),
        (lambda: draw.plan(1, {}, 1, title="t"), "memory must map"),
        (lambda: draw.plan(0, {"a": {"x": 1}}, 1, title="t"), "days must be"),
        (lambda: draw.curves({}, x="a", y="b", unit="s", title="t"), "1 to 6 lines"),
        (lambda: draw.curves({str(i): ([], []) for i in range(7)}, x="a", y="b", unit="s",
                             title="t"), "1 to 6 lines"),
        (lambda: live.timings(3, x="a", y="b", unit="s", title="t"), "come from measure.sweep"),
        (lambda: draw.mask(torch.ones(60, 60).bool()), "1 to 384 cells, got 3600"),
        (lambda: draw.storage(torch.ones(3).to_sparse()), "strides to be drawn"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_values_that_are_not_finite_are_drawn():
    shown = texts(draw.storage(torch.tensor([float("nan"), float("inf"), -float("inf")])))
    assert {"nan", "inf", "-inf"} <= set(shown)


def test_a_plan_says_what_fits():
    picture = draw.plan(
        10, {"all": {"parameters": 8e9}, "part": {"parameters": 1e9}}, 2e9, title="t"
    )
    assert "all 8 GB, does not fit, part 1 GB, fits; the device has 2 GB" in picture.text
    assert {"8 GB: does not fit", "1 GB: fits"} <= set(texts(picture))


@pytest.mark.parametrize(
    ("days", "words"),
    [
        (0.5, "12 hours"),
        (1, "1 day"),
        (143.927, "143.9 days"),
        (36_524, "36520 days"),
        (365_250, "1000 years"),
        (4.45e8, "1.218 million years"),
        (2.142e-7, "18.51 ms"),
        (3e-14, "2.592 ns"),
        (2e16, "54.76 trillion years"),
    ],
)
def test_a_plan_of_any_length_has_a_bar_landmarks_and_a_unit_that_can_be_read(days, words):
    picture = draw.plan(days, {"all": {"parameters": 8e9}}, 2e9, title="t")
    assert f"It takes {words}." in picture.text
    ax = picture.figure.axes[0]
    start, end = ax.get_xlim()
    (bar,) = ax.patches
    assert bar.get_x() == start and bar.get_x() + bar.get_width() == pytest.approx(days)
    assert start < days < end
    names = [t for t in ax.texts if t.get_text().strip() != words]
    assert len(names) >= 3 and all(start < t.get_position()[0] < end for t in names)


@pytest.mark.parametrize("days", [2e-13, 1e-7, 0.1, 143.9, 1e4, 1e9, 1e16])
def test_words_of_a_plan_neither_touch_nor_leave_the_figure(days):
    memory = {"copied": {"parameters": 16e12, "optimizer": 8e12}, "sharded": {"parameters": 1.0}}
    figure = draw.plan(days, memory, 80e9, title="t").figure
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw_without_rendering()
    for ax in figure.axes:
        boxes = [t.get_window_extent(renderer) for t in ax.texts]
        assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 for box in boxes)
        assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))


def test_a_graph_leads_from_the_result_to_the_leaves():
    w, b = torch.ones(3, requires_grad=True), torch.ones(1, requires_grad=True)
    picture = draw.graph((w * 2).sum() + b, "g", w=w, b=b)
    assert {"Add", "Sum", "Mul", "w", "b"} <= set(texts(picture))
    assert "Add hands gradients to Sum, b." in picture.text
    assert "Mul hands gradients to w." in picture.text


def test_a_leaf_used_twice_is_drawn_once():
    w = torch.ones(3, requires_grad=True)
    assert texts(draw.graph((w * w).sum(), w=w)).count("w") == 1


@pytest.mark.parametrize("y", [torch.ones(2), 3, torch.ones(2, requires_grad=True)])
def test_what_has_no_graph_is_refused(y):
    with pytest.raises(ValueError, match="y must be a tensor with a graph"):
        draw.graph(y)


def test_a_graph_too_large_to_read_is_refused():
    y = torch.ones(1, requires_grad=True)
    for _ in range(30):
        y = y + 1
    with pytest.raises(ValueError, match="at most 24 nodes"):
        draw.graph(y)


def test_a_roofline_bends_at_the_ridge():
    picture = draw.roofline({"m": (100.0, 10.0)}, {"add": (0.1, 1.0)}, title="t", live=False)
    (ax,) = picture.figure.axes
    roof, ridge, point = ax.lines
    rates = dict(zip(roof.get_xdata(), roof.get_ydata(), strict=True))
    assert all(abs(rate - min(100, 10 * x)) < 1e-9 for x, rate in rates.items())
    assert (ridge.get_xdata()[0], ridge.get_ydata()[0]) == (10.0, 100.0)
    assert (point.get_xdata()[0], point.get_ydata()[0]) == (0.1, 1.0)
    assert "m: 100 FLOP/s, ridge at 10 FLOPs per byte" in picture.text
    measured = draw.roofline({"m": (100.0, 10.0)}, title="t")
    assert "m: ≈ 100 FLOP/s" in measured.text
    both = draw.roofline({"m": (100.0, 10.0), "k": (50.0, 10.0)}, title="t", live=["m"])
    assert "m: ≈ 100 FLOP/s" in both.text and "k: 50 FLOP/s, ridge at 5 FLOPs" in both.text


NOISY = measure.Quantity(5.0, "noise")


def test_points_that_are_not_to_be_trusted_are_hollow():
    points = {"sure": (0.1, 1.0), "unsure": (1.0, NOISY)}
    picture = draw.roofline({"m": (100.0, 10.0)}, points, title="t")
    sure, unsure = picture.figure.axes[0].lines[2:]
    assert unsure.get_markerfacecolor() == "white" != sure.get_markerfacecolor()
    assert unsure.get_ydata() == [5.0]


def test_a_roof_made_of_an_unsure_peak_or_bandwidth_is_dashed_and_says_so():
    roofs = {"a": (100.0, 10.0), "b": (50.0, NOISY)}
    picture = draw.roofline(roofs, title="t", live=["b"])
    sure, _, unsure, _ = picture.figure.axes[0].lines
    assert (sure.get_linestyle(), unsure.get_linestyle()) == ("-", "--")
    assert (sure.get_label(), unsure.get_label()) == ("a", "b (unsure)")
    assert "b: ≈ 50 FLOP/s, ridge at 10 FLOPs per byte (unsure: noise)" in picture.text


def test_a_bar_of_an_unsure_measurement_is_hatched_and_says_so():
    live = {"mine": NOISY, "yours": measure.Quantity(4.0)}
    picture = draw.bars({"known": 3.0}, unit="B", title="t", highlight=live)
    (ax,) = picture.figure.axes
    known, mine, yours = ax.patches
    assert mine.get_hatch() and not yours.get_hatch() and not known.get_hatch()
    assert [label.get_text() for label in ax.texts] == ["3 B", "5 B (unsure)", "4 B"]
    assert picture.text.splitlines()[1:] == ["known: 3 B", "mine: ≈ 5 B (unsure: noise)",
                                             "yours: ≈ 4 B"]  # fmt: skip


@pytest.mark.parametrize("top", [1.2, 1.5, 3.0, 9.0, 99.0])
def test_an_axis_of_less_than_a_decade_is_labelled(top):
    """Powers of ten alone would leave a single label, or none; and labels must not be rounded."""
    lines = {"a": ([1, 2], [1.0, top])}
    picture = draw.curves(lines, x="x", y="y", unit="", title="t", sizes=[1, 2])
    (ax,) = picture.figure.axes
    low, high = ax.get_ylim()
    ticks = [value for value in ax.get_yticks() if low <= value <= high]
    words = [ax.yaxis.get_major_formatter()(value, 0) for value in ticks]
    assert len(words) >= 2 and [float(word) for word in words] == pytest.approx(ticks)


REGIONS = {"memory-bound", "compute-bound"}
OTHERS = {"add": (0.125, 4.9e9), "sum": (0.25, 12.6e9), "matrix × vector": (0.5, 10.8e9)}


@pytest.mark.parametrize("dpi", [100, 176])  # as it is laid out, and as the PNG is drawn
@pytest.mark.parametrize(
    ("rates", "roof"),
    [
        ((60e9, 110e9, 125e9), (134e9, 30e9)),
        ((83e9, 197e9, 193e9), (206e9, 40e9)),
        ((120e9, 120e9, 120e9), (134e9, 30e9)),
        ((134e9, 134e9, 134e9), (134e9, 30e9)),
        ((30e9, 90e9, 80e9), (134e9, 30e9)),
    ],
)
def test_the_names_of_points_hide_nothing(rates, roof, dpi):
    products = zip((64, 256, 1024), rates, strict=True)
    points = OTHERS | {f"product of {n}": (n / 6, rate) for n, rate in products}
    # The long name makes the axes narrower than they are before the layout.
    figure = draw.roofline({"a machine of a long name, 2 cores": roof}, points, title="t").figure
    figure.set_dpi(dpi)
    figure.draw_without_rendering()
    (ax,) = figure.axes
    boxes = {label.get_text(): label.get_window_extent() for label in ax.texts}
    assert set(boxes) == set(points) | REGIONS
    for box in (boxes[point] for point in points):
        assert box.count_overlaps(boxes.values()) == 1  # itself
        assert not any(box.count_contains(ax.transData.transform(x.get_xydata())) for x in ax.lines)
        assert box.y1 <= ax.bbox.y1  # clear of the title


def test_points_that_cannot_be_told_apart_still_get_each_a_name():
    points = {f"p{i}": (10.0, 50.0) for i in range(9)} | {"none": (10.0, 0)}
    (ax,) = draw.roofline({"m": (100.0, 10.0)}, points, title="t").figure.axes
    assert {label.get_text() for label in ax.texts} == set(points) | REGIONS


@pytest.mark.parametrize(
    ("roofs", "message"),
    [({}, "at least one machine"), (3, "roofs must map"), ({"m": (0, 1)}, r"roofs\['m'\]\[0\]"),
     ({"m": (1, float("nan"))}, r"roofs\['m'\]\[1\]")],
)  # fmt: skip
def test_bad_roofs_are_named(roofs, message):
    with pytest.raises((TypeError, ValueError), match=message):
        draw.roofline(roofs, title="t")


def test_a_pattern_keeps_each_cell_s_colour():
    before = torch.arange(8).reshape(2, 4)
    picture = draw.pattern(before, before.T, "turned")
    left, right = picture.figure.axes
    for ax in (left, right):
        colours = {
            t.get_text(): p.get_facecolor() for t, p in zip(ax.texts, ax.patches, strict=True)
        }
        assert colours["0"] == colours["3"] != colours["4"]
    assert "(2, 4) becomes (4, 2): 0 4 1 5 2 6 3 7" in picture.text


def test_a_group_and_its_result_have_one_colour():
    before, groups = torch.arange(6.0).reshape(2, 3), torch.tensor([[0, 0, 1], [0, 0, 1]])
    picture = draw.pattern(before, torch.tensor([2.0, 3.5]), "means", groups=groups)
    left, right = ([p.get_facecolor() for p in ax.patches] for ax in picture.figure.axes)
    assert left[0] == left[1] == left[3] == left[4] == right[0] != left[2] == left[5] == right[1]
    with pytest.raises(ValueError, match="groups must have the shape of before"):
        draw.pattern(before, before, "t", groups=groups[0])


def test_a_new_value_stays_white():
    picture = draw.pattern(torch.arange(4), torch.tensor([6]), "sum")
    assert mpl.colors.to_hex(picture.figure.axes[1].patches[0].get_facecolor()) == "#ffffff"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [(torch.zeros(200), torch.zeros(2), "before must have at most 3 dimensions and 1 to 96 cells"),
     (torch.zeros(2), torch.zeros(1, 1, 1, 1, 2), "after must have at most 4"),
     ([1], torch.zeros(2), "before must be a tensor"),
     (torch.zeros(2), torch.zeros(2, device="meta"), "after must be a tensor with values")],
)  # fmt: skip
def test_bad_patterns_are_named(before, after, message):
    with pytest.raises((TypeError, ValueError), match=message):
        draw.pattern(before, after, "t")


def test_bits_are_drawn_one_by_one():
    picture = draw.bits({"f": ("0", "101", "11", "= 1")}, "t", chosen="f")
    lines = picture.figure.axes[0].lines
    drawn = sorted((x, line.get_label()) for line in lines for x in line.get_xdata())
    assert drawn == list(zip([0.5, 1.5, 2.5, 3.5, 4.5, 5.5], "010111", strict=True))
    assert picture.text == "t\nf: 0 101 11 = 1"


def test_number_lines_and_ranges():
    picture = draw.number_line({"a": [0.0, 1.0, 3.0]}, title="t", x="value")
    assert "a: 3 numbers from 0 to 3" in picture.text
    assert len(picture.figure.axes[0].collections[0].get_segments()) == 3
    picture = draw.ranges({"a": (-8.0, -4.0, 4.8, 3.3)}, title="t")
    spans = [(bar.get_x(), round(bar.get_width(), 6)) for bar in picture.figure.axes[0].patches]
    assert spans == [(-4.0, 8.8), (-8.0, 4.0)]
    for bad in (lambda: draw.number_line({}, title="t", x="x"), lambda: draw.bits({}, "t"),
                lambda: draw.number_line({"a": range(401)}, title="t", x="x"),
                lambda: draw.ranges({"a": (1, 2, 3, "x")}, title="t")):  # fmt: skip
        with pytest.raises((TypeError, ValueError), match="must|401 marks"):
            bad()


class Shown:
    """A display handle that keeps what it is given."""

    def __init__(self):
        self.pictures = []

    def update(self, picture):
        self.pictures.append(picture)


@pytest.fixture
def shown(monkeypatch):
    handle = Shown()

    def display(picture, display_id):
        handle.pictures.append(picture)
        return handle

    monkeypatch.setattr(growth, "display", display)
    return handle


def grow(**options):
    labels = {"x": "layer", "y": "scale", "title": "T", "xs": (0, 30)}
    return live.lines(["up", "down"], **labels, **options)


def test_growing_lines_end_complete_and_keep_their_words(shown):
    with grow() as figure:
        for layer in range(31):
            figure.add("up", layer, 2.0**layer)
            figure.add("down", layer, 0.5**layer)
    last = shown.pictures[-1]
    (ax,) = last.figure.axes
    assert ax.get_yscale() == "log" and ax.get_xlim() == (0, 30)
    assert [list(line.get_ydata())[-1] for line in ax.get_lines()] == [2.0**30, 0.5**30]
    assert len({picture.text for picture in shown.pictures}) == 1
    assert last.text == "T\nLine chart: scale, logarithmic over layer. Lines: up, down."


def test_growing_is_drawn_a_few_times_a_second_only(shown, monkeypatch):
    now = iter(0.1 * tick for tick in range(1000))
    clock = growth
    monkeypatch.setattr(clock, "perf_counter", lambda: next(now))
    with grow() as figure:
        for layer in range(30):
            figure.add("up", layer, 1.0)
    assert 3 < len(shown.pictures) < 10


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0])
def test_what_cannot_be_drawn_leaves_a_gap(shown, value):
    with grow() as figure:
        for layer, y in enumerate((1.0, value, 4.0)):
            figure.add("up", layer, y)
    (ax,) = shown.pictures[-1].figure.axes
    drawn = ax.get_lines()[0].get_ydata()
    assert drawn[0] == 1.0 and drawn[2] == 4.0 and not drawn[1] > 0
    assert shown.pictures[-1].png


def test_a_floor_keeps_small_values_on_the_page(shown):
    with grow(floor=1e-7) as figure:
        figure.add("up", 0, 1e-30)
    assert shown.pictures[-1].figure.axes[0].get_lines()[0].get_ydata()[0] == 1e-7


def test_growing_without_points_is_drawn_and_strangers_are_named(shown):
    with grow() as figure:
        assert shown.pictures[0].png
        with pytest.raises(ValueError, match="name must be one of .*'up', 'down'.*'left'"):
            figure.add("left", 0, 1.0)
    with pytest.raises(ValueError, match="1 to 6 different ones"):
        live.lines(["a", "a"], x="x", y="y", title="T", xs=(0, 1))


def test_a_growing_figure_follows_a_training_run(shown):
    class Step:
        number, loss = 3, 0.25

    with grow() as figure:
        figure.follow("down")(Step)
    assert figure.points["down"] == [(3.0, 0.25)]


def test_a_valley_draws_every_step_over_the_contours(shown):
    paths = live.valley(
        ["SGD"], lambda a, b: a**2 + 9 * b**2, xs=(-2, 1), ys=(-1, 1), title="V", lowest=(0, 0)
    )
    with paths as figure:
        for x, y in ((-1.5, 0.5), (-1.0, -0.4), (-0.5, 0.3)):
            figure.add("SGD", x, y)
    (ax,) = shown.pictures[-1].figure.axes
    path, star = ax.get_lines()
    assert list(path.get_xdata()) == [-1.5, -1.0, -0.5] and list(star.get_xdata()) == [0]
    assert shown.pictures[-1].text.startswith("V\nContours of the loss")


def step_events():
    model = torch.nn.Linear(16, 4)
    optimizer, x = torch.optim.AdamW(model.parameters()), torch.randn(8, 16)

    def step():
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    return measure.memory(step)


def test_a_timeline_stacks_to_the_totals_and_names_the_peak():
    found = step_events()
    picture = draw.timeline(found.timeline, "One step")
    (ax,) = picture.figure.axes
    tops = [patch.get_data().values for patch in ax.patches]
    assert list(tops[-1]) == [event.total for event in found.timeline]
    assert max(tops[-1]) == found.peak and ax.get_lines()[0].get_ydata()[0] == found.peak
    assert {"forward", "backward", "optimizer"} <= set(texts(picture))
    assert f"Peak {found.peak} B." in picture.text
    assert "parameters, optimizer, gradients" in picture.text


def test_a_timeline_begins_with_what_is_there_from_the_start():
    first = step_events().timeline[0]
    assert first.parts["parameters"] == 4 * (16 * 4 + 4)
    assert first.parts["optimizer"] == 2 * first.parts["parameters"] + 2 * 4
    assert first.parts["gradients"] == first.parts["parameters"]


@pytest.mark.parametrize("events", [[], [1, 2], None])
def test_a_timeline_needs_events(events):
    with pytest.raises(TypeError, match="timeline of measure.memory"):
        draw.timeline(events, "T")


def test_curves_of_shares_begin_at_zero():
    lines = {"a": ([1e-5, 1e-3], [0.0, 0.5])}
    labels = {"x": "x", "y": "share", "unit": "", "title": "T"}
    (ax,) = (picture := draw.curves(lines, **labels, log=False)).figure.axes
    assert ax.get_yscale() == "linear" and ax.get_ylim()[0] == 0 and ax.get_xscale() == "log"
    assert picture.text.startswith("Line chart, the x axis logarithmic: share over x.")
    with pytest.raises(TypeError, match="log must be True or False"):
        draw.curves(lines, **labels, log="y")
