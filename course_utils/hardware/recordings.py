"""Recorded runs: what other machines measured, read from the JSON files in `machines/`.

`python -m course_utils.measure.record` writes such a file for this machine.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable

from course_utils import units
from course_utils.arguments import one_of
from course_utils.hardware.this_machine import DTYPES
from course_utils.table import Table, table


@dataclass(frozen=True)
class Run:
    """One machine's record, rates in FLOP/s and B/s.

    `products` maps a number format to the seconds that an n × n matmul took, by n. `accelerator`
    has what a processor lacks, as far as the device has it: 'tf32' (FLOP/s of fp32 matmuls that run
    as TF32), 'block' (bytes that the allocator hands out for 4), 'call' and 'device' (seconds of
    one small operation, from Python and on the device), 'pageable' and 'pinned' (B/s of copies from
    the processor's memory), 'kernels' and 'gaps' (how many a small training step launches, and the
    share of its time in which the device waits).
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
    accelerator: dict[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The device's name; for a processor, with the number of cores that were used."""
        cores = f", {units.digits(self.cores)} cores" if self.backend == "cpu" else ""
        return f"{self.device}{cores}"


def runs() -> tuple[Run, ...]:
    """The runs that the package ships, by file name; the tests check what each file holds."""
    folder = files("course_utils.hardware").joinpath("machines")
    found = sorted(folder.iterdir(), key=lambda path: path.name)
    return tuple(read_run(path) for path in found if path.name.endswith(".json"))


# What `elsewhere` shows of a run: None where the run has no such figure.
QUANTITIES: dict[str, Callable[[Run], str | None]] = {
    "fp32 matmuls as TF32": lambda run: _ratio(run.accelerator.get("tf32"), run.peaks["fp32"]),
    "bf16 matmuls": lambda run: _ratio(run.peaks.get("bf16"), run.peaks["fp32"]),
    "a tensor of 4 bytes": lambda run: _bytes(run.accelerator.get("block")),
    "launching": lambda run: _launch(**run.accelerator),
    "pinned copies": lambda run: _copies(**run.accelerator),
    "a small training step": lambda run: _step(**run.accelerator),
}


def elsewhere(quantity: str) -> Table:
    """What recorded machines have that the one at hand may lack: one of `QUANTITIES`.

    As long as no GPU is recorded, a row says so.
    """
    told = QUANTITIES[one_of("quantity", quantity, QUANTITIES)]
    found = [(run, words) for run in runs() if (words := told(run))]
    rows = [(run.name, run.date, words) for run, words in found]
    if all(run.backend == "cpu" for run, _ in found):
        rows.append(("a GPU", "not recorded yet", "–"))
    return table(("machine", "recorded", quantity), rows, title="Recorded elsewhere")


def recorded() -> Table:
    """The runs of `runs()` as a table: what other machines measured, not this one."""
    rows = [
        (
            run.name,
            run.date,
            *(_rate(run.peaks.get(kind)) for kind in DTYPES),
            units.rate(run.bandwidth, unit="B/s", significant=3),
            f"{units.digits(run.peaks['fp32'] / run.bandwidth, 3)} FLOPs per byte",
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


def _ratio(value: float | None, base: float) -> str | None:
    """A rate and how many times the rate of plain fp32 it is."""
    if value is None:
        return None
    return f"{_rate(value)}, {units.ratio(value / base)} that of plain fp32"


def _bytes(value: float | None) -> str | None:
    return None if value is None else f"{value:,.0f} bytes of memory"


def _launch(call: float | None = None, device: float | None = None, **_: float) -> str | None:
    """Both times of a small operation."""
    if call is None or device is None:
        return None
    called, worked = (units.duration(seconds, significant=2) for seconds in (call, device))
    return f"{called} a call, of which the device works {worked}"


def _copies(pageable: float | None = None, pinned: float | None = None, **_: float) -> str | None:
    """The rate from pinned memory, and how many times the one from pageable memory it is."""
    if pageable is None or pinned is None:
        return None
    rate = units.rate(pinned, unit="B/s", significant=3)
    return f"{rate}, {units.ratio(pinned / pageable)} that from pageable memory"


def _step(kernels: float | None = None, gaps: float | None = None, **_: float) -> str | None:
    if kernels is None or gaps is None:
        return None
    return f"{kernels:.0f} kernels, and the device waits for {gaps:.0%} of the time"


def _rate(value: float | None) -> str:
    return units.rate(value, significant=3)
