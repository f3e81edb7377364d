"""Record what this machine can do: `python -m course_utils.measure.record`.

It measures the machine's bounds and its matmuls in each number format and writes one small JSON
file. The chapters show such runs of other machines beside the learner's own: `hardware.recorded()`.
"""

import argparse
import json
import os
import platform
import re
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path

import torch
from torch import nn

from course_utils import hardware, measure
from course_utils.arguments import positive
from course_utils.table import first_doubt

SIZES = (64, 128, 256, 512, 1024, 2048, 4096, 8192)


def record(folder: Path, *, budget: float = 60.0) -> Path:
    """Measure this machine for about `budget` seconds and write the run into `folder`.

    Everything is measured, even where a datasheet gives a peak. Raises OSError at once if `folder`
    cannot be written into, and RuntimeError, without writing, if the machine is too busy for the
    peak or the bandwidth to be trusted.
    """
    third = positive("budget", budget) / 3
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise OSError(f"folder must be a folder that can be written into, got {folder}")
    device, machine = hardware.backend(), hardware.machine()
    refused = {} if device == "cpu" else hardware.refusals(device)
    dtypes = {name: dtype for name, dtype in hardware.DTYPES.items() if name not in refused}
    sweep = measure.sweep(
        {name: _product(dtype, device) for name, dtype in dtypes.items()},
        SIZES,
        budget=2 * third,
        work=lambda n: n**3,
    )
    for _ in sweep:
        pass
    peaks = {
        name: measure.measured_peak(device, dtype, budget=third / 4)
        for name, dtype in dtypes.items()
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
        "accelerator": {} if device == "cpu" else _accelerator(device, third / 4),
    }
    return _write(run, folder)


def _product(dtype: torch.dtype, device: str) -> Callable[[int], Callable[[], object]]:
    def prepare(n: int) -> Callable[[], object]:
        x, w = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
        return lambda: x @ w

    return prepare


def _accelerator(device: str, budget: float) -> dict[str, float]:
    """What only an accelerator has, as far as this one has it: see `hardware.Run`."""
    module, one = torch.get_device_module(device), torch.ones(1, device=device)
    start = measure.time(lambda: one.add_(1), budget=budget)
    found = {"call": start.per_call, "device": start.value} if start.clock == "device" else {}
    if hasattr(module, "memory_allocated"):
        before = module.memory_allocated()
        kept = torch.ones(1, device=device)
        found["block"] = float(module.memory_allocated() - before)
        del kept
    if device == "cuda" and torch.cuda.get_device_capability() >= (8, 0):
        found["tf32"] = _as_tf32(device, budget)
    return found | _copies(device, budget) | _step(device, budget)


def _copies(device: str, budget: float) -> dict[str, float]:
    """B/s from the kinds of the processor's memory that this device can copy from."""
    found = measure.host_copies(device=device, budget=budget)
    rates = {"pageable": found.pageable, "pinned": found.pinned}
    return {kind: rate.value for kind, rate in rates.items() if rate is not None}


def _step(device: str, budget: float) -> dict[str, float]:
    """What a training step of a byte bigram launches; nothing where that cannot be seen."""
    model = nn.Sequential(nn.Embedding(256, 64), nn.Linear(64, 256)).to(device)
    adamw = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(256, (16 * 64,), device=device)

    def step() -> None:
        adamw.zero_grad()
        nn.functional.cross_entropy(model(tokens), tokens).backward()
        adamw.step()

    found = measure.kernels(step, device=device, budget=budget)
    return {"kernels": float(found.launched), "gaps": found.gaps} if found.launched else {}


def _as_tf32(device: str, budget: float) -> float:
    """The peak of fp32 matmuls when they are set to run as TF32."""
    matmul = torch.backends.cuda.matmul
    before, matmul.fp32_precision = matmul.fp32_precision, "tf32"
    try:
        return measure.measured_peak(device, budget=budget).value
    finally:
        matmul.fp32_precision = before


def _insist(results: list) -> None:
    if doubt := first_doubt(*results):
        raise RuntimeError(f"the machine is too busy to be recorded: {doubt}")


def _write(run: dict, folder: Path) -> Path:
    slug = re.sub(r"[^a-z0-9]+", "-", f"{run['device']} {run['cores']:g} cores".lower()).strip("-")
    path = folder / f"{slug}.json"
    path.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    return path


def main(arguments: list[str] | None = None) -> int:
    """The command: record this machine, into a folder of your choice."""
    prog = "python -m course_utils.measure.record"
    parser = argparse.ArgumentParser(prog=prog, description=main.__doc__)
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
