"""Seconds that a CUDA device spends on calls, by its own clock, while its queue is kept full.

To launch an operation takes the processor some 10 µs. The device is done with a small one before
the next is launched, and two events around it then measure that wait. So the device is first kept
busy for a while (the backlog), and the calls with their events are queued behind: they run without
a gap between them. Whether the backlog lasted until all were queued is looked at each time.
"""

from collections.abc import Callable
from functools import cache
from math import ceil
from time import perf_counter

import torch

from course_utils.measure import private

BLOCK = 20  # samples between two waits
MOST = 100  # calls between two waits
ROUNDS = 10  # blocks of calls in a row that tell what launching takes: the fastest counts
MARGIN = 2.0  # the backlog lasts so many times as long as queueing should take
SHORTEST, LONGEST = 200e-6, 0.1  # seconds of a backlog; a display's watchdog allows 2 at most
LONG = 0.02  # seconds of a call beside which its launch is next to nothing
SPAN = 100e-6  # seconds between two events at least, whose clock may tick in microseconds
QUEUEING = 0.01  # seconds that queueing the calls between two events may take
CYCLES = 10**6  # of the backlog that tells how fast the device counts them


class Queue:
    """Times calls of `fn` in blocks.

    `felt` is the time from one call to the next as Python launches them. While `fills` is True,
    samples are the device's own time; else `fn` waits for the device itself, launches more than the
    queue holds, or takes so long that its launch does not matter, and they last until all is done.
    `dropped` of the samples so far were taken before that, or before the span between two events,
    was settled. `each` is what a sample took of late, with all that it needs.
    """

    def __init__(self, fn: Callable[[], object]) -> None:
        self.fn, self.fills, self.felt, self.each, self.dropped = fn, True, 0.0, 0.0, 0
        self._host = 0.0  # seconds that queueing a call takes
        self._most, self._grows = 1, True  # calls that were queued behind a backlog at once
        self._together = 1  # calls between two events
        self._given = 0

    def start(self, seconds: float) -> list[float]:
        """Call `fn` in a row for about `seconds`, at least once, to learn what launching takes.

        Returns a first sample if a call is so long that its launch does not matter.
        """
        self.felt, calls, began = float("inf"), 1, perf_counter()
        for _round in range(ROUNDS):
            start = perf_counter()
            for _ in range(calls):
                self.fn()
            self._host = (perf_counter() - start) / calls
            torch.cuda.synchronize()
            each = (perf_counter() - start) / calls
            self.felt = min(self.felt, each)
            calls = int(min(BLOCK, (seconds - (perf_counter() - began)) / each))
            if calls < 1:
                break
        self.each, self.fills = self.felt, self.felt < LONG
        return [] if self.fills else [self.felt]

    def __call__(self, samples: int) -> list[float]:
        """Seconds of a call, at most so many times."""
        if self.fills and (found := self._on_device(samples)):
            self._given += len(found)
            return found
        if self.fills:
            self.fills, self.dropped = False, self._given
        return [self._until_done() for _ in range(samples)]

    def _on_device(self, samples: int) -> list[float]:
        """Nothing if not even one call can be queued behind a backlog."""
        while self._most:
            together = min(self._together, self._most)
            pairs = max(1, min(samples, BLOCK // together, self._most // together))
            tries = 2 if self._most == 1 else 1  # once it may have been an interruption
            for _ in range(tries):
                if found := self._behind_a_backlog(pairs, together):
                    self._settle(found, together)
                    return found
            self._most, self._grows = pairs * together // 2, False
        return []

    def _settle(self, found: list[float], together: int) -> None:
        """Choose how many calls lie between two events, and drop what was timed with fewer."""
        self._most = min(MOST, 2 * self._most) if self._grows else self._most
        by_clock = ceil(SPAN / max(min(found), 1e-7))
        self._together = max(1, min(by_clock, MOST, int(QUEUEING / max(self._host, 1e-9))))
        if 2 * together <= min(self._together, self._most):
            self.dropped = self._given + len(found)

    def _behind_a_backlog(self, pairs: int, together: int) -> list[float]:
        """Seconds of a call, from each pair of events; nothing if the backlog ended too early."""
        began = perf_counter()
        events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(pairs)]
        backlog = torch.cuda.Event()
        needed = max(SHORTEST, MARGIN * self._host * together * pairs)
        private.keep_cuda_busy(_cycles(min(LONGEST, needed)))
        backlog.record()
        start = perf_counter()
        for first, last in events:
            first.record()
            for _ in range(together):
                self.fn()
            last.record()
        full = not backlog.query()
        self._host = (perf_counter() - start) / (together * pairs)
        events[-1][1].synchronize()
        if not full:
            _seconds_of_cycles.cache_clear()  # the device may have woken up since
            return []
        self.each = (perf_counter() - began) / pairs
        return [first.elapsed_time(last) / 1000 / together for first, last in events]

    def _until_done(self) -> float:
        start = perf_counter()
        self.fn()
        torch.cuda.synchronize()
        self.each = perf_counter() - start
        return self.each


def _cycles(seconds: float) -> int:
    """Cycles that the current device counts in `seconds`."""
    return int(seconds / _seconds_of_cycles(torch.cuda.current_device()) * CYCLES)


@cache
def _seconds_of_cycles(_device: int) -> float:
    """Seconds that the current device takes to count `CYCLES` cycles."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(2):  # the first one wakes the device up
        start.record()
        private.keep_cuda_busy(CYCLES)
        end.record()
        end.synchronize()
    return start.elapsed_time(end) / 1000
