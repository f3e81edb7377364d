"""Pytest plugin: after its last cell, every notebook nbval ran is held to its budget of memory.

A `budget` item asks the kernel, still running, for the most memory it ever held, and takes the
time since that kernel started. With an accelerator its memory is told and not judged: a context of
CUDA alone takes some hundred MB, and a pretended device's memory is the kernel's own. The figures
of all notebooks stand at the end of pytest's report. Seconds are told and not judged either, since
a slow machine is no mistake: `make bench` judges them.
"""

import ast
import time
from itertools import groupby

import psutil
import pytest
from nbval.plugin import IPyNbFile

PATIENCE = 120  # seconds for a kernel's answer that takes no time itself; nbval would wait for 5
# Linux' own count starts afresh in each process; getrusage's may be inherited from the parent.
PEAK_BYTES = """
import pathlib, re, resource, sys
status = pathlib.Path("/proc/self/status")
torch = sys.modules.get("torch")
alone = torch is None or not torch.accelerator.is_available()
if status.exists():
    peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", status.read_text())[1]) * 1024
else:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )
"""

rows_key = pytest.StashKey[list[tuple[str, float, float]]]()


def pytest_addoption(parser):
    group = parser.getgroup("nbval")
    group.addoption("--budget-mb", type=float, default=1000, help="memory a kernel may hold")


def pytest_configure(config):
    config.stash[rows_key] = []


def pytest_collection_modifyitems(items):
    grouped = []
    for parent, cells in groupby(items, key=lambda item: item.parent):
        cells = list(cells)
        grouped.extend(cells)
        if isinstance(parent, IPyNbFile):
            for cell in cells:
                cell.output_timeout = PATIENCE
            grouped.append(Budget.from_parent(parent, name="budget"))
    items[:] = grouped


def pytest_terminal_summary(terminalreporter, config):
    rows = config.stash[rows_key]
    if rows:
        terminalreporter.section("notebooks: seconds, and peak resident memory")
    for name, seconds, megabytes in rows:
        terminalreporter.line(f"{name:40} {seconds:6.1f} s {megabytes:7.0f} MB")


class OverBudget(Exception):
    """A notebook's kernel held more memory than it may, or died."""


class Budget(pytest.Item):
    def runtest(self):
        kernel = self.parent.kernel
        if not kernel.is_alive():
            raise OverBudget("the kernel died: see the cell that failed above")
        seconds, (megabytes, alone) = seconds_since_start(kernel), peak_megabytes(kernel)
        self.config.stash[rows_key].append((self.path.name, seconds, megabytes))
        allowed = self.config.option.budget_mb
        if alone and megabytes > allowed:
            raise OverBudget(f"{megabytes:.0f} MB resident, and {allowed:.0f} MB are allowed")

    def repr_failure(self, excinfo, style=None):
        if isinstance(excinfo.value, OverBudget):
            return f"{self.path.name}: {excinfo.value}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self):
        return self.path, None, f"{self.path.name}::budget"


def seconds_since_start(kernel) -> float:
    process = psutil.Process(kernel.km.provisioner.pid)
    return time.time() - process.create_time()


def peak_megabytes(kernel) -> tuple[float, bool]:
    """The most that the kernel held, and whether it did so without an accelerator."""
    reply = kernel.kc.execute_interactive(
        PEAK_BYTES,
        silent=True,
        store_history=False,
        user_expressions={"found": "(peak, alone)"},
        timeout=PATIENCE,
        output_hook=lambda message: None,
    )
    found = reply["content"]["user_expressions"]["found"]["data"]["text/plain"]
    peak, alone = ast.literal_eval(found)
    return peak / 1e6, alone
