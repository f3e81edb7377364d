"""Recorded runs: what other machines measured, read from the JSON files in `recorded/`.

`python -m course_utils.measure.record` writes such a file for this machine.
"""

import json
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from course_utils import units
from course_utils.hardware.this_machine import DTYPES
from course_utils.table import Table, table


@dataclass(frozen=True)
class Run:
    """One machine's record, rates in FLOP/s and B/s.

    `products` maps a number format to the seconds that an n × n matmul took, by n.
    """

    device: str
    backend: str
    cores: float
    torch: str
    python: str
    date: str
    bandwidth: float
    peaks: dict[str, float]
    products: dict[str, dict[int, float]]

    @property
    def name(self) -> str:
        """The device's name; for a processor, with the number of cores that were used."""
        cores = f", {units.digits(self.cores)} cores" if self.backend == "cpu" else ""
        return f"{self.device}{cores}"


def runs() -> tuple[Run, ...]:
    """The runs that the package ships, by file name; the tests check what each file holds."""
    folder = files("course_utils.hardware").joinpath("recorded")
    found = sorted(folder.iterdir(), key=lambda path: path.name)
    return tuple(read_run(path) for path in found if path.name.endswith(".json"))


def recorded() -> Table:
    """The runs of `runs()` as a table: what other machines measured, not this one."""
    rows = [
        (
            run.name,
            run.date,
            *(_rate(run.peaks.get(kind)) for kind in DTYPES),
            units.rate(run.bandwidth, unit="B/s", significant=3),
            f"{units.digits(run.peaks['fp32'] / run.bandwidth, 3)} FLOPs a byte",
        )
        for run in runs()
    ]
    head = ("machine", "recorded", *DTYPES, "bandwidth", "fp32 ridge")
    return table(head, rows, title="Recorded runs of other machines")


def read_run(path: Traversable) -> Run:
    """The run in a file that `measure.record` wrote; sizes, strings in JSON, become ints."""
    values = json.loads(path.read_text("utf-8"))
    products = {
        kind: {int(n): seconds for n, seconds in points.items()}
        for kind, points in values.pop("products").items()
    }
    return Run(**values, products=products)


def _rate(value: float | None) -> str:
    return units.rate(value, significant=3)
