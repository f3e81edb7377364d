"""Explorers: outputs with a picture and the controls that redraw it, moved by keyboard alone."""

from collections.abc import Callable, Iterator

from playwright.sync_api import ElementHandle, Page

from tests.browser.lab_page import NOTEBOOK, cells

EXPLORER = f"{NOTEBOOK} .jp-OutputArea-output:has(img.widget-image)"
BANNED = "select, input[type=radio]"  # Lab takes their keys for itself
UNNAMED = ".noUi-handle:not([aria-label]), .noUi-handle[aria-label='']"
LAST = "button.mod-active:last-child"
PIXELS = """explorer => [...explorer.querySelectorAll('img.widget-image')].map(image => {
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
    if (!image.complete || !canvas.width) return null;
    canvas.getContext('2d').drawImage(image, 0, 0);
    return canvas.toDataURL();
})"""
REDRAW_SECONDS = 5
ROUNDS = 12  # a redraw that comes later than that is seen in a later round


def failures(page: Page) -> list[str]:
    """What is wrong with the page's explorers, one line each."""
    found = []
    for number, explorer in enumerate(page.query_selector_all(EXPLORER), start=1):
        explorer.scroll_into_view_if_needed()
        if explorer.query_selector(BANNED):
            found.append(f"explorer {number}: has a control that does not work by keyboard")
        if explorer.query_selector(UNNAMED):
            found.append(f"explorer {number}: has a slider handle without a name")
        for name, moves in _controls(page, explorer):
            if not _redraws(page, explorer, moves):
                found.append(f"explorer {number}: {name} does not change the figure")
    return found


def count(page: Page) -> int:
    """How many explorers the page has."""
    return page.locator(EXPLORER).count()


Move = Callable[[], None]


def _controls(page: Page, explorer: ElementHandle) -> Iterator[tuple[str, list[Move]]]:
    """Each control's name, and the ways to move it; a later one for when it is at its end."""
    for selector, ways in {
        ".noUi-handle": ("ArrowRight", "ArrowLeft", "End", "Home"),
        "input[type=checkbox]": ("Space",),
        "input[type=number]": ("ArrowUp Enter", "ArrowDown Enter"),
        # Of several sizes: a field refuses what is beyond its limits, and the picture stays.
        "input[type=text]": (
            "Control+a 3 0 0 Enter",
            "Control+a 2 e 1 2 Enter",
            "Control+a 2 e 9 Enter",
            "Control+a . 3 Enter",
            "Control+a 4 0 9 6 Enter",  # sizes that others divide
            "Control+a 1 6 Enter",
            "Control+a 8 Enter",
        ),
        # Beyond the last button lies a text, whose number a space would replace.
        f".widget-toggle-buttons:not(:has({LAST}))": ("Tab Space", "Shift+Tab Space"),
        f".widget-toggle-buttons:has({LAST})": ("Shift+Tab Space",),
        "button.jupyter-button:not(.widget-toggle-buttons button)": ("Enter",),
    }.items():
        for control in explorer.query_selector_all(selector):
            if control.is_visible():
                yield _name(control), [_move(page, control, keys) for keys in ways]


def _move(page: Page, control: ElementHandle, keys: str) -> Move:
    def press() -> None:
        (control.query_selector("button.mod-active") or control).focus()
        for key in keys.split():
            page.keyboard.press(key)

    return press


def _redraws(page: Page, explorer: ElementHandle, moves: list[Move]) -> bool:
    number_of_cells = cells(page).count()
    for move in moves * ROUNDS:
        before = explorer.evaluate(PIXELS)
        move()
        if _changed(page, explorer, before):
            return cells(page).count() == number_of_cells
    return False


def _changed(page: Page, explorer: ElementHandle, before: list[str]) -> bool:
    for _ in range(REDRAW_SECONDS * 10):
        page.wait_for_timeout(100)
        now = explorer.evaluate(PIXELS)
        if None not in now and now != before:
            return True
    return False


def _name(control: ElementHandle) -> str:
    """The control's kind and its description as the reader sees it."""
    return control.evaluate(
        """control => {
            const box = control.closest('.widget-inline-hbox') ?? control;
            const label = box.querySelector('.widget-label, .widget-label-basic');
            return (control.type ?? control.className.split(' ')[0]) + ' "'
                + (label ?? control).textContent.trim() + '"';
        }"""
    )
