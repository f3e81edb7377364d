"""Explorers in a real JupyterLab: no wrong picture, whatever is typed and pressed how quickly."""

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Browser, Locator, Page

from course_utils import explore, formats
from course_utils.workshop.execute import KERNELSPEC
from tests.browser import explorers, lab_page, server

NAME = "explorers.ipynb"
CELLS = [
    "import threading\nimport matplotlib\nfrom course_utils import explore\n"
    "before, threads = dict(matplotlib.rcParams), set()",
    "bits = explore.float_bits()\nbits.controls['value'].observe(\n"
    "    lambda _: threads.add(threading.current_thread() is threading.main_thread()))\nbits",
    "explore.cost()",
    "explore.storage()",
    "explore.loss_scale()",
    "explore.signals()",
    "print(dict(matplotlib.rcParams) == before, threads)",
]
PICTURE = """async image => {
    const bytes = new Uint8Array(await (await fetch(image.src)).arrayBuffer());
    return btoa(Array.from(bytes, byte => String.fromCharCode(byte)).join(''));
}"""
TRIES = 20


ONE, TWO = "as the course sets it", "as JupyterLab sets it"


@pytest.fixture(scope="module", params=[ONE, TWO])
def page(request, browser: Browser, tmp_path_factory) -> Iterator[Page]:
    """The explorers, run, in a Lab that keeps their messages in one thread, and in one of two."""
    place, notebooks = tmp_path_factory.mktemp("place"), tmp_path_factory.mktemp("notebooks")
    cells = [new_code_cell(source) for source in CELLS]
    notebook = new_notebook(cells=cells, metadata={"kernelspec": KERNELSPEC})
    nbformat.write(notebook, notebooks / NAME)
    if request.param == TWO:
        _set(place, {"commsOverSubshells": "perCommTarget"})
    with server.running(place, notebooks) as lab, browser.new_context() as context:
        page = context.new_page()
        lab_page.open_notebook(page, lab, NAME)
        lab_page.run_all(page)
        yield page
        lab_page.shut_down_kernels(page, lab)


def _set(place: Path, settings: dict[str, str]) -> None:
    folder = place / "settings" / "@jupyterlab" / "apputils-extension"
    folder.mkdir(parents=True)
    (folder / "kernels-settings.jupyterlab-settings").write_text(json.dumps(settings))


def test_typing_and_clicking_at_once_leaves_field_and_picture_alike(page, request):
    explorer = page.locator(explorers.EXPLORER).nth(0)
    field = explorer.get_by_role("textbox", name="value")
    names = [*formats.FORMATS] * TRIES
    for number in range(TRIES):
        value, name = f"{number}.{number:03}", names[number]
        field.click()
        page.keyboard.press("Control+a")
        page.keyboard.type(value)
        explorer.get_by_role("button", name=name, exact=True).click()
        assert field.input_value() == value
        assert _shows(page, explorer, _expected(value, name)), f"try {number}: {value}, {name}"
    settings, in_the_first_thread = _run_last(page).split(maxsplit=1)
    assert settings == "True", "matplotlib's settings are no longer the learner's"
    both = request.node.callspec.params["page"] == TWO
    assert ("False" in in_the_first_thread) if both else in_the_first_thread == "{True}"


def _run_last(page: Page) -> str:
    """Run the last cell again; returns what it shows."""
    last = lab_page.cells(page).nth(len(CELLS) - 1)
    last.locator(".jp-InputArea-editor").click()
    page.keyboard.press("Control+Enter")
    page.wait_for_timeout(300)
    page.wait_for_selector(lab_page.WAITING, state="detached")
    return last.locator(".jp-OutputArea-output").inner_text().strip()


def _expected(value: str, name: str) -> str:
    explorer = explore.float_bits(value)
    explorer.controls["name"].value = name
    return b64encode(explorer.current.quick()).decode()


def _shows(page: Page, explorer: Locator, picture: str) -> bool:
    """Whether the explorer comes to show `picture` and stays with it."""
    image = explorer.locator("img.widget-image")
    for _ in range(explorers.REDRAW_SECONDS * 10):
        page.wait_for_timeout(100)
        if image.evaluate(PICTURE) == picture:
            page.wait_for_timeout(300)
            return image.evaluate(PICTURE) == picture
    return False


def test_flipping_a_bit_keeps_the_focus(page):
    explorer = page.locator(explorers.EXPLORER).nth(0)
    explorer.get_by_role("textbox", name="value").fill("1.0")
    explorer.get_by_role("button", name="float32", exact=True).click()
    sign = explorer.get_by_title("flip bit 31 (sign)")
    sign.focus()
    for value, digit in (("-1.0", "1"), ("1.0", "0"), ("-1.0", "1")):
        page.keyboard.press("Space")
        drawn = "([button, digit]) => button.textContent === digit"
        page.wait_for_function(drawn, arg=[sign.element_handle(), digit])
        assert explorer.get_by_role("textbox", name="value").input_value() == value
        assert sign.evaluate("button => button === document.activeElement")


def test_every_slider_handle_has_a_name_and_says_where_it_stands(page):
    named = {
        "parameters N": "70 billion",
        "tokens T": "15 trillion",
        "devices": "1024",
        "MFU": "0.5",
        "first row": "0",
        "row step": "2",
        "first column": "1",
        "column step": "1",
        "typical size": "2^-29.34",
        "spread": "1.44",
        "loss scale S": "2⁰",
        "layers": "30",
        "width D": "256",
        "s / Kaiming's": "1",
    }
    handles = page.get_by_role("slider")
    assert handles.count() == len(named)
    for name, value in named.items():
        handle = page.get_by_role("slider", name=name, exact=True)
        assert handle.get_attribute("aria-valuetext") == value
    handle = page.get_by_role("slider", name="tokens T", exact=True)
    handle.press("ArrowRight")
    page.wait_for_function("h => h.ariaValueText === '20 trillion'", arg=handle.element_handle())
    handle.press("ArrowLeft")


def test_a_loss_scale_is_moved_by_keyboard_and_a_button_writes_two_sliders(page):
    explorer = page.locator(explorers.EXPLORER).nth(3)
    scale, typical, spread = (
        page.get_by_role("slider", name=name, exact=True)
        for name in ("loss scale S", "typical size", "spread")
    )
    scale.press("ArrowRight")
    explorer.get_by_text("fp16 at S = 2¹:").wait_for()
    typical.press("End")
    spread.press("Home")
    explorer.get_by_text("within a factor of 2^0.50 of 2⁰").wait_for()
    button = explorer.get_by_role("button", name="language model at its start", exact=True)
    button.press("Enter")
    explorer.get_by_text("within a factor of 2^1.44 of 2^-29.34").wait_for()
    for handle, value in ((typical, "2^-29.34"), (spread, "1.44"), (scale, "2¹")):
        assert handle.get_attribute("aria-valuetext") == value
    scale.press("Home")
    explorer.get_by_text("fp16 at S = 2⁰:").wait_for()


def test_numbers_are_typed_exactly_and_the_slider_follows(page):
    explorer = page.locator(explorers.EXPLORER).nth(1)
    field = explorer.get_by_role("textbox", name="parameters N")
    handle = page.get_by_role("slider", name="parameters N", exact=True)
    for typed, shown in (("71.3G", "71.3 billion"), ("123,456,789,012", "123.5 billion")):
        field.fill(typed)
        field.press("Enter")
        explorer.get_by_text(f"{shown} parameters").wait_for()
        assert field.input_value() == typed
    assert handle.get_attribute("aria-valuetext") == "120 billion"
    field.fill("70X")
    field.press("Enter")
    explorer.get_by_text("✗ parameters N must read as a number").wait_for()
    handle.press("ArrowLeft")
    explorer.get_by_text("100 billion parameters").wait_for()
    assert field.input_value() == "100 billion"
