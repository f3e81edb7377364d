"""How long a function takes, and whether that can be trusted.

Single calls are timed one by one, the first is not counted (it pays for allocation and caches),
and an accelerator is waited for before and after each call. A processor that is shared with
another program shows in two ways: calls of the same work vary, or the process gets less processor
time than wall time.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from time import perf_counter, process_time

import torch

from course_utils import hardware, units
from course_utils.arguments import count, positive

MIN_SAMPLES = 5
MAX_SAMPLES = 10_000
STABLE = 1.5  # median over minimum above this: calls of the same work differ too much
SHARE = 0.8  # processor time over wall time below this: something else had the core
CLOCK_LIMIT = 20e-6  # seconds of measuring below which processor time cannot be read


@dataclass(frozen=True)
class Time:
    """Seconds of single calls in the order they ran; the warm-up call is not among them."""

    samples: tuple[float, ...]
    threads: int
    device: str
    trusted: bool
    reason: str
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

    def __truediv__(self, other: "Time") -> "Ratio":
        """How many times as long as `other` this took, trusted if both are."""
        if not isinstance(other, Time):
            return NotImplemented
        return Ratio(self.value / other.value, self.trusted and other.trusted,
                     self.reason or other.reason)  # fmt: skip

    def __repr__(self) -> str:
        trust = "trusted" if self.trusted else f"not to be trusted: {self.reason}"
        return units.measured(
            f"{units.duration(self.minimum, significant=3)} "
            f"(fastest of {len(self.samples)} calls, median "
            f"{units.duration(self.median, significant=3)}, {trust})"
        )


@dataclass(frozen=True)
class Ratio:
    """One time over another."""

    value: float
    trusted: bool
    reason: str

    def __repr__(self) -> str:
        trust = "" if self.trusted else f" (not to be trusted: {self.reason})"
        return units.measured(units.ratio(self.value) + trust)


def time(
    fn: Callable[[], object],
    *,
    budget: float = 0.5,
    device: str | None = None,
    threads: int | None = None,
) -> Time:
    """Time single calls of `fn` for about `budget` seconds, after one call that is not counted.

    `device` names where `fn` computes ('cpu', 'cuda', 'mps'); by default the accelerator if the
    machine has one, which is then waited for before and after each call. `threads` limits
    PyTorch's processor threads during the calls; one thread is hardly disturbed by a busy core
    beside it. At least one call is timed, so the cost is at most the budget, the warm-up and one
    call. An error that `fn` raises reaches the caller unchanged.
    """
    if not callable(fn):
        raise TypeError(f"fn must be a function to call, as in time(lambda: x @ w); got {fn!r}")
    positive("budget", budget)
    where = device or hardware.backend()
    wait = _waiting(where)
    with _limited(threads) as used:
        fn()
        wait()
        samples, busy = _sample(fn, wait, budget)
    reason = _doubt(samples, busy, where)
    return Time(tuple(samples), used, where, not reason, reason)


@contextmanager
def _limited(threads: int | None) -> Iterator[int]:
    """PyTorch's threads set to `threads` for a while, as they are if None; yields how many."""
    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(count("threads", threads))
    try:
        yield torch.get_num_threads()
    finally:
        torch.set_num_threads(before)


def _waiting(device: str) -> Callable[[], None]:
    if device == "cpu":
        return lambda: None
    return lambda: torch.accelerator.synchronize(device)


def _sample(
    fn: Callable[[], object], wait: Callable[[], None], budget: float
) -> tuple[list[float], float]:
    """Seconds of each call, and processor time over wall time for all of them."""
    samples: list[float] = []
    began, cpu_began = perf_counter(), process_time()
    while len(samples) < MAX_SAMPLES:
        start = perf_counter()
        fn()
        wait()
        samples.append(perf_counter() - start)
        if perf_counter() - began + samples[-1] > budget:
            break
    wall = perf_counter() - began
    return samples, (process_time() - cpu_began) / wall if wall > CLOCK_LIMIT else 1.0


def _doubt(samples: list[float], busy: float, device: str) -> str:
    """Why these samples are not to be trusted, or '' if nothing speaks against them."""
    if device == "cpu" and busy < SHARE:
        return f"this process had the processor for only {busy:.0%} of the time"
    if len(samples) < MIN_SAMPLES:
        return f"only {len(samples)} call{'s' * (len(samples) > 1)} fitted into the budget"
    if median(samples) > STABLE * min(samples):
        return f"a typical call took {median(samples) / min(samples):.1f} times the fastest"
    return ""
