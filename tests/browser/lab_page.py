"""A notebook in JupyterLab, as a user at the keyboard meets it."""

import re

from playwright.sync_api import Locator, Page

from tests.browser.server import Lab

VIEWPORT = {"width": 1280, "height": 900}
NOTEBOOK = ".jp-NotebookPanel:not(.lm-mod-hidden)"
IDLE = "#jp-main-statusbar:has-text('(ipykernel) | Idle')"  # the toolbar's sign comes too early
POP_UP = ".Toastify__toast"
WAITING = f"{NOTEBOOK} .jp-InputPrompt:text('*')"
PATIENCE = 300  # seconds for whatever the page should do at once: a busy machine is no mistake
RUN_SECONDS = 1800


def open_notebook(page: Page, lab: Lab, name: str) -> None:
    """Open `name` in a fresh JupyterLab and wait until its kernel is idle."""
    page.context.set_default_timeout(PATIENCE * 1000)
    page.set_viewport_size(VIEWPORT)
    page.goto(lab.url(f"/lab/tree/{name}") + "&reset")
    page.wait_for_selector(IDLE)


def cells(page: Page) -> Locator:
    """The notebook's cells, in order."""
    return page.locator(f"{NOTEBOOK} .jp-Cell")


def run_all(page: Page) -> None:
    """Run All Cells from the menu, and wait until no cell waits any more."""
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    page.wait_for_selector(WAITING, state="attached")
    page.wait_for_selector(WAITING, state="detached", timeout=RUN_SECONDS * 1000)
    page.wait_for_selector(IDLE)
    _wait_for_images(page)


def save(page: Page) -> None:
    """Save the notebook from the menu, and wait until the server has written it."""
    page.get_by_role("menuitem", name="File", exact=True).click()
    with page.expect_response(  # Lab also puts its workspace
        lambda response: response.request.method == "PUT" and "/api/contents/" in response.url
    ):
        page.get_by_role("menuitem", name=re.compile("^Save Notebook(?! As)")).click()


def texts(page: Page, mime_type: str) -> list[str]:
    """The text of every output of `mime_type`, such as application/vnd.jupyter.stderr."""
    outputs = page.locator(f'{NOTEBOOK} .jp-OutputArea-output[data-mime-type="{mime_type}"]')
    return outputs.all_text_contents()


def shut_down_kernels(page: Page, lab: Lab) -> None:
    """Stop every kernel of the server, so that the next notebook has the memory."""
    for kernel in page.request.get(lab.url("/api/kernels")).json():
        page.request.delete(lab.url(f"/api/kernels/{kernel['id']}"))


def _wait_for_images(page: Page) -> None:
    page.wait_for_function("() => [...document.images].every(image => image.complete)")
