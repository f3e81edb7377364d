"""The browser that the tests drive: Debian's chromium, or the one playwright installed."""

import shutil
from pathlib import Path

from playwright.sync_api import Browser, Playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find(playwright: Playwright) -> str | None:
    """The path of a chromium on this machine, or None."""
    installed = (path for path in map(shutil.which, NAMES) if path)
    own = playwright.chromium.executable_path
    return next(installed, own if Path(own).exists() else None)


def launch(playwright: Playwright, path: str) -> Browser:
    """The browser at `path`, without a window."""
    return playwright.chromium.launch(executable_path=path, headless=True, args=OPTIONS)
