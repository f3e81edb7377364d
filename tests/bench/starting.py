"""How long importing the course takes, torch apart."""

import subprocess
import sys

from course_utils import units
from course_utils.table import table
from tests.bench.report import Section

RUNS = 3
PROGRAM = """
import time
a = time.perf_counter()
import torch
b = time.perf_counter()
import course_utils
print(b - a, time.perf_counter() - b)
"""


def _once() -> tuple[float, float]:
    """Seconds that torch and then course_utils take in a fresh process."""
    command = [sys.executable, "-c", PROGRAM]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    torch_took, ours = map(float, ran.stdout.split())
    return torch_took, ours


def section() -> Section:
    """The import part of the report; no figure is set for it here."""
    fastest = map(min, zip(*(_once() for _ in range(RUNS)), strict=True))
    rows = [
        (name, units.duration(took, significant=3))
        for name, took in zip(("torch", "course_utils, after torch"), fastest, strict=True)
    ]
    head = ("import", f"fastest of {RUNS} fresh processes")
    return Section("Import", (table(head, rows),))
