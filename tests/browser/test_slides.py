"""What fits on a slide, and that what does not is found: one made deck, no chapter."""

from base64 import b64encode
from io import BytesIO

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

from course_utils.table import Table
from course_utils.workshop.execute import KERNELSPEC
from tests.browser import lab_page, slides
from tests.test_notebooks import SLIDE_LINES, WORDS_FOR_A_LINE

WIDTH = 100  # characters of a line of code, as ruff allows them
ALONE = SLIDE_LINES["code"]


def prose(words: int) -> NotebookNode:
    text = " ".join(f"word{n:04}" if n % 2 else "is" for n in range(words))
    return new_markdown_cell(f"## A heading\n\n{text}.")


def code(lines: int, output: NotebookNode | None = None, width: int = WIDTH) -> NotebookNode:
    line = "x = " + "1" * (width - 4)
    return new_code_cell("\n".join([line] * lines), outputs=[output] if output else [])


def folded(cell: NotebookNode) -> NotebookNode:
    cell.metadata["jupyter"] = {"source_hidden": True}
    return cell


def figure() -> NotebookNode:
    """As large as most of the course's: 770 × 356, stored twice as sharp."""
    png = BytesIO()
    Image.new("RGB", (1540, 712), "#CCE").save(png, "PNG")
    data = {"image/png": b64encode(png.getvalue()).decode(), "text/plain": "A figure."}
    size = {"image/png": {"width": 770, "height": 356}}
    return new_output("display_data", data, metadata=size)


def table(rows: int, columns: int, note: str = "") -> NotebookNode:
    head, row = ("some quantity",) * columns, ("≈ 12 345 GB",) * columns
    made = Table(head, (row,) * rows, "A title", note)
    return new_output("display_data", {"text/html": made._repr_html_(), "text/plain": str(made)})


def printed(*lines: str) -> NotebookNode:
    return new_output("stream", text="\n".join(lines) + "\n")


VERDICT = "On this machine it came to 1.28 × the arithmetic. " * 3
FITS = {
    "prose": [prose(120)],
    "code": [code(ALONE)],
    "prose and code": [prose(80), code(ALONE - 80 // WORDS_FOR_A_LINE - 3)],
    "a comparison": [code(SLIDE_LINES["table"], table(1, 4, VERDICT))],
    "a figure": [code(SLIDE_LINES["figure"], figure())],
    "a long table": [code(1, table(18, 7))],
    "folded code": [prose(30), folded(code(30, table(4, 4)))],
    "printed lines": [code(5, printed(*["word " * 21] * 20))],
}
DOES_NOT = {
    "too high": [code(30)],
    "too high again": [code(SLIDE_LINES["table"] + 4, table(1, 4, VERDICT))],
    "cut off": [code(1, width=112)],
    "a figure at": [code(SLIDE_LINES["figure"] + 2, figure())],
    "too wide": [code(1, table(1, 20))],
}
SPOILT = {
    "22 px": ".reveal p { font-size: calc(22 * var(--px)) !important }",
    "17 px": ".cm-line { font-size: calc(17 * var(--px)) !important }",
    "broken": ".jp-OutputArea pre { word-break: break-all !important }",
}


@pytest.fixture
def deck(browser, lab):
    """Opens a notebook of the given slides as slides."""
    with browser.new_context() as context:
        page = context.new_page()

        def opened(shown: dict[str, list[NotebookNode]]):
            notebook = new_notebook(metadata={"kernelspec": KERNELSPEC})
            for cells in shown.values():
                for cell in cells:
                    kind = "slide" if cell is cells[0] else "-"
                    cell.metadata.slideshow = {"slide_type": kind}
                    notebook.cells.append(cell)
            nbformat.write(notebook, lab.workbook / "deck.ipynb")
            slides.open_slides(page, lab, "deck.ipynb")
            return page

        yield opened
        lab_page.shut_down_kernels(page, lab)
        (lab.workbook / "deck.ipynb").unlink()


def test_the_budget_fits_on_small_and_large_screens(deck):
    page = deck(FITS)
    for screen, key in zip(slides.SCREENS, ("Space", "Shift+Space"), strict=True):
        page.set_viewport_size(screen)
        found = [slides.unreadable(page) for _ in slides.walk(page, key)]
        assert dict(zip(FITS, found, strict=True)) == dict.fromkeys(FITS, [])


def test_what_does_not_fit_is_found(deck):
    page = deck(DOES_NOT)
    for problem, _ in zip(DOES_NOT, slides.walk(page), strict=True):
        found = "; ".join(slides.unreadable(page))
        assert problem.removesuffix(" again") in found, f"{problem}: {found}"


@pytest.mark.parametrize("problem", SPOILT)
def test_what_cannot_be_read_is_found(deck, problem):
    page = deck({"all": [prose(30), code(3, printed("breakable " * 20))]})
    page.add_style_tag(content=SPOILT[problem])
    assert any(problem in found for found in slides.unreadable(page))


def test_what_stands_for_folded_code_is_looked_at_too(deck):
    page = deck({"all": [folded(code(3))]})
    assert slides.unreadable(page) == []
    page.add_style_tag(content=".jp-Placeholder { display: flex !important }")
    assert any("too wide" in found or "cut off" in found for found in slides.unreadable(page))


def test_a_larger_screen_shows_the_same_slide_larger(deck):
    page = deck({"all": [prose(30), code(3)]})
    heights = []
    for screen in slides.SCREENS:
        page.set_viewport_size(screen)
        page.wait_for_timeout(200)
        heights.append(page.locator(f"{slides.SLIDE} .cm-line").last.bounding_box()["y"])
    assert heights[1] / heights[0] == pytest.approx(1.5, rel=0.02)
