"""Screenshots of a notebook in JupyterLab and of its slides, to look at one's work.

python -m tests.browser.shots NOTEBOOK OUTDIR [--dark] [--run] [--slides]
"""

import argparse
import json
import shutil
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.browser import chromium, lab_page, slides
from tests.browser.server import Lab, running

SCROLLER = f"{lab_page.NOTEBOOK} .jp-WindowedPanel-outer"
AT_THE_END = "box => box.scrollTop + box.clientHeight >= box.scrollHeight - 2"
TALL = {"width": 1280, "height": 1500}


def main() -> None:
    """Write the screenshots that the command line asks for."""
    asked = _arguments()
    asked.outdir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        place = Path(folder)
        _choose_theme(place, asked.dark)
        with (
            running(place, asked.notebook.resolve().parent) as lab,
            chromium.launch(playwright, chromium.find(playwright)) as browser,
        ):
            _take(browser.new_page(), lab, asked)


def _take(page: Page, lab: Lab, asked: argparse.Namespace) -> None:
    name = asked.notebook.name
    shutil.copyfile(asked.notebook, lab.workbook / name)  # with its outputs
    lab_page.open_notebook(page, lab, name)
    if asked.run:
        lab_page.run_all(page)
        lab_page.save(page)
    kind = "dark" if asked.dark else "light"
    page.set_viewport_size(TALL)
    for number in _scrolled(page):
        page.screenshot(path=asked.outdir / f"{asked.notebook.stem}-{kind}-{number:02}.png")
    if asked.slides:
        slides.open_slides(page, lab, name)
        for screen, key in zip(slides.SCREENS, ("Space", "Shift+Space"), strict=True):
            page.set_viewport_size(screen)
            _take_slides(page, asked.outdir / f"{asked.notebook.stem}-{screen['height']}", key)
    lab_page.shut_down_kernels(page, lab)


def _take_slides(page: Page, start: Path, key: str) -> None:
    for words in slides.walk(page, key):
        number, fragments = page.evaluate(slides.STATE)
        page.screenshot(path=f"{start}-slide-{number:02}-{fragments}.png")
        print(f"slide {number:02}.{fragments}: {words}", *slides.unreadable(page), sep="  ")


def _scrolled(page: Page) -> Iterator[int]:
    """Scroll through the notebook, a screen at a time; yields 0, 1, 2, ..."""
    page.eval_on_selector(SCROLLER, "box => { box.scrollTop = 0; }")
    for number in count():
        page.wait_for_timeout(700)
        yield number
        if page.eval_on_selector(SCROLLER, AT_THE_END):
            return
        page.eval_on_selector(SCROLLER, "box => { box.scrollTop += 0.95 * box.clientHeight; }")


def _choose_theme(place: Path, dark: bool) -> None:
    folder = place / "settings" / "@jupyterlab" / "apputils-extension"
    folder.mkdir(parents=True)
    theme = {"theme": "JupyterLab Dark" if dark else "JupyterLab Light"}
    (folder / "themes.jupyterlab-settings").write_text(json.dumps(theme))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.browser.shots")
    parser.add_argument("notebook", type=Path)
    parser.add_argument("outdir", type=Path)
    parser.add_argument("--dark", action="store_true", help="JupyterLab's dark theme")
    parser.add_argument("--run", action="store_true", help="Run All first")
    parser.add_argument("--slides", action="store_true", help="the slides too")
    return parser.parse_args()


if __name__ == "__main__":
    main()
