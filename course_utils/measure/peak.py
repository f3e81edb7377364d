"""The rate a machine can be held to: the datasheet's promise, or its own best matrix product."""

from dataclasses import dataclass
from time import perf_counter

import torch

from course_utils import hardware, units
from course_utils.arguments import positive
from course_utils.measure.clock import time
from course_utils.predict import matmul_flops

SIZES = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
GROWTH = 12  # doubling n costs 8 times the work; the rest is safety


@dataclass(frozen=True)
class Peak:
    """FLOP/s to compare with; `kind` is 'promised' or 'measured', `size` the best n if measured."""

    value: float
    kind: str
    source: str
    dtype: str
    accumulate: str = "fp32"
    size: int | None = None

    def __repr__(self) -> str:
        return units.measured(
            f"{units.rate(self.value, significant=3)} {self.dtype}, {self.source}"
        )


def peak(
    device: str | None = None, dtype: torch.dtype = torch.float32, *, budget: float = 1.0
) -> Peak:
    """The peak rate of matrix products in float32, bfloat16 or float16 on this machine.

    Where the device's whole name is in the datasheet table, the promise (dense, fp32 accumulation;
    TF32's figure when fp32 products are set to run as TF32). Elsewhere the best of square products
    of growing size, as many as fit into `budget` seconds: a floor, since a better size may exist.
    """
    kind = hardware.dtype_name(dtype)
    positive("budget", budget)
    machine = hardware.machine()
    where = device or machine.backend
    if machine.promise and where == machine.backend:
        kind = "tf32" if kind == "fp32" and _runs_as_tf32() else kind
        promised = machine.promise.promised(kind)
        if promised:
            return Peak(promised, "promised", machine.promise.source, kind)
    return best_matmul(where, dtype, budget=budget)


def best_matmul(
    device: str = "cpu", dtype: torch.dtype = torch.float32, *, budget: float = 1.0
) -> Peak:
    """The fastest square product found in about `budget` seconds, smallest sizes first."""
    began, found, cost = perf_counter(), [], 0.0
    for n in SIZES:
        if found and GROWTH * cost > budget - (perf_counter() - began):
            break
        fastest = _fastest(n, dtype, device, budget / len(SIZES))
        found.append((matmul_flops(n, n, n) / fastest, n))
        cost = fastest * 2  # one warm-up and one timed call
    rate, size = max(found)
    source = f"measured here (n = {size}), no datasheet used"
    return Peak(rate, "measured", source, hardware.dtype_name(dtype), size=size)


def _fastest(n: int, dtype: torch.dtype, device: str, budget: float) -> float:
    """Seconds of the fastest n×n product of random numbers."""
    x, w = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
    return time(lambda: x @ w, budget=budget, device=device).minimum


def _runs_as_tf32() -> bool:
    return torch.cuda.is_available() and torch.get_float32_matmul_precision() != "highest"
