"""The machine under the bench, and which versions run on it."""

import importlib.metadata
import platform
from datetime import UTC, datetime

import torch

from course_utils import hardware
from course_utils.table import Table, table

PEERS = ("fvcore", "torchinfo", "torchscan", "triton")


def version(package: str) -> str:
    """The installed version, or that there is none."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def head() -> Table:
    """Device, versions and date."""
    rows = [
        ("device", hardware.machine().name),
        ("processors", f"{hardware.usable_cores():g}, PyTorch threads {torch.get_num_threads()}"),
        ("system", f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"),
        ("torch", torch.__version__),
        *((name, version(name)) for name in PEERS),
        ("date", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"),
    ]
    return table(("", "this run"), rows)
