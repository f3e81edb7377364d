"""The machine under the bench: how busy others keep it, and which versions run on it."""

import importlib.metadata
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from time import perf_counter, process_time

import psutil
import torch

from course_utils import hardware
from course_utils.table import Table, table

PEERS = ("fvcore", "torchinfo", "torchscan", "triton")


class Others:
    """The share of all processors that other programs had, known when the block ends."""

    share = 0.0


@contextmanager
def others() -> Iterator[Others]:
    """Watch what other programs take of the processors while the block runs."""
    seen = Others()
    began, own, busy = perf_counter(), process_time(), _busy_seconds()
    yield seen
    wall = perf_counter() - began
    elsewhere = (_busy_seconds() - busy) - (process_time() - own)
    seen.share = max(0.0, elsewhere / (wall * (psutil.cpu_count() or 1)))


def _busy_seconds() -> float:
    """Processor seconds of all programs since the machine started."""
    times = psutil.cpu_times()
    kinds = ("user", "nice", "system", "irq", "softirq", "steal")
    return sum(getattr(times, kind, 0.0) for kind in kinds)


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
