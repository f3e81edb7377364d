"""How long a function takes, and whether that can be trusted.

Single calls are timed one by one, and the first is not counted (it pays for allocation and caches).
On CUDA, where a call returns before its work is done, the device's own clock times each call by a
pair of events in its queue; another accelerator is waited for after each call. A processor that is
shared with another program shows in three ways: threads stand ready and wait for a processor, the
process gets less processor time than wall time, or calls of the same work vary.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import perf_counter

import torch

from course_utils import hardware, units
from course_utils.arguments import function, number, positive
from course_utils.measure import contention
from course_utils.measure.guard import alone
from course_utils.measure.quantity import Measured

MIN_SAMPLES = 5
MAX_SAMPLES = 10_000
QUEUED = 20  # calls on CUDA between two waits: while the queue is full, launching costs no gap
STABLE = 1.5  # median over minimum above this: calls of the same work differ too much


@dataclass(frozen=True, repr=False)
class Time(Measured):
    """Seconds of single calls in the order they ran; the warm-up call is not among them.

    If the warm-up call alone took the whole budget, it is the one sample, and `warm` is False.
    """

    samples: tuple[float, ...]
    threads: int
    device: str
    doubt: str = ""
    warm: bool = True
    unit: str = "s"

    @property
    def median(self) -> float:
        """The middle sample, in seconds: what a typical call takes."""
        return median(self.samples)

    @property
    def minimum(self) -> float:
        """The fastest sample, in seconds: the least disturbed call."""
        return min(self.samples)

    @property
    def value(self) -> float:
        """The number to compare with a prediction: the least disturbed call, in seconds.

        A prediction speaks of the machine alone, so the minimum is its counterpart; how far the
        median lies above it decides whether the measurement is trusted.
        """
        return self.minimum

    def shown(self) -> str:
        """The fastest call, how many there were, and the median, on one line."""
        fastest, typical = (
            units.duration(seconds, significant=3) for seconds in (self.minimum, self.median)
        )
        trust = "" if self.doubt else ", trusted"
        words = f"{fastest} (fastest of {len(self.samples)} calls, median {typical}{trust})"
        return units.measured(units.unsure(words, self.doubt))


def time(
    fn: Callable[[], object],
    *,
    budget: float = 0.5,
    device: str | torch.device | None = None,
    threads: int | None = None,
) -> Time:
    """Time single calls of `fn` for about `budget` seconds, after one call that is not counted.

    `device` names where `fn` computes ('cpu', 'cuda', 'mps'); by default the accelerator if the
    machine has one. On CUDA its work must be in the current stream, where events time it.
    `threads` limits PyTorch's processor threads during the calls, to at most one per logical
    processor; one thread is hardly disturbed by a busy core beside it. The warm-up counts against
    the wall-clock budget, so that the whole takes at most the budget and one call (on CUDA, whose
    calls are queued in blocks, longer if they become slower). An error that `fn` raises reaches the
    caller unchanged.
    """
    function("fn", fn, "time(lambda: x @ w)")
    positive("budget", budget)
    where, threads = hardware.device_type(device), known_threads(threads)
    wait, block = _waiting(where), QUEUED if where == "cuda" else 1
    run = partial(_by_events, fn) if where == "cuda" else partial(_by_wall_clock, fn, wait)
    with alone("time"), _limited(threads) as used:
        wait()
        start = perf_counter()
        cold = run(1)
        left = budget - (perf_counter() - start)
        if left <= 0:
            reason = "one cold call took the whole budget"
            return Time(tuple(cold), used, where, reason, warm=False)
        samples, load = _sample(run, block, left)
    return Time(tuple(samples), used, where, _doubt(samples, load, where, used))


def known_threads(threads: int | None) -> int | None:
    """`threads` if the machine has that many processors; far more can end the whole process."""
    if threads is None:
        return None
    return number("threads", threads, at_least=1, at_most=os.cpu_count(), whole=True)


@contextmanager
def _limited(threads: int | None) -> Iterator[int]:
    """Set PyTorch's threads to `threads` in this block, or leave them if None; yields how many."""
    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        yield torch.get_num_threads()
    finally:
        torch.set_num_threads(before)


def _waiting(device: str) -> Callable[[], None]:
    if device == "cpu":
        return lambda: None
    return lambda: torch.accelerator.synchronize(device)


def _by_wall_clock(fn: Callable[[], object], wait: Callable[[], None], calls: int) -> list[float]:
    """Seconds of each of `calls` calls, from its start until its work is done."""
    samples = []
    for _ in range(calls):
        start = perf_counter()
        fn()
        wait()
        samples.append(perf_counter() - start)
    return samples


def _by_events(fn: Callable[[], object], calls: int) -> list[float]:
    """Seconds that the CUDA device spent on each of `calls` calls, waited for together."""
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(calls)]
    for start, end in pairs:
        start.record()
        fn()
        end.record()
    pairs[-1][1].synchronize()
    return [start.elapsed_time(end) / 1000 for start, end in pairs]


def _sample(
    run: Callable[[int], list[float]], block: int, budget: float
) -> tuple[list[float], contention.Load]:
    """Seconds of each call, at most `block` calls at a time, and the load while they ran."""
    samples, calls = [], 1
    watch, began = contention.Watch(), perf_counter()
    while calls > 0 and len(samples) < MAX_SAMPLES:
        start = perf_counter()
        samples += run(calls)
        end = perf_counter()
        each = max(end - start, 1e-9) / calls  # a coarse clock may not move
        calls = int(min(block, (budget - (end - began)) / each))
    return samples, watch.load()


def _doubt(samples: list[float], load: contention.Load, device: str, threads: int) -> str:
    """Why these samples are not to be trusted, or '' if nothing speaks against them."""
    if device == "cpu" and (shared := load.doubt(threads)):
        return shared
    if len(samples) < MIN_SAMPLES:
        return f"only {len(samples)} call{'s' * (len(samples) > 1)} fitted into the budget"
    if median(samples) > STABLE * min(samples):
        return f"a typical call took {median(samples) / min(samples):.1f} times the fastest"
    return ""
