"""Whether this machine is quiet enough to be judged by its clock: one gate for bench and tests."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import perf_counter, thread_time

import psutil

BUSY = 0.05  # share of the processors gone elsewhere above which a machine is not quiet
PROBE = 0.3  # seconds, three periods of a container's quota


class Elsewhere:
    """The share of the processors that went elsewhere, from 0 to 1, known when the block ends."""

    share = 0.0


def noise(share: float) -> str:
    """In words why a machine is not quiet, of whose processors `share` went elsewhere, or ''."""
    return f"not quiet: {share:.0%} of the processors went elsewhere" if share > BUSY else ""


@contextmanager
def watch() -> Iterator[Elsewhere]:
    """Watch while the block runs what this process and those it started do not get.

    That is what other programs take of all processors, or what a quota refuses this process of
    one: the larger.
    """
    seen = Elsewhere()
    began, own, busy = perf_counter(), _own_seconds(), _busy_seconds()
    try:
        yield seen
    finally:
        wall = perf_counter() - began
        others = (_busy_seconds() - busy) - (_own_seconds() - own)
        seen.share = max(0.0, others / (wall * (psutil.cpu_count() or 1)), _refused())


def _busy_seconds() -> float:
    """Processor seconds of all programs since the machine started."""
    times = psutil.cpu_times()
    kinds = ("user", "nice", "system", "irq", "softirq", "steal")
    return sum(getattr(times, kind, 0.0) for kind in kinds)


def _own_seconds() -> float:
    """Processor seconds of this process and of all that it started, ended ones included."""
    seconds = sum(os.times()[:4])
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has just ended
            seconds += sum(child.cpu_times()[:4])
    return seconds


def _refused() -> float:
    """The share of a short while in which one thread asks for a processor and has none."""
    began, own = perf_counter(), thread_time()
    while perf_counter() - began < PROBE:
        pass
    return 1 - (thread_time() - own) / (perf_counter() - began)
