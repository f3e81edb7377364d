"""Explorers: keyboard controls only, a picture that follows them, and calm about bad values."""

import ast
import asyncio
import inspect
import json
import sys
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from threading import Thread

import ipywidgets as widgets
import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image
from traitlets import TraitError

from course_utils import draw, explore, formats, predict
from course_utils.draw.picture import style
from course_utils.explore.amount import Amount, doublings, read, tenths, without, written
from course_utils.explore.panel import ALLOWED, Explorer, slider
from course_utils.workshop.lab import SETTINGS

FREE = [
    explore.cost,
    explore.storage,
    explore.float_bits,
    explore.roofline,
    explore.signals,
    explore.optimizer_memory,
    explore.loss_scale,
]
EXPLORERS = [*FREE, explore.transformer]  # whose sizes must divide each other


@pytest.mark.parametrize("make", EXPLORERS)
def test_controls_work_by_keyboard_and_have_a_description(make):
    for control in make().controls.values():
        assert isinstance(control, ALLOWED) and control.description


def test_controls_that_lab_takes_the_keys_from_are_refused():
    for kind in (widgets.Dropdown, widgets.Select, widgets.RadioButtons):
        with pytest.raises(TypeError, match="must work by keyboard"):
            Explorer({"x": kind(options=["a"], description="x")}, lambda x: None)


def test_no_module_uses_a_banned_control():
    for path in Path(inspect.getfile(explore)).parent.glob("*.py"):
        names = {
            n.attr for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Attribute)
        }
        assert not names & {"Dropdown", "Select", "SelectMultiple", "RadioButtons"}, path


@pytest.mark.parametrize("make", EXPLORERS)
def test_every_control_changes_the_picture(make):
    for name in make().controls:
        explorer = make()
        before = explorer._image.value
        _move(explorer.controls[name])
        assert explorer._image.value != before, name
        assert explorer._image.value == explorer.current.quick()
        assert explorer.current.text.splitlines()[0][:20] in explorer._words.value


def _move(control):
    if isinstance(control, widgets.Checkbox):
        control.value = not control.value
    elif isinstance(control, widgets.ToggleButtons):
        values = [o[1] if isinstance(o, tuple) else o for o in control.options]
        control.value = next(v for v in values if v != control.value)
    elif isinstance(control, Amount):
        control.slider.index += -1 if control.slider.index else 1
    elif isinstance(control, widgets.SelectionSlider):
        control.index += 1 if control.index + 1 < len(control.options) else -1
    elif isinstance(control, widgets.Text):
        control.value = "0.1"
    else:
        control.value = control.value + (1 if control.value < control.max else -1) * control.step


@pytest.mark.parametrize("make", FREE)
def test_every_extreme_of_every_control_has_a_picture(make):
    explorer = make()
    for control in explorer.controls.values():
        for value in _extremes(control):
            control.value = value
            assert "✗" not in explorer._words.value, (control.description, value)


def _extremes(control):
    if isinstance(control, widgets.Checkbox):
        return [True, False]
    if isinstance(control, widgets.ToggleButtons | widgets.SelectionSlider):
        return [o[1] if isinstance(o, tuple) else o for o in control.options]
    if isinstance(control, widgets.Text):
        return ["0", "-0", "1e-400", "1e400", "nan", "-inf", "65504", "1e-8", "448", "3"]
    if isinstance(control, Amount):
        return [*control.limits, control._grid[0], control._grid[-1]]
    return [control.min, control.max]


@pytest.mark.parametrize("make", EXPLORERS)
def test_the_bundle_has_a_view_a_picture_and_words(make):
    data, metadata = make()._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["image/png"] and data["text/plain"] == make().current.text
    assert metadata["image/png"]["width"] <= 1000


def test_the_calculator_agrees_with_predict():
    explorer = explore.cost()
    assert "143.9 days" in explorer.current.text
    explorer.controls["mfu"].value = 0.25
    days = predict.training_days(70e9, 15e12, devices=1024, peak=989.5e12, mfu=0.25)
    assert f"{days:.1f} days" in explorer.current.text
    explorer.controls["device"].value = "A100 80GB SXM"
    assert "A100" in explorer.current.text


def test_a_rejected_combination_is_explained_and_the_picture_stays():
    def picture(n):
        if n == 3:
            raise ValueError("three is <too> many")
        return draw.bars({"a": n}, unit="B", title="t")

    explorer = Explorer({"n": slider(widgets.IntSlider, "n", value=1, min=1, max=4)}, picture)
    before = explorer._image.value
    explorer.controls["n"].value = 3
    assert "three is &lt;too&gt; many" in explorer._words.value
    assert explorer._image.value == before
    explorer.controls["n"].value = 4
    assert "three" not in explorer._words.value and explorer._image.value != before


def test_a_control_without_a_description_is_refused():
    with pytest.raises(ValueError, match="must have a description"):
        Explorer({"x": widgets.IntSlider()}, lambda x: None)


def test_several_controls_are_written_and_drawn_once():
    drawn = []

    def picture(a, b):
        drawn.append((a, b))
        return draw.bars({"a": a, "b": b}, unit="B", title="t")

    names = {name: slider(widgets.IntSlider, name, value=1, min=1, max=4) for name in "ab"}
    explorer = Explorer(names, picture)
    explorer.write(a=2, b=3)
    assert drawn == [(1, 1), (2, 3)] and "b: 3 B" in explorer._words.value
    explorer.controls["a"].value = 4
    assert drawn[-1] == (4, 3)
    with pytest.raises(TraitError):
        explorer.write(a="nonsense")
    explorer.controls["a"].value = 2  # what was refused stops nothing
    assert drawn[-1] == (2, 3)


def test_pressing_a_bit_flips_it():
    explorer = explore.float_bits("1.0")
    bits = explorer._row.children
    assert [b.description for b in bits] == list("0" + "01111111" + "0" * 23)
    bits[0].click()
    assert explorer.controls["value"].value == "-1.0"
    explorer._row.children[-1].click()
    assert explorer.controls["value"].value == repr(-1 - 2**-23)
    assert explorer._row.children[-1].description == "1"


def test_the_format_chooses_the_bits():
    explorer = explore.float_bits()
    for name, form in formats.FORMATS.items():
        explorer.controls["name"].value = name
        assert len(explorer._row.children) == form.bits


@pytest.mark.parametrize("typed", ["abc", "", "1e", "1,5", "0x10"])
def test_a_text_that_is_no_number_leaves_the_explorer_usable(typed):
    explorer = explore.float_bits("1.5")
    before = explorer._image.value, len(explorer._row.children)
    explorer.controls["value"].value = typed
    assert "✗" in explorer._words.value
    assert (explorer._image.value, len(explorer._row.children)) == before
    explorer.controls["value"].value = "2.5"
    assert "✗" not in explorer._words.value and "2.5" in explorer.current.text


def test_the_worked_example_is_in_the_static_twin():
    text = explore.float_bits().current.text
    assert "float32: 0 10001101 00101101100111000101110 = 19303.0898438" in text


def test_pressing_a_bit_again_and_again_always_flips_that_bit():
    explorer = explore.float_bits("1.0")
    first, last = explorer._row.children[0], explorer._row.children[-1]
    for digit in ("1", "0", "1"):
        first.click()
        last.click()
        assert explorer._row.children[0] is first and first.description == digit
        assert explorer._row.children[-1] is last and last.description == digit


def test_the_sign_of_a_nan_can_be_flipped():
    explorer = explore.float_bits("nan")
    explorer._row.children[0].click()
    assert explorer.controls["value"].value == "-nan"
    assert explorer._row.children[0].description == "1"


def test_a_bit_pressed_beside_a_text_that_is_no_number_flips_the_drawn_value():
    explorer = explore.float_bits("1.5")
    explorer.controls["value"].value = "1,5"
    explorer._row.children[0].click()
    assert explorer.controls["value"].value == "-1.5" and "✗" not in explorer._words.value


def test_a_very_long_value_has_a_title_that_fits():
    explorer = explore.float_bits("0." + "1" * 500)
    title = explorer.current.figure.axes[0].get_title(loc="left")
    assert len(title) < 90 and "…" in title


@pytest.mark.parametrize(
    ("typed", "number"),
    [("70e9", 70e9), ("70G", 70e9), ("70b", 70e9), (" 70 billion ", 70e9), ("15T", 15e12),
     ("2.25P", 2.25e15),
     ("1.5 trillion", 1.5e12), ("3k", 3000), ("7M", 7e6), ("1,024", 1024), ("12,345,678", 12345678),
     ("70_000", 70_000), ("38%", 0.38), (".5", 0.5), ("0.1", 0.1), ("-3", -3)],
)  # fmt: skip
def test_numbers_are_read_exactly(typed, number):
    assert float(read("n", typed)) == number


@pytest.mark.parametrize(
    "typed",
    ["", " ", "abc", "70X", "1,5", "1,0245", "1e", "1e999999", "1.2.3", "0x10", "nan", "inf", "%"],
)
def test_what_is_no_number_is_said_with_examples(typed):
    with pytest.raises(ValueError, match="tokens must read as a number, such as 70e9, 70G, 70 bil"):
        read("tokens", typed)


def alone(name, make=explore.cost):
    """One of an explorer's controls, without the explorer."""
    like = make().controls[name]
    given = {"whole": like.whole, "unit": like.unit}
    return Amount(like.description, like.value, like._grid, like.limits, **given)


AMOUNTS = [(explore.cost, name) for name in ("parameters", "tokens", "count", "mfu")]
AMOUNTS += [(explore.optimizer_memory, name) for name in ("parameters", "count")]
AMOUNTS += [(explore.roofline, name) for name in ("peak", "bandwidth", "rows", "width")]
AMOUNTS += [(explore.signals, "scale")]
AMOUNTS += [(explore.transformer, name) for name in ("layers", "heads", "vocabulary", "context")]


@pytest.mark.parametrize(("make", "name"), AMOUNTS)
def test_every_place_of_a_slider_is_a_number_that_its_field_gives_back(make, name):
    amount = alone(name, make)
    numbers, unit = amount._grid, amount.unit
    assert all(a < b for a, b in pairwise(numbers))
    for index, number in enumerate(numbers):
        assert float(read(name, without(unit, written(number, unit)))) == number
        amount.slider.index = index
        assert (amount.value, amount.slider.index) == (number, index)


def test_round_numbers_for_sliders():
    ones = [10, 12, 15, 20, 25, 30, 40, 50, 60, 70, 80, 90]
    assert tenths(1, 3) == [*ones, *(10 * number for number in ones), 1000]
    assert doublings(0, 4) == [1, 2, 3, 4, 6, 8, 12, 16]
    assert doublings(6, 8) == [64, 96, 128, 192, 256]


def test_the_calculator_starts_on_its_sliders_at_its_numbers():
    controls = explore.cost().controls
    assert [controls[name].text.value for name in ("parameters", "tokens", "count", "mfu")] == [
        "70 billion", "15 trillion", "1024", "0.5"
    ]  # fmt: skip
    for name in ("parameters", "tokens", "count", "mfu"):
        assert controls[name].slider.value == controls[name].text.value


def test_a_typed_number_stays_exact_and_the_slider_stands_beside_it():
    explorer = explore.cost()
    amount = explorer.controls["parameters"]
    amount.text.value = "71234567890"
    assert (amount.value, amount.slider.value) == (71234567890, "70 billion")
    days = predict.training_days(71234567890, 15e12, devices=1024, peak=989.5e12, mfu=0.5)
    assert f"{days:.1f} days" in explorer.current.text
    amount.slider.index += 1
    assert amount.text.value == "80 billion" and "80 billion" in explorer.current.text
    amount.value = 71234567890.125
    assert amount.value == 71234567890.125


@pytest.mark.parametrize(
    ("name", "typed", "message"),
    [("parameters", "70X", "parameters N must read as a number, such as 70e9"),
     ("parameters", "12", "parameters N must be from 1 million to 1e15, got &#x27;12&#x27;"),
     ("tokens", "-1e12", "tokens T must be from 1 million to 1e18"),
     ("count", "2.5", "devices must be a whole number from 1 to 1 million"),
     ("mfu", "0", "MFU must be from 0.001 to 1"),
     ("mfu", "120%", "MFU must be from 0.001 to 1")],
)  # fmt: skip
def test_a_number_that_cannot_be_used_is_explained_until_the_slider_moves(name, typed, message):
    explorer = explore.cost()
    before, amount = explorer._image.value, explorer.controls[name]
    amount.text.value = typed
    assert message in explorer._words.value and "stays as it was" in explorer._words.value
    assert explorer._image.value == before
    amount.slider.index -= 1
    assert "✗" not in explorer._words.value and explorer._image.value != before
    assert amount.text.value == amount.slider.value


def agrees(explorer):
    """Whether picture and words are those of the values that the controls hold."""
    picture = explorer._picture(**explorer.values())
    lines = picture.text.splitlines()
    return explorer._image.value == picture.quick() and lines[-1] in explorer._words.value


def hurry(explorer, rounds=12):
    """Two threads that change the format and the value at once, again and again."""
    value, name = explorer.controls["value"], explorer.controls["name"]

    def types():
        for number in range(rounds):
            value.value = f"{number}.25"

    def clicks():
        for number in range(rounds):
            name.value = name.options[number % len(name.options)]

    return [Thread(target=types), Thread(target=clicks)]


def test_two_threads_that_draw_leave_controls_and_picture_alike():
    explorer, before = explore.float_bits(), dict(mpl.rcParams)
    threads = hurry(explorer, rounds=30)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert agrees(explorer) and dict(mpl.rcParams) == before


def test_in_a_notebook_other_threads_never_draw():
    """A cell runs in an event loop; what comes by other threads waits until the cell is done."""

    async def cell():
        explorer = explore.float_bits()
        threads, picture = hurry(explorer), explorer.current
        before = dict(mpl.rcParams)
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            assert mpl.rcParams["axes.titlesize"] == before["axes.titlesize"]
        assert explorer.current is picture
        with mpl.rc_context({"axes.titlesize": 33}):  # the learner's own
            await asyncio.sleep(0)
            assert mpl.rcParams["axes.titlesize"] == 33
        assert explorer.current is not picture and agrees(explorer)
        assert dict(mpl.rcParams) == before

    asyncio.run(cell())


def test_the_latest_of_many_changes_is_drawn_once(monkeypatch):
    drawn = []

    async def cell():
        explorer = Explorer({"n": slider(widgets.IntSlider, "n", value=1, min=1, max=99)}, picture)
        thread = Thread(target=lambda: [setattr(explorer.controls["n"], "value", n) for n in many])
        thread.start()
        thread.join()
        await asyncio.sleep(0)
        return explorer

    def picture(n):
        drawn.append(n)
        return draw.bars({"a": n}, unit="B", title="t")

    many = range(2, 50)
    assert "a: 49 B" in asyncio.run(cell())._words.value
    assert drawn == [1, 49]


def test_sliders_and_fields_of_two_threads_end_alike():
    amount = alone("parameters")
    moves = [
        lambda i: setattr(amount.slider, "index", i),
        lambda i: setattr(amount, "value", 2e9 * (i + 1)),
    ]
    threads = [Thread(target=lambda m=m: [m(i) for i in range(48)]) for m in moves]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert amount.slider.index == amount._nearest()


@pytest.mark.parametrize("make", EXPLORERS)
def test_a_redraw_draws_the_figure_once(make, monkeypatch):
    """Twice, as a layout engine and a tight box need, it cannot follow a slider."""
    explorer, draws = make(), []
    draw_figure = Figure.draw
    monkeypatch.setattr(Figure, "draw", lambda *args: draws.append(1) or draw_figure(*args))
    _move(next(iter(explorer.controls.values())))
    assert len(draws) == 1


@pytest.mark.parametrize("make", EXPLORERS)
def test_a_redraw_shows_the_figure_as_it_is(make):
    """The colours of a quick picture are found in a quarter of its pixels."""
    explorer = make()
    _move(next(iter(explorer.controls.values())))
    shown = np.asarray(Image.open(BytesIO(explorer._image.value)).convert("RGB"), dtype=int)
    with style():
        canvas = FigureCanvasAgg(explorer.current.figure)
        canvas.draw()
    off = np.abs(shown - np.asarray(canvas.buffer_rgba())[..., :3]).max(axis=-1)
    assert off.max() <= 32 and (off > 8).mean() < 0.005


def test_a_picture_is_the_same_whatever_was_drawn_before_it():
    """Pictures of one size are drawn on one canvas, which is wiped clean before."""
    one, two = explore.cost(), explore.cost()
    two.controls["device"].value = "MI300X"
    assert one.current.figure.bbox.size.tolist() == two.current.figure.bbox.size.tolist()
    assert one.current.quick() == one._image.value != two.current.quick() == two._image.value
    for explorer in (one, two):
        explorer.current.figure.patch.set_visible(False)
    bare = one.current.quick()
    assert bare != two.current.quick() != one._image.value and one.current.quick() == bare


def test_pictures_that_two_threads_draw_at_once_are_whole():
    pictures = [explore.float_bits(value).current for value in ("1.5", "-0.1")]
    expected, drawn = [picture.quick() for picture in pictures], [[], []]
    threads = [
        Thread(target=lambda i=i: drawn[i].extend(pictures[i].quick() for _ in range(8)))
        for i in (0, 1)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [set(each) for each in drawn] == [{each} for each in expected]


def test_the_lab_s_settings_are_ones_that_it_has():
    """A misspelt setting is ignored without a word."""
    schemas = Path(sys.prefix) / "share" / "jupyter" / "lab" / "schemas"
    overrides = json.loads((SETTINGS / "overrides.json").read_text())
    for plugin, settings in overrides.items():
        package, name = plugin.split(":")
        properties = json.loads((schemas / package / f"{name}.json").read_text())["properties"]
        for key, value in settings.items():
            assert value in [option["const"] for option in properties[key].get("oneOf", [])] or (
                isinstance(value, bool) and properties[key]["type"] == "boolean"
            ), (plugin, key)
    kernels = overrides["@jupyterlab/apputils-extension:kernels-settings"]
    assert kernels == {"commsOverSubshells": "disabled"}
