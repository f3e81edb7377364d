"""What a processor could do at best: physical cores × clock × FMA pipes × lanes × 2."""

import os
import platform
import re
import subprocess
from dataclasses import dataclass
from math import prod
from pathlib import Path

from course_utils import units
from course_utils.hardware.limits import usable_cores
from course_utils.table import Result, Table, table

CPUS = Path("/sys/devices/system/cpu")
CPUINFO = Path("/proc/cpuinfo")
LANES = {"avx512f": 16, "avx2": 8, "avx": 8, "asimd": 4, "neon": 4, "sse2": 4}  # fp32 per register
PIPES = 2  # most cores of servers and laptops have two units for multiply-adds; some have one


@dataclass(frozen=True)
class Factor:
    """One factor: `value` is None if it is unknown; `origin` is 'read', 'assumed' or 'unknown'."""

    name: str
    value: float | None
    origin: str


@dataclass(frozen=True, repr=False)
class Napkin(Result):
    """A processor's fp32 FLOP/s by multiplication: not measured, and not a peak to divide by."""

    factors: tuple[Factor, ...]

    @property
    def value(self) -> float | None:
        """The product of the factors in FLOP/s; None if one of them is unknown."""
        values = [factor.value for factor in self.factors]
        return None if None in values else float(prod(values))

    def shown(self) -> Table:
        """A row per factor, and where it comes from; the product is left to the reader."""
        rows = [
            (one.name, units.measured(_text(one)), units.measured(one.origin))
            for one in self.factors
        ]
        return table(("factor", "value", "where from"), rows)


def cpu_napkin() -> Napkin:
    """The factors of this processor's fp32 rate, each read from the system, assumed, or unknown.

    Cores are physical ones: two hardware threads of a core share its multiply-add units. A clock
    that is read is the highest the system states, and a busy processor may run slower or faster.
    """
    factors = (_cores(), _clock(), Factor("FMA pipes per core", PIPES, "assumed"), _lanes())
    return Napkin((*factors, Factor("FLOPs per multiply-add", 2, "a multiplication, an addition")))


def _text(factor: Factor) -> str:
    if factor.value is None:
        return units.UNKNOWN
    if factor.name == "clock":
        return f"{units.digits(factor.value / 1e9, 3)}e9 ticks per second"
    return units.digits(factor.value)


def _cores() -> Factor:
    """Physical cores that this process may use."""
    name, allowed = "physical cores", usable_cores()
    if platform.system() == "Darwin" and (found := _sysctl("hw.physicalcpu")):
        return Factor(name, min(found, allowed), "read")
    siblings = {_read(CPUS / f"cpu{cpu}/topology/thread_siblings_list") for cpu in _usable()}
    if siblings - {""}:
        return Factor(name, min(len(siblings), allowed), "read")
    return Factor(name, allowed, "assumed: one per core that the system shows")


def _clock() -> Factor:
    """The highest clock that the system states, in ticks per second."""
    kilohertz = _read(CPUS / "cpu0/cpufreq/cpuinfo_max_freq")
    if kilohertz.isdigit():
        return Factor("clock", int(kilohertz) * 1e3, "read")
    stated = [float(mhz) * 1e6 for mhz in re.findall(r"cpu MHz\s*: ([\d.]+)", _read(CPUINFO))]
    if stated and max(stated) > 0:
        return Factor("clock", max(stated), "read")
    if platform.system() == "Darwin" and (found := _sysctl("hw.cpufrequency_max")):
        return Factor("clock", found, "read")
    return Factor("clock", 3e9, "assumed")


def _lanes() -> Factor:
    """Numbers of 32 bits in one vector register, from the instruction sets that are listed."""
    name = "lanes (fp32 numbers per register)"
    listed = re.search(r"^(?:flags|Features)\s*: (.*)$", _read(CPUINFO), re.MULTILINE)
    sets = set(listed[1].split()) if listed else set()
    if platform.machine() in ("arm64", "aarch64"):
        return Factor(name, LANES["neon"], "read")
    known = [lanes for each, lanes in LANES.items() if each in sets]
    return Factor(name, max(known), "read") if known else Factor(name, None, units.UNKNOWN)


def _usable() -> list[int]:
    here = getattr(os, "sched_getaffinity", None)
    return sorted(here(0)) if here else list(range(os.cpu_count() or 1))


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _sysctl(name: str) -> int | None:
    command = ["sysctl", "-n", name]
    answer = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return int(answer) if answer.isdigit() else None
