"""Explorers: keyboard controls only, a picture that follows them, and calm about bad values."""

import ast
import inspect
from pathlib import Path

import ipywidgets as widgets
import pytest

from course_utils import draw, explore, formats, predict
from course_utils.explore.panel import ALLOWED, Explorer, slider

EXPLORERS = [explore.cost, explore.storage, explore.float_bits]


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
        assert explorer._image.value == explorer.current.png
        assert explorer.current.text.splitlines()[0][:20] in explorer._words.value


def _move(control):
    if isinstance(control, widgets.Checkbox):
        control.value = not control.value
    elif isinstance(control, widgets.ToggleButtons):
        values = [o[1] if isinstance(o, tuple) else o for o in control.options]
        control.value = next(v for v in values if v != control.value)
    elif isinstance(control, widgets.FloatLogSlider):
        control.value = control.value / control.base**control.step
    elif isinstance(control, widgets.Text):
        control.value = "0.1"
    else:
        control.value = control.value + (1 if control.value < control.max else -1) * control.step


@pytest.mark.parametrize("make", EXPLORERS)
def test_every_extreme_of_every_control_has_a_picture(make):
    explorer = make()
    for control in explorer.controls.values():
        for value in _extremes(control):
            control.value = value
            assert "✗" not in explorer._words.value, (control.description, value)


def _extremes(control):
    if isinstance(control, widgets.Checkbox):
        return [True, False]
    if isinstance(control, widgets.ToggleButtons):
        return [o[1] if isinstance(o, tuple) else o for o in control.options]
    if isinstance(control, widgets.Text):
        return ["0", "-0", "1e-400", "1e400", "nan", "-inf", "65504", "1e-8", "448", "3"]
    if isinstance(control, widgets.FloatLogSlider):
        return [control.base**control.min, control.base**control.max]
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
