"""One browser and one JupyterLab for all browser tests; one opened notebook at a time."""

import os
import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from playwright.sync_api import Browser, Page, sync_playwright

from course_utils.workshop.files import NOTEBOOKS, PROGRESS
from tests.browser import chromium, lab_page, server

ARTEFACTS = Path(__file__).parents[1] / "artefacts"


@dataclass(frozen=True)
class Chapter:
    """A notebook, open in a page of a JupyterLab."""

    file: Path
    fresh: str
    page: Page
    lab: server.Lab

    @property
    def cells(self) -> list[NotebookNode]:
        """Its cells as they were before it was opened."""
        return nbformat.reads(self.fresh, as_version=4).cells


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        path = chromium.find(playwright)
        if path is None:
            stop = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
            stop(
                "no chromium on this machine: apt install chromium, or playwright install chromium"
            )
        with chromium.launch(playwright, path) as launched:
            yield launched


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[server.Lab]:
    with server.running(tmp_path_factory.mktemp("lab")) as lab:
        yield lab


@pytest.fixture(
    scope="module", params=sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem
)
def opened(request, browser: Browser, lab: server.Lab) -> Iterator[Chapter]:
    """Each notebook in turn, with the outputs that its author saved; the learner is a new one."""
    with browser.new_context() as context:
        page = context.new_page()
        file = lab.workbook / request.param.name
        fresh = as_saved_here(request.param.read_text(encoding="utf-8"))
        file.write_text(fresh, encoding="utf-8")
        (lab.workbook / PROGRESS).unlink(missing_ok=True)
        lab_page.open_notebook(page, lab, file.name)
        yield Chapter(file, fresh, page, lab)
        lab_page.shut_down_kernels(page, lab)


def as_saved_here(notebook: str) -> str:
    """The notebook's text with this Python's version, which Lab notes when it saves."""
    version = f'"version": "{platform.python_version()}"'
    return re.sub(r'"version": "3\.\d+\.\d+"(?=\s+\}\s+\},\s+"nbformat")', version, notebook)


@pytest.fixture(scope="module")
def ran(opened: Chapter) -> Chapter:
    """The same, after Run All."""
    lab_page.run_all(opened.page)
    return opened


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    """Keep what the browser showed when a test failed."""
    report = yield
    chapter = next((v for v in getattr(item, "funcargs", {}).values() if isinstance(v, Chapter)), 0)
    if report.failed and chapter:
        ARTEFACTS.mkdir(exist_ok=True)
        for number, page in enumerate(chapter.page.context.pages):
            page.screenshot(path=ARTEFACTS / f"{item.name}-{number}.png")
    return report
