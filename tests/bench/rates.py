"""The peak: how long it takes to find, and whether any product beats it."""

from time import perf_counter

import torch

from course_utils import measure, units
from course_utils.hardware import backend
from course_utils.measure import Peak
from course_utils.predict import matmul_flops
from course_utils.session import session
from course_utils.table import Table, table
from tests.bench.report import Figure, Section
from tests.bench.timing import product
from tests.quiet import watch

SIZES = (64, 128, 256, 512, 1024, 2048)
BUDGET = 0.3


def _found() -> tuple[Peak, float]:
    """The peak as a fresh kernel finds it, and the seconds that took."""
    session.peaks.clear()
    began = perf_counter()
    return measure.reference_peak(), perf_counter() - began


def _mfus(peak: Peak, device: str) -> dict[int, float]:
    """The fastest product of each size over the peak."""
    mfus = {}
    for n in SIZES:
        took = measure.time(product(n, device), budget=BUDGET, device=device)
        mfus[n] = matmul_flops(n, n, n) / took.minimum / peak.value
    return mfus


def section() -> Section:
    """The peak part of the report."""
    torch.manual_seed(0)
    with watch() as seen:
        peak, took = _found()
        mfus = _mfus(peak, backend())
    top = max(mfus.values())
    figures = (
        Figure("peak: seconds to find it", f"{took:.2f}", "≤ 5", took <= 5, seen.share),
        Figure("peak: MFU of products against it", f"{top:.3f} at most", "≤ 1.05", top <= 1.05,
               seen.share),
    )  # fmt: skip
    return Section("Peak", (_table(peak, took, mfus, seen.share),), figures)


def _table(peak: Peak, took: float, mfus: dict[int, float], elsewhere: float) -> Table:
    rows = [(f"{n:,}", units.rate(mfu * peak.value), f"{mfu:.3f}") for n, mfu in mfus.items()]
    trust = "trusted" if peak.trusted else f"unsure ({peak.doubt})"
    note = (
        f"Peak: {units.rate(peak.value)}, {peak.source}, {trust}, found in {took:.2f} s. "
        f"Of the processors {elsewhere:.0%} went elsewhere meanwhile."
    )
    return table(("n", "rate of the fastest call", "over the peak"), rows, note=note)
