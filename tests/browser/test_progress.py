"""A learner's fresh copy in a real JupyterLab, and what outlasts its kernel."""

import re
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output
from playwright.sync_api import Browser, Page

from course_utils.workshop.execute import KERNELSPEC
from tests.browser import lab_page, server

NAME = "00_made.ipynb"
IMPORTS, COMPARES, CHECKS, LEDGER, PROGRESS = CELLS = (
    "from course_utils import check, compare",
    'compare(id="00.1", what="a made quantity", unit="days", guess=90, predicted=144)',
    "check.ex00_1(0.7996)",
    'compare.ledger("00")',
    'check.progress("00")',
)


@pytest.fixture
def place(tmp_path) -> Path:
    """A folder whose notebooks hold one chapter, saved with outputs."""
    saved = {"outputs": [new_output("stream", text="an answer")], "execution_count": 1}
    cells = [new_code_cell(source, **saved) for source in CELLS]
    notebook = new_notebook(cells=cells, metadata={"kernelspec": KERNELSPEC})
    (tmp_path / "notebooks").mkdir()
    nbformat.write(notebook, tmp_path / "notebooks" / NAME)
    return tmp_path


def test_it_opens_without_outputs_and_progress_outlasts_the_kernel(place, browser: Browser):
    with server.running(place, place / "notebooks") as lab, browser.new_context() as context:
        page = context.new_page()
        lab_page.open_notebook(page, lab, NAME)
        assert lab_page.cells(page).count() == len(CELLS) and outputs(page) == []
        lab_page.run_all(page)
        assert "an answer" not in outputs(page) and len(outputs(page)) == 4
        lab_page.save(page)
        restart_kernel(page)
        lab_page.open_notebook(page, lab, NAME)
        for number, source in enumerate((IMPORTS, LEDGER, PROGRESS), start=1):
            run(page, source, number)
        assert "a made quantity" in shown(page, LEDGER) and "90 days" in shown(page, LEDGER)
        assert "✓ solved" in shown(page, PROGRESS)
        lab_page.shut_down_kernels(page, lab)


def outputs(page: Page) -> list[str]:
    """The text of every output."""
    return page.locator(f"{lab_page.NOTEBOOK} .jp-OutputArea-output").all_inner_texts()


def restart_kernel(page: Page) -> None:
    """Restart Kernel from the menu, which clears no output."""
    page.get_by_role("menuitem", name="Kernel", exact=True).click()
    page.get_by_role("menuitem", name=re.compile("^Restart Kernel…")).click()
    with page.expect_response(re.compile("/api/kernels/.*/restart")):
        page.locator(".jp-Dialog button.jp-mod-accept").click()
    page.wait_for_selector(lab_page.IDLE)


def run(page: Page, source: str, number: int) -> None:
    """Run the cell with this source, and wait until it has ended with this number."""
    cell = lab_page.cells(page).nth(CELLS.index(source))
    cell.locator(".jp-InputArea-editor").click()
    page.keyboard.press("Control+Enter")
    cell.locator(f".jp-InputPrompt:text-is('[{number}]:')").wait_for()


def shown(page: Page, source: str) -> str:
    """What the cell with this source shows."""
    cell = lab_page.cells(page).nth(CELLS.index(source))
    return cell.locator(".jp-OutputArea-output").inner_text()
