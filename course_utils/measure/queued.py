"""Seconds that a CUDA device spends on calls, by its own clock, while its queue is kept full.

To launch an operation takes the processor some 10 µs. The device is done with a small one before
the next is launched, and two events around it then measure that wait. So the device is first kept
busy for a while (the backlog), and the calls with their events are queued behind: they run without
a gap between them. Whether the backlog lasted until all were queued is looked at each time.
"""

from collections.abc import Callable
from functools import cache
from time import perf_counter

import torch

from course_utils.measure import private

BLOCK = 20  # calls between two waits
MARGIN = 2.0  # the backlog lasts so many times as long as queueing should take
LITTLE = 0.01  # of a call's time on the device: less than that to queue it does not matter
SHORTEST = 200e-6  # seconds of a backlog at least
CYCLES = 10**6  # of the backlog that tells how fast the device counts them


class Queue:
    """Times calls of `fn` in blocks.

    `felt` is the time from one call to the next as Python launches them. `fills` is False once it
    is clear that `fn` itself waits for the device, so that nothing can be queued.
    """

    def __init__(self, fn: Callable[[], object]) -> None:
        self.fn, self.fills, self.felt = fn, True, 0.0
        self._host = 0.0  # seconds that queueing a call takes
        self._short = True  # whether that matters

    def start(self, seconds: float) -> list[float]:
        """Call `fn` in a row for about `seconds`, at least once, to learn what launching takes.

        Returns the seconds of each call on the device if those are so long that it hardly matters.
        """
        samples, calls, began = [], 1, perf_counter()
        while calls > 0:
            start = perf_counter()
            pairs = self._queued(calls)
            pairs[-1][1].synchronize()
            self.felt = (perf_counter() - start) / calls
            samples += _elapsed(pairs)
            left = seconds - (perf_counter() - began)
            calls = 0 if calls == BLOCK else int(min(BLOCK, left / self.felt))
        self._short = self._host > LITTLE * min(samples)
        return [] if self._short else samples

    def __call__(self, calls: int) -> list[float]:
        """Seconds of each of `calls` calls: on the device, or until done where `fn` waits."""
        if not self._short:
            pairs = self._queued(calls)
            pairs[-1][1].synchronize()
            return _elapsed(pairs)
        for _ in range(2):
            if self.fills and (found := self._behind_a_backlog(calls)):
                return found
        self.fills = False
        return [self._waited_for() for _ in range(calls)]

    def _queued(self, calls: int) -> list[list[torch.cuda.Event]]:
        """The events before and after each of `calls` calls, which need not have run yet."""
        pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(calls)]
        began = perf_counter()
        for start, end in pairs:
            start.record()
            self.fn()
            end.record()
        self._host = (perf_counter() - began) / calls
        return pairs

    def _behind_a_backlog(self, calls: int) -> list[float]:
        """Nothing if the backlog ended before all calls were queued: the next one is longer."""
        backlog = torch.cuda.Event()
        private.keep_cuda_busy(_cycles(max(SHORTEST, MARGIN * self._host * calls)))
        backlog.record()
        pairs = self._queued(calls)
        full = not backlog.query()
        pairs[-1][1].synchronize()
        return _elapsed(pairs) if full else []

    def _waited_for(self) -> float:
        start = perf_counter()
        self.fn()
        torch.cuda.synchronize()
        return perf_counter() - start


def _elapsed(pairs: list[list[torch.cuda.Event]]) -> list[float]:
    return [start.elapsed_time(end) / 1000 for start, end in pairs]


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
