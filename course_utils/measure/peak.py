"""The rate a machine can be held to: the datasheet's promise, or its own best matrix product."""

from dataclasses import dataclass
from time import perf_counter

import torch

from course_utils import hardware, units
from course_utils.arguments import positive
from course_utils.measure.clock import Time, time
from course_utils.predict import matmul_flops
from course_utils.session import session

SIZES = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
GROWTH = 12  # doubling n costs 8 times the work; the rest is safety


@dataclass(frozen=True)
class Peak:
    """FLOP/s to compare with; `kind` is 'promised' or 'measured', `size` the best n if measured.

    `accumulate` is the format in which products are added up: fp32 in every promise of the table,
    and PyTorch's default where the rate was measured.
    """

    value: float
    kind: str
    source: str
    dtype: str
    size: int | None = None
    trusted: bool = True
    reason: str = ""
    accumulate: str = "fp32"

    def __repr__(self) -> str:
        doubt = "" if self.trusted else f" (unsure: {self.reason})"
        rate = units.rate(self.value, significant=3)
        return units.measured(f"{rate} {self.dtype}, {self.source}{doubt}")


def peak(
    device: str | torch.device | None = None,
    dtype: torch.dtype = torch.float32,
    *,
    budget: float = 2.0,
) -> Peak:
    """The peak rate of matrix products in float32, bfloat16 or float16 on this machine.

    Where the device's whole name is in the datasheet table, the promise (dense, fp32 accumulation;
    TF32's figure when fp32 products are set to run as TF32). Elsewhere the best product that was
    ever measured in this kernel: see `best_matmul`.
    """
    where, promised = hardware.device_type(device), hardware.promised(dtype)
    positive("budget", budget)
    if promised and where == hardware.backend():
        source = hardware.machine().promise.source
        return Peak(promised, "promised", source, hardware.dtype_name(dtype))
    return best_matmul(where, dtype, budget=budget)


def best_matmul(
    device: str | torch.device | None = None,
    dtype: torch.dtype = torch.float32,
    *,
    budget: float = 2.0,
) -> Peak:
    """The fastest square product of random numbers found so far, after `budget` more seconds.

    Sizes grow from 64 as far as the budget allows. What this kernel found earlier counts too: a
    rate that was reached once can be reached. It is a floor, since a better size may exist.
    """
    where, name = hardware.device_type(device), hardware.dtype_name(dtype)
    positive("budget", budget)
    began, found, cost = perf_counter(), [], 0.0
    for n in SIZES:
        if found and GROWTH * cost > budget - (perf_counter() - began):
            break
        start = perf_counter()
        found.append((n, _product(n, dtype, where, budget / len(SIZES))))
        cost = max(0.0, perf_counter() - start - budget / len(SIZES))
    best = max((_rate(name, n, took) for n, took in found), key=lambda peak: peak.value)
    known = session.peaks.get((where, name), best)
    session.peaks[where, name] = max(best, known, key=lambda peak: peak.value)
    return session.peaks[where, name]


def _product(n: int, dtype: torch.dtype, device: str, budget: float) -> Time:
    x, w = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
    return time(lambda: x @ w, budget=budget, device=device)


def _rate(name: str, n: int, took: Time) -> Peak:
    source = f"measured here (n = {n})"
    rate = matmul_flops(n, n, n) / took.value
    return Peak(rate, "measured", source, name, n, took.trusted, took.reason)
