"""What stands on the axes of each figure: words, colours, places, order."""

from itertools import pairwise

import matplotlib as mpl
import pytest
import torch
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from course_utils import draw, live, measure
from course_utils.live import growth, series

BLUE, ORANGE, GREEN, PINK = "#0072b2", "#d55e00", "#009e73", "#cc79a7"
YELLOW, SKY, BLACK, GREY, WHITE = "#e69f00", "#56b4e9", "#222222", "#eeeeee", "#ffffff"
FIRST, SECOND, THIRD = "#9ecae9", "#ffbf86", "#a6ddc1"  # the tints of rows
PARTS = {"parameters": BLUE, "gradients": ORANGE, "master copy": YELLOW, "optimizer": GREEN,
         "activations": PINK, "temporaries": SKY}  # fmt: skip


def colour(value):
    return mpl.colors.to_hex(value)


def title(ax):
    return ax.get_title(loc="left")


def labels(ax):
    return ax.get_xlabel(), ax.get_ylabel()


def words(ax):
    return [t.get_text() for t in ax.texts if t.get_text()]


def legend(legend):
    """Name → colour, in order."""
    handles = legend.legend_handles
    names = [t.get_text() for t in legend.get_texts()]
    assert len(set(names)) == len(names)
    look = [h.get_color() if hasattr(h, "get_color") else h.get_facecolor() for h in handles]
    return dict(zip(names, map(colour, look), strict=True))


def grid(ax):
    """(column, row) → (digit, colour, framed) of the drawn cells; rows count downwards."""
    digits = {t.get_position(): t.get_text() for t in ax.texts}
    found = {}
    for box in ax.patches:
        if isinstance(box, mpl.patches.Rectangle):
            x, y = (round(v, 2) for v in box.get_center())
            digit = next(t for at, t in digits.items() if at == pytest.approx((x, y)))
            framed = colour(box.get_edgecolor()) == BLACK and box.get_linewidth() > 2
            found[x - 0.5, 0.5 - y] = (digit, colour(box.get_facecolor()), framed)
    return found


def tick_words(axis):
    return [axis.get_major_formatter()(value, 0) for value in axis.get_majorticklocs()]


class TestGraph:
    def drawn(self, y, **names):
        """Heading → place and colour of each box, in inches; (from, to) of each arrow."""
        (ax,) = draw.graph(y, "the graph", **names).figure.axes
        assert title(ax) == "the graph"
        frames = [p for p in ax.patches if isinstance(p, FancyBboxPatch)]
        bands = [p for p in ax.patches if isinstance(p, mpl.patches.Rectangle)]
        headings = [t for t in ax.texts if any(band.contains_point(
            ax.transData.transform(t.get_position())) for band in bands)]  # fmt: skip
        boxes = {t.get_text(): (frame.get_bbox(), colour(band.get_facecolor()))
                 for t, frame, band in zip(headings, frames, bands, strict=True)}  # fmt: skip
        arrows = set()
        for arrow in (p for p in ax.patches if isinstance(p, FancyArrowPatch)):
            first, *_, last = arrow._path_original.vertices
            start = [n for n, (b, _) in boxes.items() if first == pytest.approx(right(b))]
            end = [n for n, (b, _) in boxes.items() if last == pytest.approx(left(b))]
            arrows.add((*start, *end))
        return boxes, arrows

    def test_arrows_lead_from_left_to_right_to_green_leaves(self):
        w, b = torch.ones(3, requires_grad=True), torch.ones(1, requires_grad=True)
        boxes, arrows = self.drawn((w * 2).sum() + b, w=w, b=b)
        assert arrows == {("Add", "Sum"), ("Add", "b"), ("Sum", "Mul"), ("Mul", "w")}
        ends = [boxes[n][0] for n in ("Add", "Sum", "Mul", "w")]
        assert all(a.x1 < b.x0 for a, b in pairwise(ends))
        assert not boxes["Sum"][0].overlaps(boxes["b"][0])
        looks = {n: look for n, (_, look) in boxes.items()}
        assert looks == {"Add": FIRST, "Sum": FIRST, "Mul": FIRST, "w": THIRD, "b": THIRD}

    def test_a_leaf_lies_right_of_all_that_lead_to_it(self):
        w = torch.ones(3, requires_grad=True)
        boxes, arrows = self.drawn(w * 2 + w, w=w)
        assert boxes["Add"][0].x1 < boxes["Mul"][0].x0 < boxes["Mul"][0].x1 < boxes["w"][0].x0
        assert arrows == {("Add", "Mul"), ("Add", "w"), ("Mul", "w")}


def left(box):
    return (box.x0, (box.y0 + box.y1) / 2)


def right(box):
    return (box.x1, (box.y0 + box.y1) / 2)


class TestStorage:
    def test_cells_hold_their_values_and_the_marked_one_is_framed_twice(self):
        (ax,) = draw.storage(torch.arange(10, 16).view(2, 3).T, "turned", mark=(2, 1)).figure.axes
        cells = grid(ax)
        tensor = {at: cell for at, cell in cells.items() if at[1] < 3}
        assert {at: digit for at, (digit, *_) in tensor.items()} == {
            (0, 0): "10", (1, 0): "13", (0, 1): "11", (1, 1): "14", (0, 2): "12", (1, 2): "15",
        }  # fmt: skip
        assert [tensor[0, row][1] for row in range(3)] == [FIRST, SECOND, THIRD]
        storage = [cell for at, cell in sorted(cells.items()) if at[1] >= 3]
        assert [digit for digit, *_ in storage] == ["10", "11", "12", "13", "14", "15"]
        assert [tint for _, tint, _ in storage] == [FIRST, SECOND, THIRD] * 2
        assert [at for at, cell in tensor.items() if cell[2]] == [(1, 2)]
        assert [framed for *_, framed in storage] == [False] * 5 + [True]
        assert "shape (3, 2)    stride (1, 3)    offset 0" in words(ax)
        assert [w for w in words(ax) if len(w) == 1] == list("012345")  # positions, counted

    def test_whole_floats_are_written_short(self):
        (ax,) = draw.storage(torch.tensor([1.0, 2.5, 1e5])).figure.axes
        assert [digit for digit, *_ in grid(ax).values()] == ["1", "2.5", "1e+05"] * 2

    def test_an_arrow_a_dimension_spans_its_stride(self):
        (ax,) = draw.storage(torch.arange(16).view(4, 4)[1:3, 1:3]).figure.axes
        arrows = [p for p in ax.patches if isinstance(p, FancyArrowPatch)]
        assert [[end[0] for end in arrow._posA_posB] for arrow in arrows] == [
            [5.5, 9.5],
            [5.5, 6.5],
        ]

    def test_three_dimensions_stand_side_by_side_each_row_in_its_colour(self):
        (ax,) = draw.storage(torch.arange(8).view(2, 2, 2)).figure.axes
        tensor = {at: cell for at, cell in grid(ax).items() if at[1] < 2}
        lefts = sorted({left for left, _ in tensor})
        assert [tensor[left, 0][0] for left in lefts] == ["0", "1", "4", "5"]
        rows = [tensor[left, row][1] for left in lefts[::2] for row in (0, 1)]
        assert len(set(rows)) == 4
        assert {"[0]", "[1]"} <= set(words(ax))

    def test_a_cell_read_twice_keeps_the_first_row_s_colour_and_lines_break_at_16(self):
        (ax,) = draw.storage(torch.arange(2).expand(3, 2)).figure.axes
        below = [cell[1] for at, cell in grid(ax).items() if at[1] >= 3]
        assert below == [FIRST, FIRST]
        (ax,) = draw.storage(torch.arange(20)).figure.axes
        heights = [row for _, row in grid(ax) if row > 0]
        assert [heights.count(row) for row in sorted(set(heights))] == [16, 4]
        assert any("20 cells × 8 bytes = 160 bytes" in text for text in words(ax))

    def test_a_mask_has_queries_as_rows(self):
        allowed = torch.tensor([[True, False, True], [False, False, True]])
        (ax,) = draw.mask(allowed, "who sees whom").figure.axes
        expected = {
            (column, row): (str(int(allowed[row, column])), FIRST if allowed[row, column] else GREY)
            for row in range(2)
            for column in range(3)
        }
        assert {at: cell[:2] for at, cell in grid(ax).items()} == expected
        place = {t.get_text(): t.get_position() for t in ax.texts}
        assert place["keys →"][1] > 1 and place["queries →"][0] < 0  # above, at the left
        assert title(ax) == "who sees whom"


class TestCosts:
    def test_live_bars_are_orange(self):
        picture = draw.bars({"a": 1.0}, unit="B", title="bytes", highlight={"mine": 20.0}, log=True)
        (ax,) = picture.figure.axes
        assert [colour(bar.get_facecolor()) for bar in ax.patches] == [BLUE, ORANGE]
        assert (title(ax), ax.get_xscale()) == ("bytes", "log")
        assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "mine"]
        noisy = {"mine": measure.Quantity(2.0, "noise")}
        (ax,) = draw.bars({"a": 1.0}, unit="B", title="bytes", highlight=noisy).figure.axes
        assert colour(ax.patches[1].get_edgecolor()) == ORANGE
        assert ax.get_xscale() == "linear"

    def test_a_part_has_one_colour_its_value_inside_and_the_total_at_the_end(self):
        rows = {"all": dict.fromkeys(PARTS, 10.0), "less": {"parameters": 10.0, "other": 1.0}}
        figure = draw.stacked(rows, unit="bytes", per="bytes per parameter", title="state").figure
        (ax,) = figure.axes
        names = legend(figure.legends[0])
        assert {part: names[part] for part in PARTS} == PARTS and list(names)[-1] == "other"
        drawn = {(bar.get_x(), bar.get_y() > 0.5): bar for bar in ax.patches if bar.get_width()}
        assert colour(drawn[20, False].get_facecolor()) == YELLOW
        assert colour(drawn[0, True].get_facecolor()) == BLUE
        assert words(ax).count("10") == 7 and {"60", "11"} <= set(words(ax))
        ink = {t.get_position()[0]: colour(t.get_color()) for t in ax.texts if t.get_text() == "10"}
        assert ink == {5: WHITE, 15: WHITE, 25: BLACK, 35: WHITE, 45: WHITE, 55: BLACK}
        assert (title(ax), ax.get_xlabel()) == ("state", "bytes per parameter")
        (ax,) = draw.stacked({"a": {"x": 1}}, unit="bytes", title="t").figure.axes
        assert ax.get_xlabel() == "bytes"

    def test_a_plan_shows_days_among_landmarks(self):
        figure = draw.plan(10, {"all": {"parameters": 2e9}}, 2e9, title="a plan").figure
        ax = figure.axes[0]
        assert (title(ax), ax.get_xlabel(), ax.get_xscale()) == ("Time", "logarithmic", "log")
        assert [colour(bar.get_facecolor()) for bar in ax.patches] == [BLUE]
        (marks,) = ax.collections
        named = {t.get_position()[0]: t.get_text() for t in ax.texts[:-1]}
        assert [segment[0, 0] for segment in marks.get_segments()] == list(named)
        assert named[1] == "1 day" and named[30] == "1 month"
        assert ax.texts[-1].get_text() == " 10 days " and ax.texts[-1].get_position() == (10, 0)

    def test_a_plan_shows_bytes_against_the_device(self):
        memory = {"just": {"parameters": 2e9}, "more": {"parameters": 1e9, "optimizer": 1.1e9}}
        figure = draw.plan(10, memory, 2e9, title="a plan").figure
        ax = figure.axes[1]
        assert title(ax) == "Memory, without activations"
        assert ax.get_xlabel() == "GB per device (dashed: it has 2 GB)"
        assert ax.lines[0].get_xdata()[0] == 2
        below = {t.get_text(): t.get_position()[0] for t in ax.texts if t.get_ha() == "center"}
        assert below == {f"{at:.2g}": at for at in ax.lines[1].get_xdata()}
        assert list(below) == ["0", "0.6", "1.2", "1.8"]
        heights = {t.get_text(): t.get_position()[1] for t in ax.texts if t.get_ha() == "right"}
        order = ["just", "2 GB: fits", "more", "2.1 GB: does not fit"]
        assert list(heights) == sorted(heights, key=heights.get) == order
        assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first at the top
        bars = [(round(b.get_y() + 0.32), b.get_x(), b.get_width()) for b in ax.patches]
        assert bars == [(0, 0, 2), (1, 0, 2), (0, 0, 2), (1, 0, 1), (1, 1, pytest.approx(1.1))]
        tints = [colour(bar.get_facecolor()) for bar in ax.patches]
        assert tints[2:] == [BLUE, BLUE, GREEN] and tints[0] == tints[1] not in tints[2:]
        key = {t.get_text(): t.get_position()[0] for t in figure.texts}
        assert list(key) == ["parameters", "optimizer", "a plan"]
        boxes = [(colour(b.get_facecolor()), b.get_x()) for b in figure.artists]
        assert [tint for tint, _ in boxes] == [BLUE, GREEN]
        for (_, left), part in zip(boxes, key, strict=False):
            assert left < key[part] < left + 0.05  # each name behind its colour


class TestFormats:
    def test_bits_have_the_colours_of_the_legend(self):
        rows = {"one": ("0", "11", "010", "= 1.25"), "two": ("1", "0", "1", "= -1")}
        (ax,) = draw.bits(rows, "bits", chosen="two").figure.axes
        sign, exponent, mantissa = "#e8b9d2", "#ffbf86", "#9ecae9"
        boxes = {
            tuple(round(corner) for corner in box.vertices.min(0)): colour(cells.get_facecolor())
            for cells in ax.collections
            for box in cells.get_paths()
        }
        above, below = ([boxes[x, y] for x, at in sorted(boxes) if at == y] for y in (0, -1))
        assert above == [sign] + [exponent] * 2 + [mantissa] * 3
        assert below == [sign, exponent, mantissa]
        place = {t.get_text(): t for t in ax.texts}
        key = {p.get_x(): colour(p.get_facecolor()) for p in ax.patches}
        for part, tint in (("sign", sign), ("exponent", exponent), ("mantissa", mantissa)):
            assert key[place[part].get_position()[0] - 1.5] == tint
        stamps = {line.get_label(): len(line.get_marker().vertices) for line in ax.lines}
        assert stamps["0"] > stamps["1"] > 0  # an outline with a hole, and one without
        assert [place[name].get_weight() for name in rows] == ["normal", "bold"]
        assert {"= 1.25", "= -1"} <= set(place) and title(ax) == "bits"

    def test_number_lines_have_names_and_colours(self):
        picture = draw.number_line({"a": [0.0, 1.0], "b": [2.0]}, title="marks", x="value")
        (ax,) = picture.figure.axes
        assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b"]
        assert [colour(c.get_color()[0]) for c in ax.collections] == [BLUE, ORANGE]
        assert (title(ax), ax.get_xlabel()) == ("marks", "value")
        assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first at the top

    def test_ranges_are_light_where_digits_are_lost(self):
        picture = draw.ranges({"a": (-8.0, -4.0, 5.0, 3.3), "b": (-2, -1, 2, 1)}, title="range")
        (ax,) = picture.figure.axes
        light = [bar.get_x() for bar in ax.patches if colour(bar.get_facecolor()) == FIRST]
        dark = [bar.get_x() for bar in ax.patches if colour(bar.get_facecolor()) == BLUE]
        assert (light, dark) == ([-8, -2], [-4, -1])
        assert words(ax) == ["3.3 digits", "1.0 digits"] and title(ax) == "range"
        assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b"]
        assert ax.get_xlabel() == "power of ten (light: subnormal, with fewer digits)"


class TestLines:
    def test_each_line_has_a_colour_and_a_marker_and_unsure_stands_once_at_the_end(self):
        noisy = measure.Quantity(20.0, "noise"), measure.Quantity(2.0, "noise")
        lines = {"a": ([1024, 3000], [1.0, noisy[0]]), "b": ([1024, 3000], [noisy[1], 30.0])}
        picture = draw.curves(lines, x="n", y="rate", unit="FLOP/s", title="found",
                              sizes=[1024, 3000])  # fmt: skip
        (ax,) = picture.figure.axes
        assert list(legend(ax.get_legend())) == ["a", "b", "unsure"]
        a, unsure_a, b, unsure_b = ax.lines
        assert [colour(line.get_color()) for line in ax.lines] == [BLUE, BLUE, ORANGE, ORANGE]
        assert [line.get_marker() for line in ax.lines] == ["o", "o", "s", "s"]
        assert [list(line.get_xdata()) for line in (unsure_a, unsure_b)] == [[3000], [1024]]
        assert all(line.get_markerfacecolor() == "white" for line in (unsure_a, unsure_b))
        assert (title(ax), *labels(ax)) == ("found", "n", "rate")
        assert [t.get_text() for t in ax.get_xticklabels()] == ["1K", "3000"]
        assert ax.yaxis.get_major_formatter()(2000, 0) == "2 kFLOP/s"

    def test_without_doubt_nothing_is_called_unsure(self):
        picture = draw.curves({"a": ([1, 2], [1, 2])}, x="n", y="t", unit="s", title="t")
        assert list(legend(picture.figure.axes[0].get_legend())) == ["a"]

    def test_a_roofline_names_machines_by_colour(self):
        roofs = {"m": (100.0, 10.0), "k": (50.0, 10.0)}
        (ax,) = draw.roofline(roofs, {"add": (0.1, 1.0)}, title="roofs").figure.axes
        assert legend(ax.get_legend()) == {"m": BLUE, "k": ORANGE}
        assert (title(ax), *labels(ax)) == ("roofs", "FLOPs per byte moved", "rate")
        point = ax.lines[-1]
        assert point.get_marker() == "o" and colour(point.get_markerfacecolor()) == BLACK
        assert ax.yaxis.get_major_formatter()(2e9, 0) == "2 GFLOP/s"

    def test_a_timeline_has_the_colours_of_the_parts(self):
        picture = draw.timeline([Event("forward", parameters=4), Event("forward", activations=3),
                                 Event("backward", parameters=4, gradients=2)], "step")  # fmt: skip
        (ax,) = picture.figure.axes
        drawn = legend(ax.get_legend())
        assert drawn == {part: PARTS[part] for part in ("activations", "gradients", "parameters")}
        assert list(drawn) == ["activations", "gradients", "parameters"]  # as they are stacked
        assert (title(ax), ax.get_ylabel()) == ("step", "bytes held")
        assert ax.lines[0].get_ydata()[0] == 6 and ax.lines[1].get_xdata()[0] == 2
        place = {t.get_text(): t.get_position()[0] for t in ax.texts}
        assert place == {"forward": 1.0, "backward": 2.5}
        assert ax.yaxis.get_major_formatter()(2e6, 0) == "2 MB"


class Event:
    def __init__(self, phase, **parts):
        self.phase = phase
        self.parts = dict.fromkeys([*PARTS, "inputs"], 0) | parts


class TestPattern:
    def test_both_sides_are_named_and_each_cell_lies_in_its_place(self):
        before = torch.arange(6).view(2, 3)
        figure = draw.pattern(before, before.T, "turned").figure
        assert figure.get_suptitle() == "turned"
        left, right = figure.axes
        assert [title(ax) for ax in figure.axes] == [
            "before: shape (2, 3)",
            "after: shape (3, 2)",
        ]
        for ax, tensor in ((left, before), (right, before.T)):
            cells = grid(ax)
            for row in range(tensor.shape[0]):
                for column in range(tensor.shape[1]):
                    value = int(tensor[row, column])
                    tint = (FIRST, SECOND)[value // 3]
                    assert cells[column, row][:2] == (str(value), tint)


@pytest.fixture
def shown(monkeypatch):
    """Every picture that a live figure showed, in order."""
    pictures = []

    class Handle:
        update = staticmethod(pictures.append)

    for module in (growth, series):
        monkeypatch.setattr(module, "display", lambda first, **_: pictures.append(first) or Handle)
    return pictures


class TestLive:
    def test_growing_lines_are_labelled_and_told_apart(self, shown):
        with live.lines(["a", "b"], x="step", y="loss", title="T", xs=(0, 100)) as figure:
            for step in range(100):
                figure.add("a", step, 1.0 + step)
        (ax,) = shown[-1].figure.axes
        assert (title(ax), *labels(ax), ax.get_xlim()) == ("T", "step", "loss", (0, 100))
        assert legend(ax.get_legend()) == {"a": BLUE, "b": ORANGE}
        assert [line.get_marker() for line in ax.lines] == ["o", "s"]
        assert ax.lines[0].get_markevery() == 4  # 25 markers on 100 points
        assert len(ax.lines[0].get_ydata()) == 100

    def test_a_floor_raises_only_what_is_below_and_the_axis_may_be_linear(self, shown):
        with live.lines(["a"], x="x", y="y", title="T", xs=(0, 2), log=False, floor=0.5) as figure:
            for x, y in enumerate((0.1, 1.0, 2.0)):
                figure.add("a", x, y)
        (ax,) = shown[-1].figure.axes
        assert list(ax.lines[0].get_ydata()) == [0.5, 1, 2] and ax.get_yscale() == "linear"

    def test_a_valley_shows_contours_paths_and_the_lowest_point(self, shown):
        paths = live.valley(["SGD", "Adam"], lambda a, b: (a - 1) ** 2 + 9 * b**2, xs=(-2, 3),
                            ys=(-1, 2), title="V", lowest=(1, 0))  # fmt: skip
        with paths as figure:
            figure.add("Adam", -1, 0.5)
        (ax,) = shown[-1].figure.axes
        assert (title(ax), *labels(ax)) == ("V", "first parameter", "second parameter")
        assert (ax.get_xlim(), ax.get_ylim()) == ((-2, 3), (-1, 2))
        assert legend(ax.get_legend()) == {"SGD": BLUE, "Adam": ORANGE}
        star = ax.lines[-1]
        assert (list(star.get_xdata()), list(star.get_ydata())) == ([1], [0])
        assert star.get_marker() == "*" and len(ax.collections) == 1  # the contours

    def test_timings_are_seconds_unless_told_and_hollow_where_in_doubt(self, shown):
        sweep = Timed({"a": [0.5, 3.0], "b": [0.25, 9.0]}, doubtful=("b", 2048))
        live.timings(sweep, x="n", y="time", unit="s", title="T")
        assert len(shown) == 3  # empty, and after each size that all series have
        assert [len(line.get_xdata()) for line in shown[1].figure.axes[0].lines] == [1, 1]
        (ax,) = shown[-1].figure.axes
        a, b, unsure = ax.lines
        assert (list(a.get_ydata()), list(b.get_ydata())) == ([0.5, 3.0], [0.25, 9.0])
        assert (list(unsure.get_xdata()), list(unsure.get_ydata())) == ([2048], [9.0])
        assert (title(ax), *labels(ax)) == ("T", "n", "time")
        assert [t.get_text() for t in ax.get_xticklabels()] == ["1K", "2K"]

    def test_timings_may_be_turned_into_rates(self, shown):
        sweep = Timed({"a": [0.5, 2.0]})
        live.timings(sweep, x="n", y="rate", unit="B/s", title="T", value=lambda n, t: n / t)
        assert list(shown[-1].figure.axes[0].lines[0].get_ydata()) == [2048, 1024]


class Timed(measure.Sweep):
    """A sweep over 1024 and 2048 whose times are given."""

    def __init__(self, seconds, doubtful=None):
        super().__init__(seconds, (1024, 2048), 1.0, float)
        self.given, self.doubtful = seconds, doubtful

    def __iter__(self):
        self.times = {name: {} for name in self.series}
        for step, size in enumerate(self.sizes):
            for name in self.series:
                doubt = "noise" if (name, size) == self.doubtful else ""
                took = measure.Time((self.given[name][step],) * 5, 1, "cpu", doubt)
                self.times[name][size] = took
                yield name, size, took
