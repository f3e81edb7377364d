"""JupyterLab and live slides on the learner's copy: this machine only, token on, no pop-ups."""

import os
import socket
import webbrowser
from pathlib import Path

from course_utils.session import VARIABLE

from .files import PROGRESS, WorkshopError

SETTINGS = Path(__file__).parent / "settings"
LOOPBACK = "127.0.0.1"


def start(folder: Path, page: str, port: int | None = None, options: list[str] = ()) -> None:
    """Serve `folder` with JupyterLab, opening at `page`, until it is stopped.

    Its kernels keep the learner's progress in `folder`.

    Args:
        folder: what the learner sees as the top folder.
        page: the address to open, such as "/lab/tree/00_start_here.ipynb".
        port: a port of your choice; None takes the first free one from 8888 on.
        options: passed on to JupyterLab.

    Raises:
        WorkshopError: `port` is not a port, or not free.
    """
    from jupyterlab.labapp import main as jupyter_lab

    every = server_options(folder, page, port) + list(options)
    os.environ[VARIABLE] = str(folder.resolve() / PROGRESS)
    jupyter_lab(every)


def server_options(folder: Path, page: str, port: int | None = None) -> list[str]:
    """The options that `start` gives JupyterLab.

    Raises:
        WorkshopError: `port` is not a port, or not free.
    """
    options = [
        f"--ServerApp.root_dir={folder}",
        f"--ServerApp.ip={LOOPBACK}",
        f"--LabApp.default_url={page}",
        f"--LabApp.app_settings_dir={SETTINGS}",
    ]
    if port is not None:
        check_free(port)
        options.append(f"--ServerApp.port={port}")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.append("--allow-root")  # the usual user inside a container
    return options


def check_free(port: int) -> None:
    """Return if a server can listen on `port` of this machine.

    Raises:
        WorkshopError: `port` is out of range, taken, or not allowed to this user.
    """
    if not 1 <= port <= 65535:
        raise WorkshopError(f"--port must be from 1 to 65535, not {port}.")
    try:
        with socket.create_server((LOOPBACK, port)):
            pass
    except OSError as error:
        raise WorkshopError(
            f"Port {port} cannot be used ({error.strerror}): name another, or leave --port out "
            "to have a free one found."
        ) from error


def open_running(folder: Path, page: str) -> bool:
    """Open `page` on a course server that already runs on `folder`; False when there is none."""
    from jupyter_server.serverapp import list_running_servers

    for server in list_running_servers():
        if Path(server["root_dir"]).resolve() == folder.resolve():
            address = f"{server['url'].rstrip('/')}{page}?token={server['token']}"
            print(f"Opening {address}")
            webbrowser.open(address)
            return True
    return False
