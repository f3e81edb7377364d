"""The course's own JupyterLab, started as `make lab` starts it, away from the user's settings."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from course_utils.workshop.files import NOTEBOOKS, REPOSITORY

TOKEN = "a-token-for-tests"
SETTINGS = {
    "JUPYTER_CONFIG_DIR": "config",
    "JUPYTER_DATA_DIR": "data",
    "JUPYTER_RUNTIME_DIR": "runtime",
    "JUPYTERLAB_SETTINGS_DIR": "settings",
    "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
    "IPYTHONDIR": "ipython",
}
START_SECONDS = 300


@dataclass(frozen=True)
class Lab:
    """A running server: its address and the folder that it serves."""

    address: str
    workbook: Path

    def url(self, page: str) -> str:
        """The address of `page`, such as "/lab/tree/00_start_here.ipynb"."""
        return f"{self.address}{page}?token={TOKEN}"


@contextmanager
def running(place: Path, notebooks: Path = NOTEBOOKS) -> Iterator[Lab]:
    """A server whose settings and workbook lie under `place`, stopped when the block ends."""
    port, workbook = free_port(), place / "workbook"
    command = [sys.executable, "-m", "course_utils.workshop", "lab"]
    command += [f"--notebooks={notebooks}", f"--workbook={workbook}", f"--port={port}"]
    command += ["--no-browser", f"--IdentityProvider.token={TOKEN}"]
    settings = {name: str(place / folder) for name, folder in SETTINGS.items()}
    log = place / "server.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            env=os.environ | settings,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    lab = Lab(f"http://127.0.0.1:{port}", workbook)
    try:
        _wait_until_ready(lab, process, log)
        yield lab
    finally:
        process.terminate()
        process.wait(timeout=300)


def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def _wait_until_ready(lab: Lab, process: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(lab.url("/api/status"), timeout=60)
            return
        except OSError:
            time.sleep(0.3)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()}")
