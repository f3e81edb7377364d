"""Record what a machine can do, and read the runs that the package ships.

`python -m course_utils.record` measures this machine's limits and products in each number format
and writes one small JSON file. The chapters show the shipped runs beside the learner's own.
"""

import argparse
import json
import os
import platform
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import torch

from course_utils import hardware, measure, predict, units
from course_utils.arguments import count, positive, shown, text
from course_utils.table import Table, table

SIZES = (64, 128, 256, 512, 1024, 2048, 4096, 8192)


@dataclass(frozen=True)
class Run:
    """One machine's record. Rates in FLOP/s and B/s; `products` maps a format to n → seconds."""

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
        """The device, and its cores where it is a processor."""
        cores = f", {units.digits(self.cores)} cores" if self.backend == "cpu" else ""
        return f"{self.device}{cores}"


def runs() -> tuple[Run, ...]:
    """The runs that the package ships, by file name.

    Raises ValueError, which names the file, for one that holds anything but a recorded run.
    """
    folder = files("course_utils").joinpath("recorded")
    found = sorted(folder.iterdir(), key=lambda path: path.name)
    return tuple(_read(path) for path in found if path.name.endswith(".json"))


def recorded() -> Table:
    """The shipped runs as a table: what other machines measured, not this one."""
    rows = [
        (
            run.name,
            run.date,
            *(_rate(run.peaks.get(kind)) for kind in hardware.DTYPES),
            units.rate(run.bandwidth, unit="B/s", significant=3),
            f"{units.digits(run.peaks['fp32'] / run.bandwidth, 3)} FLOPs a byte",
        )
        for run in runs()
    ]
    head = ("machine", "recorded", *hardware.DTYPES, "bandwidth", "fp32 ridge")
    return table(head, rows, title="Recorded runs of other machines")


def record(folder: Path, *, budget: float = 60.0) -> Path:
    """Measure this machine for about `budget` seconds and write the run into `folder`.

    Everything is measured, also where a datasheet makes a promise. Raises OSError at once when
    `folder` cannot be written into; and RuntimeError, and writes nothing, when the machine is too
    busy for the peak or the bandwidth to be trusted.
    """
    third = positive("budget", budget) / 3
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise OSError(f"folder must be a folder that can be written into, got {folder}")
    device, machine = hardware.backend(), hardware.machine()
    sweep = measure.sweep(
        {name: _product(dtype, device) for name, dtype in hardware.DTYPES.items()},
        SIZES,
        budget=2 * third,
        work=lambda n: n**3,
    )
    for _ in sweep:
        pass
    peaks = {
        name: measure.best_matmul(device, dtype, budget=third / 4)
        for name, dtype in hardware.DTYPES.items()
    }
    copied = measure.measured_bandwidth(device, budget=third / 4)
    _insist([peaks["fp32"], copied])
    run = {
        "device": machine.name,
        "backend": device,
        "cores": machine.cores,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "date": date.today().isoformat(),
        "bandwidth": copied.value,
        "peaks": {name: peak.value for name, peak in peaks.items()},
        "products": {name: dict(zip(*sweep.points(name), strict=True)) for name in sweep.series},
    }
    return _write(run, folder)


def _product(dtype: torch.dtype, device: str) -> Callable[[int], Callable[[], object]]:
    def prepare(n: int) -> Callable[[], object]:
        x, w = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
        return lambda: x @ w

    return prepare


def _insist(results: list) -> None:
    doubts = [result.reason for result in results if not result.trusted]
    if doubts:
        raise RuntimeError(f"the machine is too busy to be recorded: {doubts[0]}")


def _write(run: dict, folder: Path) -> Path:
    slug = re.sub(r"[^a-z0-9]+", "-", f"{run['device']} {run['cores']:g} cores".lower()).strip("-")
    path = folder / f"{slug}.json"
    path.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    return path


def _read(path: Traversable) -> Run:
    """The run in a file; ValueError names the file, what was expected and what stands there."""
    try:
        return _run(json.loads(path.read_text("utf-8")))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path.name} must be a recorded run: {error}") from None


def _run(values: object) -> Run:
    """The run in what the file holds, each field checked by its entry in `CHECKS`."""
    if not isinstance(values, dict) or set(values) != set(CHECKS):
        got = ", ".join(values) if isinstance(values, dict) else shown(values)
        raise ValueError(f"its fields must be {', '.join(CHECKS)}, got {got or 'none'}")
    return Run(**{name: check(name, values[name]) for name, check in CHECKS.items()})


def _peaks(name: str, rates: object) -> dict[str, float]:
    return {kind: positive(f"{name}.{kind}", rate) for kind, rate in _formats(name, rates)}


def _products(name: str, series: object) -> dict[str, dict[int, float]]:
    return {kind: _points(f"{name}.{kind}", points) for kind, points in _formats(name, series)}


def _formats(name: str, values: object) -> Iterable[tuple[str, object]]:
    """The items of what maps number formats, fp32 among them, to something."""
    if not isinstance(values, dict) or not {"fp32"} <= set(values) <= set(hardware.DTYPES):
        known = ", ".join(hardware.DTYPES)
        raise ValueError(f"{name} must have fp32, and may have {known}, got {shown(values)}")
    return values.items()


def _points(name: str, points: object) -> dict[int, float]:
    if not isinstance(points, dict) or not all(map(str.isdecimal, points)):
        raise ValueError(f"{name} must map sizes to seconds, got {shown(points)}")
    return {
        count(f"a size of {name}", int(n)): positive(f"{name}.{n}", seconds)
        for n, seconds in points.items()
    }


CHECKS = {
    **dict.fromkeys(("device", "backend", "torch", "python", "date"), text),
    **dict.fromkeys(("cores", "bandwidth"), positive),
    "peaks": _peaks,
    "products": _products,
}


def _rate(value: float | None) -> str:
    return units.rate(value, significant=3)


def best_rates(run: Run) -> dict[str, float]:
    """FLOP/s of the run's fastest recorded product in each format."""
    return {
        kind: max(predict.matmul_flops(n, n, n) / seconds for n, seconds in points.items())
        for kind, points in run.products.items()
        if points
    }


def main(arguments: list[str] | None = None) -> int:
    """The command: record this machine, into a folder of your choice."""
    parser = argparse.ArgumentParser(prog="python -m course_utils.record", description=main.__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path.cwd())
    parser.add_argument("--seconds", type=float, default=60.0, help="time to spend, about")
    asked = parser.parse_args(arguments)
    try:
        print("written:", record(asked.folder, budget=asked.seconds))
    except (OSError, RuntimeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
