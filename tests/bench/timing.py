"""Time: the course's clock against torch.utils.benchmark, alone and beside a busy program."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter, sleep

import torch
from torch.utils.benchmark import Measurement, Timer

from course_utils import hardware, measure, units
from course_utils.measure import Time
from course_utils.table import Table, table
from tests.bench.report import Figure, Section, worst
from tests.quiet import watch

SIZES = (256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384)
TAKEN = 3  # sizes that are compared
LONG = 1e-3  # seconds that the work must take at least
ROUNDS = 5
BUDGET = 0.2  # seconds for each measurement, of either instrument
NOISE = 0.05  # spreads that differ by less are the same
BUSY_BUDGET = 0.5  # the clock's own default: beside a busy program more calls find a quiet moment
NEIGHBOUR = """
import time
print("spinning", flush=True)
end = time.time() + 60
while time.time() < end: pass
"""


@dataclass
class Rounds:
    """What five interleaved rounds found for one size."""

    n: int
    ours: list[Time] = field(default_factory=list)
    theirs: list[Measurement] = field(default_factory=list)
    triton: list[float | str] = field(default_factory=list)

    def medians(self) -> tuple[list[float], list[float]]:
        """Our medians and blocked_autorange's, in seconds."""
        return [t.median for t in self.ours], [m.median for m in self.theirs]

    def fastest(self) -> float:
        """Our fastest call of all rounds, in seconds."""
        return min(t.minimum for t in self.ours)

    def flagged(self) -> int:
        """How many of our measurements said that they are not to be trusted."""
        return sum(not t.trusted for t in self.ours)


def spread(values: list[float]) -> float:
    """The largest over the smallest."""
    return max(values) / min(values)


def product(n: int, device: str) -> Callable[[], torch.Tensor]:
    """The work: a square product in fp32."""
    x, w = (torch.randn(n, n, device=device) for _ in range(2))
    return lambda: x @ w


def long_enough(device: str) -> list[int]:
    """The first sizes whose product takes a millisecond or more."""
    found: list[int] = []
    for n in SIZES:
        if measure.time(product(n, device), budget=0.05, device=device).minimum >= LONG:
            found.append(n)
        if len(found) == TAKEN:
            break
    return found


def rounds(sizes: list[int], device: str, budget: float = BUDGET) -> list[Rounds]:
    """Five rounds for each size, the instruments in turn; `budget` seconds for ours."""
    taken = [(Rounds(n), product(n, device)) for n in sizes]
    for turn in range(ROUNDS):
        for found, work in taken:
            clocks = [lambda f, w: f.ours.append(measure.time(w, budget=budget, device=device)),
                      lambda f, w: f.theirs.append(_blocked(w))]  # fmt: skip
            for clock in clocks if turn % 2 else reversed(clocks):
                clock(found, work)
            if device == "cuda":
                found.triton.append(_do_bench(work))
    return [found for found, _ in taken]


def _blocked(work: Callable[[], object]) -> Measurement:
    timer = Timer("work()", globals={"work": work}, num_threads=torch.get_num_threads())
    return timer.blocked_autorange(min_run_time=BUDGET)


def _do_bench(work: Callable[[], object]) -> float | str:
    """Triton's median in seconds, or what went wrong in words."""
    try:
        from triton.testing import do_bench

        return do_bench(work, return_mode="median") / 1e3
    except ImportError:
        return "not installed"
    except Exception as error:  # whatever a peer raises is its answer
        return f"failed: {type(error).__name__}"


def _triton(found: list[float | str]) -> str:
    """The cell for triton: its median, or why there is none."""
    words = [entry for entry in found if isinstance(entry, str)]
    return words[0] if words else units.duration(median(found)) if found else "no CUDA"


@contextmanager
def busy_neighbours() -> Iterator[int]:
    """One spinning process for every core but one; yields how many. They end by themselves too."""
    count = max(1, round(hardware.usable_cores()) - 1)
    command = [sys.executable, "-c", NEIGHBOUR]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(count)]
    try:
        for process in running:
            process.stdout.readline()
        yield count
    finally:
        for process in running:
            process.kill()
            process.communicate()


def alone(device: str) -> tuple[Table, tuple[Figure, ...], list[Rounds]]:
    """Both clocks on a machine that has nothing else to do."""
    sizes = long_enough(device)
    with watch() as seen:
        found = rounds(sizes, device)
    head = ("n", "ours, median of five", "blocked_autorange", "ratio", "spread, ours",
            "spread, blocked_autorange", "do_bench", "not trusted")  # fmt: skip
    note = f"Of the processors {seen.share:.0%} went elsewhere meanwhile."
    shown = table(head, [_row(r) for r in found], title=f"On {device}, alone", note=note)
    return shown, _figures(found, device, seen.share), found


def _row(found: Rounds) -> list[str]:
    ours, theirs = found.medians()
    return [
        f"{found.n:,}",
        units.duration(median(ours)),
        units.duration(median(theirs)),
        f"{median(ours) / median(theirs):.3f}",
        f"{spread(ours):.3f}",
        f"{spread(theirs):.3f}",
        _triton(found.triton),
        f"{found.flagged()} of {ROUNDS}",
    ]


def _figures(found: list[Rounds], device: str, elsewhere: float) -> tuple[Figure, ...]:
    pairs = [r.medians() for r in found]
    ratios = [median(ours) / median(theirs) for ours, theirs in pairs]
    spreads = [(spread(ours), spread(theirs)) for ours, theirs in pairs]
    steady = all(ours <= theirs + NOISE for ours, theirs in spreads)
    off = max(abs(ratio - 1) for ratio in ratios)
    beside = ", ".join(f"{ours:.2f} and {theirs:.2f}" for ours, theirs in spreads)
    return (
        Figure(f"time on {device}: median over blocked_autorange's",
               f"{worst(ratios):.3f} at worst", "within 10 %", off <= 0.1, elsewhere),
        Figure(f"time on {device}: spread and blocked_autorange's", beside,
               f"no worse (by more than {NOISE})", steady, elsewhere),
    )  # fmt: skip


def one_thread(sizes: list[int]) -> list[Rounds]:
    """Our five rounds for each size with one thread of PyTorch's."""
    works = [(Rounds(n), product(n, "cpu")) for n in sizes]
    for _ in range(ROUNDS):
        for found, work in works:
            found.ours.append(measure.time(work, budget=BUDGET, device="cpu", threads=1))
    return [found for found, _ in works]


def beside(quiet: list[Rounds], elsewhere: float) -> tuple[Table, tuple[Figure, ...]]:
    """Both clocks on the processor beside a busy program on every other core.

    With all threads the shortest product is judged, which fits into one turn of the scheduler. A
    longer one ends with its slowest thread, which shares its core with the busy program: no clock
    can see less than the note under the table says. With one thread every size is judged.
    """
    sizes = [r.n for r in quiet]
    calm = one_thread(sizes)
    with busy_neighbours() as count:
        found, single = rounds(sizes, "cpu", BUSY_BUDGET), one_thread(sizes)
    with watch() as after:  # whether the machine is still quiet
        sleep(0.5)
    elsewhere = max(elsewhere, after.share)
    ratios = [_slowest(busy, alone) for busy, alone in zip(found, quiet, strict=True)]
    singles = [_slowest(busy, alone) for busy, alone in zip(single, calm, strict=True)]
    head = ("n", "flagged by ours", "our slowest minimum / quiet", "the same with one thread",
            "our median / quiet", "warned by blocked_autorange",
            "blocked_autorange's median / quiet")  # fmt: skip
    rows = [_busy_row(*row) for row in zip(found, quiet, ratios, singles, strict=True)]
    title = f"On cpu, beside {count} busy process{'es' * (count > 1)}"
    flagged, runs = sum(r.flagged() for r in found), ROUNDS * len(found)
    threads, cores = torch.get_num_threads(), hardware.usable_cores()
    least = (threads + count) / cores
    note = (
        f"{threads} threads and {count} busy beside them on {cores:g} cores: with equal shares a "
        f"call that outlasts a turn of the scheduler takes at least {least:.2f} times as long, and "
        "twice if its threads stay on their cores. Only a shorter call escapes; it is judged."
    )
    figures = (
        Figure("beside a busy process: flagged", f"{flagged} of {runs}", "every time",
               flagged == runs, elsewhere),
        Figure(f"beside a busy process: minimum over the quiet one, n = {sizes[0]}",
               f"{ratios[0]:.2f}", "≤ 1.6", ratios[0] <= 1.6, elsewhere),
        Figure("the same with one thread, every n", ", ".join(f"{value:.2f}" for value in singles),
               "≤ 1.6", max(singles) <= 1.6, elsewhere),
    )  # fmt: skip
    return table(head, rows, title=title, note=note), figures


def _slowest(busy: Rounds, quiet: Rounds) -> float:
    """The worst of five minima over the quiet minimum."""
    return max(t.minimum for t in busy.ours) / quiet.fastest()


def _busy_row(busy: Rounds, quiet: Rounds, ratio: float, single: float) -> list[str]:
    (ours, theirs), (calm_ours, calm_theirs) = busy.medians(), quiet.medians()
    return [
        f"{busy.n:,}",
        f"{busy.flagged()} of {ROUNDS}",
        f"{ratio:.2f}",
        f"{single:.2f}",
        f"{median(ours) / median(calm_ours):.2f}",
        f"{sum(m.has_warnings for m in busy.theirs)} of {ROUNDS}",
        f"{median(theirs) / median(calm_theirs):.2f}",
    ]


def budgets() -> tuple[Table, Figure]:
    """What one call of the clock costs: at most its budget and one call of the function."""
    works = {"product, n = 512": product(512, "cpu"), "20 ms of waiting": lambda: sleep(0.02),
             "150 ms of waiting": lambda: sleep(0.15), "nothing": lambda: None}  # fmt: skip
    with watch() as seen:
        rows = [(name, *_cost(work, 0.1)) for name, work in works.items()]
    over = max(row[-1] for row in rows)
    cells = [(name, *map(units.duration, seconds), f"{left * 1e3:+.2f} ms")
             for name, *seconds, left in rows]  # fmt: skip
    head = ("function", "budget", "took", "longest call", "beyond budget + one call")
    figure = Figure("cost beyond budget + one call", f"{over * 1e3:+.2f} ms at most",
                    "≤ 0, 1 ms for the instrument", over <= 1e-3, seen.share)  # fmt: skip
    return table(head, cells, title="What one call costs"), figure


def _cost(work: Callable[[], object], budget: float) -> tuple[float, float, float, float]:
    """The budget, what the measurement took, its longest call, and what was beyond both."""
    calls: list[float] = []

    def watched() -> None:
        began = perf_counter()
        work()
        calls.append(perf_counter() - began)

    began = perf_counter()
    measure.time(watched, budget=budget, device="cpu")
    took = perf_counter() - began
    return budget, took, max(calls), took - budget - max(calls)


def section() -> Section:
    """The time part of the report: the processor, and the accelerator if there is one."""
    torch.manual_seed(0)
    shown, figures, quiet = alone("cpu")
    busy, more = beside(quiet, figures[0].elsewhere)
    cost, last = budgets()
    tables, all_figures = [shown, busy, cost], [*figures, *more, last]
    if hardware.backend() != "cpu":
        faster, extra, _ = alone(hardware.backend())
        tables.append(faster)
        all_figures += extra
    return Section("Time", tuple(tables), tuple(all_figures))
