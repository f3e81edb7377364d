"""How long importing the course takes beside torch and matplotlib."""

import subprocess
import sys

from course_utils import units
from course_utils.table import table
from tests.bench.report import Figure, Section
from tests.quiet import watch

RUNS = 3
ALLOWED = 0.3  # seconds that the course may add
PROGRAM = """
from time import perf_counter
times = [perf_counter()]
import torch
times.append(perf_counter())
import matplotlib.figure
times.append(perf_counter())
import course_utils
times.append(perf_counter())
print(*(end - start for start, end in zip(times, times[1:])))
"""
PARTS = ("torch", "matplotlib, after torch", "course_utils, after both")


def _once() -> list[float]:
    """Seconds that each of the parts takes in a fresh process."""
    command = [sys.executable, "-c", PROGRAM]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return list(map(float, ran.stdout.split()))


def section() -> Section:
    """The import part of the report."""
    with watch() as seen:
        fastest = [min(times) for times in zip(*(_once() for _ in range(RUNS)), strict=True)]
    rows = [
        (name, units.duration(took, significant=3))
        for name, took in zip(PARTS, fastest, strict=True)
    ]
    shown = table(("import", f"fastest of {RUNS} fresh processes"), rows)
    name, ours = "import course_utils after torch and matplotlib, seconds", fastest[-1]
    figure = Figure(name, f"{ours:.2f}", f"< {ALLOWED}", ours < ALLOWED, seen.share)
    return Section("Import", (shown,), (figure,))
