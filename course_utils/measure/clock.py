"""How long a function takes, and whether that can be trusted.

Single calls are timed one by one, and the first is not counted (it pays for allocation and caches).
On CUDA, where a call returns before its work is done, the device's own clock times each call in its
queue (`queued`); another accelerator is waited for after each call. A processor that is
shared with another program shows in three ways: threads stand ready and wait for a processor, the
process gets less processor time than wall time, or calls of the same work vary.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter

import torch

from course_utils import hardware, units
from course_utils.arguments import finished, function, number, positive
from course_utils.measure import contention, gpu_neighbours
from course_utils.measure.guard import alone
from course_utils.measure.quantity import Measured
from course_utils.measure.queued import BLOCK, Queue

MIN_SAMPLES = 5
MAX_SAMPLES = 10_000
NOTHING = 3e-6  # seconds on the device that two events around nothing may show
LAUNCH = 1.25  # a call that takes so many times its work is bound by launching
STABLE = 1.5  # median over minimum above this: calls of the same work differ too much


@dataclass(frozen=True, repr=False)
class Time(Measured):
    """Seconds of single calls in the order they ran; the warm-up call is not among them.

    If the warm-up call alone took the whole budget, it is the one sample, and `warm` is False.
    `clock` says what the samples are: 'device', its own time on each call, without launching; or
    'wall', from the start of each call until it is done. `felt` is the time from one call to the
    next when they are launched in a row, where that was measured apart; `note` says what could not
    be seen.
    """

    samples: tuple[float, ...]
    threads: int
    device: str
    doubt: str = ""
    warm: bool = True
    unit: str = "s"
    clock: str = "wall"
    felt: float | None = None
    note: str = ""

    @property
    def per_call(self) -> float:
        """Seconds that the learner waits for each call of many, launching included."""
        return max(self.value, self.felt or 0.0)

    @property
    def launch_bound(self) -> bool:
        """Whether launching the work takes much longer than the work."""
        return self.per_call > LAUNCH * self.value

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
        if self.launch_bound:
            felt = units.duration(self.per_call, significant=3)
            words = f"{words} on the device; {felt} a call, bound by launching"
        words = f"{words}; {self.note}" if self.note else words
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
    machine has one. On CUDA the work must be in the current stream; its samples are the device's
    own time (of several short ones at once), with a queue that is kept full, and `felt` is what a
    call takes with its launch. If
    `fn` itself waits for the device, as `.item()` does, and on another accelerator, each sample is
    the time until all is done. `threads` limits PyTorch's processor threads during the calls, to at
    most one per logical processor; one thread is hardly disturbed by a busy core beside it. The
    warm-up counts against the wall-clock budget, so that the whole takes at most the budget and one
    call (on CUDA, whose calls are queued in blocks, longer if they become slower). An error that
    `fn` raises reaches the caller unchanged. Raises TypeError if `fn` returns work that is still
    undone: a generator or a coroutine.
    """
    function("fn", fn, "time(lambda: x @ w)")
    positive("budget", budget)
    where, threads = hardware.device_type(device), known_threads(threads)
    wait = _waiting(where)
    with alone("time"), _limited(threads) as used, gpu_neighbours.watch(where) as others:
        wait()
        start = perf_counter()
        cold = _until_done(lambda: finished("fn", fn()), wait)
        left = budget - (perf_counter() - start)
        if left <= 0:
            reason = "one cold call took the whole budget"
            return Time((cold,), used, where, reason, warm=False)
        if where == "cuda":
            found, load = _on_device(fn, left)
        else:
            samples, load = _sample(lambda calls: _one_by_one(fn, wait, calls), 1, left)
            found = Time(tuple(samples), used, where)
    shared, note = others()
    doubt = shared or _doubt(found.samples, load, where, used) or _elsewhere(found)
    return replace(found, threads=used, doubt=doubt, note=note)


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


def _until_done(call: Callable[[], object], wait: Callable[[], None]) -> float:
    """Seconds from the start of a call until its work is done."""
    start = perf_counter()
    call()
    wait()
    return perf_counter() - start


def _one_by_one(fn: Callable[[], object], wait: Callable[[], None], calls: int) -> list[float]:
    return [_until_done(fn, wait) for _ in range(calls)]


def _on_device(fn: Callable[[], object], budget: float) -> tuple[Time, contention.Load]:
    """Timings by the CUDA device's own clock; `threads` and `doubt` are still to be filled in."""
    queue, watch, began = Queue(fn), contention.Watch(), perf_counter()
    samples = queue.start(budget / 4)
    while not samples or len(samples) < MAX_SAMPLES + queue.dropped:
        left = (budget - (perf_counter() - began)) / max(queue.each, 1e-9)
        if samples and left < 1:
            break
        samples += queue(max(1, int(min(BLOCK, left, MAX_SAMPLES))) if samples else 1)
    load = watch.load()
    kind, kept = "device" if queue.fills else "wall", samples[queue.dropped :] or samples
    return Time(tuple(kept[:MAX_SAMPLES]), 0, "cuda", clock=kind, felt=queue.felt), load


def _sample(
    run: Callable[[int], list[float]], block: int, budget: float
) -> tuple[list[float], contention.Load]:
    """Seconds of each call, at most `block` calls at a time, and the load while they ran."""
    samples, calls = [], 1
    watch, began = contention.Watch(), perf_counter()
    while calls > 0:
        start = perf_counter()
        found = run(calls)
        samples += found
        end = perf_counter()
        each = max(end - start, 1e-9) / len(found)  # a coarse clock may not move
        room = min(block, MAX_SAMPLES - len(samples))
        calls = int(min(room, (budget - (end - began)) / each))
    return samples, watch.load()


def _elsewhere(found: Time) -> str:
    """The doubt about work that leaves the device idle: it may not run there at all."""
    idle = found.clock == "device" and found.value < NOTHING and found.value < 0.01 * found.per_call
    return "hardly anything ran on the device: does the work run elsewhere?" if idle else ""


def _doubt(samples: list[float], load: contention.Load, device: str, threads: int) -> str:
    """Why these samples are not to be trusted, or '' if nothing speaks against them."""
    if device == "cpu" and (shared := load.doubt(threads)):
        return shared
    if len(samples) < MIN_SAMPLES:
        return f"only {len(samples)} call{'s' * (len(samples) > 1)} fitted into the budget"
    if median(samples) > STABLE * min(samples):
        return f"a typical call took {median(samples) / min(samples):.1f} times the fastest"
    return ""
