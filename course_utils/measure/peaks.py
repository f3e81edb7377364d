"""The rate a machine can be held to: the peak of its datasheet, or its own fastest matmul."""

from dataclasses import dataclass, replace
from time import perf_counter

import torch

from course_utils import hardware, units
from course_utils.arguments import positive
from course_utils.measure.clock import Time, time
from course_utils.measure.quantity import Measured
from course_utils.predict import matmul_flops
from course_utils.session import session

SIZES = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
GROWTH = 12  # doubling n costs 8 times the work; the rest is safety
CLOSE = 0.9  # an undisturbed rate of at least this share of the highest one confirms it


@dataclass(frozen=True, repr=False)
class Peak(Measured):
    """FLOP/s to compare with; `kind` is 'datasheet' or 'measured', `size` the best n if measured.

    `accumulate` is the format in which a matmul's sums are kept: fp32 in every datasheet figure of
    the table, and PyTorch's default where the rate was measured.
    """

    value: float
    kind: str
    source: str
    dtype: str
    size: int | None = None
    doubt: str = ""
    accumulate: str = "fp32"

    def shown(self) -> str:
        """The rate, its format and where it comes from, on one line."""
        where = "from the datasheet" if self.kind == "datasheet" else self.source
        words = f"{units.rate(self.value, significant=3)} {self.dtype}, {where}"
        return units.measured(units.unsure(words, self.doubt))


def reference_peak(
    device: str | torch.device | None = None,
    dtype: torch.dtype = torch.float32,
    *,
    budget: float = 2.0,
) -> Peak:
    """The peak to compare with: the datasheet's if this device has one, else a measured one.

    For float32, bfloat16 or float16. The datasheet's figures are dense, with sums in fp32; TF32's
    counts when fp32 matmuls are set to run as TF32. See `measured_peak`.
    """
    where, promised = hardware.device_type(device), hardware.datasheet_peak(dtype)
    positive("budget", budget)
    if promised and where == hardware.backend():
        source = hardware.promise().source
        return Peak(promised, "datasheet", source, hardware.dtype_name(dtype))
    return measured_peak(where, dtype, budget=budget)


def measured_peak(
    device: str | torch.device | None = None,
    dtype: torch.dtype = torch.float32,
    *,
    budget: float = 2.0,
) -> Peak:
    """The fastest square matmul of random numbers found so far, after `budget` more seconds.

    Sizes grow from 64 as far as the budget allows. What this kernel found earlier, with as many
    threads and the same settings of precision, counts too: a rate that was reached once can be
    reached. It is a floor, since a better size may exist. A rate
    from a disturbed timing is trusted as soon as an undisturbed one confirms it: see `_highest`.
    """
    where, name = hardware.device_type(device), hardware.dtype_name(dtype)
    share = positive("budget", budget) / len(SIZES)
    began, found, cost = perf_counter(), [], 0.0
    for n in SIZES:
        if found and GROWTH * cost > budget - (perf_counter() - began):
            break
        start = perf_counter()
        took = _product(n, dtype, where, share)
        found.append(_rate(name, n, took))
        cost = max(took.value, perf_counter() - start - share)  # at least one call
    key = (where, name, *_settings(where))
    known = session.peaks.get(key)
    session.peaks[key] = _highest([*found, known] if known else found)
    return session.peaks[key]


def _settings(device: str) -> tuple:
    """All that changes how fast the same matmul may run here."""
    matmul = torch.backends.cuda.matmul
    narrow = [getattr(matmul, f"allow_{name}_reduced_precision_reduction", None)
              for name in ("fp16", "bf16")]  # fmt: skip
    if device == "cpu":
        onednn = getattr(torch.backends.mkldnn, "matmul", None)  # how it may shorten fp32
        return (torch.get_num_threads(), getattr(onednn, "fp32_precision", None))
    return (torch.accelerator.current_device_index(), hardware.runs_as_tf32(), *map(str, narrow))


def _highest(found: list[Peak]) -> Peak:
    """The highest rate; trusted if a trusted one is of the same size or almost as high.

    A disturbance makes calls slower, never faster, so a disturbed rate can only be too low. It
    therefore stands against lower trusted ones (a matmul that reached it would exceed the peak
    otherwise), and it is confirmed by a trusted rate of the same size, or of another that comes
    close to it.
    """
    best = max(found, key=lambda peak: peak.value)
    near = (p for p in found if p.size == best.size or p.value >= CLOSE * best.value)
    if best.trusted or not any(p.trusted for p in near):
        return best
    return replace(best, doubt="")


def _product(n: int, dtype: torch.dtype, device: str, budget: float) -> Time:
    x, w = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
    return time(lambda: x @ w, budget=budget, device=device)


def _rate(name: str, n: int, took: Time) -> Peak:
    source = f"measured here (n = {n})"
    rate = matmul_flops(n, n, n) / took.value
    return Peak(rate, "measured", source, name, n, took.doubt)
