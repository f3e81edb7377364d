"""Whether another program had the processor while something was timed: what the system counted.

Linux tells how long each thread stood ready to run and had no processor (the second number of
`/proc/<pid>/task/<tid>/schedstat`, in nanoseconds). Elsewhere the number of times that the
process was made to give its core away must do.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time

SHARE = 0.8  # processor time over wall time below this: something else had the core
# Seconds waited by all threads over seconds of wall time. Seen on 2 cores in 0.2 s of products of
# n = 64 to 1024 with 2 threads: at most 0.3 alone, 0.6 to 1 in the median beside one busy process.
WAITED = 0.5
# Interruptions per second and thread. Seen on 2 cores: 7 to 27 alone, 64 to 122 beside one busy
# process, for the same products.
INTERRUPTED = 45
FEW = 5  # interruptions that prove nothing, however short the measurement


@dataclass(frozen=True)
class Load:
    """What the operating system counted while calls were timed; None for what it does not tell."""

    wall: float
    processor: float
    waited: float | None
    interruptions: int | None

    def doubt(self, threads: int) -> str:
        """Why work on `threads` threads of this process was not alone, or ''."""
        if self._readable() and self.processor < SHARE * self.wall:
            had = self.processor / self.wall
            return f"this process had the processor for only {had:.0%} of the time"
        if self.waited is None:
            often = max(FEW, INTERRUPTED * self.wall * threads)
            shared = self.interruptions is not None and self.interruptions > often
        else:
            shared = self.waited > WAITED * self.wall
        return "another program took the processor again and again" if shared else ""

    def _readable(self) -> bool:
        """Whether processor time is finer than what was measured (Windows counts in 1/64 s)."""
        return self.wall > (0.2 if sys.platform == "win32" else 20e-6)


class Watch:
    """Counts from the moment it is made."""

    def __init__(self) -> None:
        self._waited, self._interruptions = _waits(), _interruptions()
        self._processor, self._wall = process_time(), perf_counter()

    def load(self) -> Load:
        """What was counted so far."""
        wall, processor = perf_counter() - self._wall, process_time() - self._processor
        waited = interruptions = None
        if self._waited is not None and (now := _waits()) is not None:
            waited = sum(now[thread] - self._waited.get(thread, 0.0) for thread in now)
        if self._interruptions is not None:
            interruptions = _interruptions() - self._interruptions
        return Load(wall, processor, waited, interruptions)


def _waits() -> dict[str, float] | None:
    """Seconds that each thread of this process has waited for a processor; None if not told."""
    waits = {}
    for file in Path("/proc/self/task").glob("*/schedstat"):
        try:
            waits[file.parent.name] = int(file.read_text("ascii").split()[1]) * 1e-9
        except ProcessLookupError:  # the thread has just ended
            continue
        except (OSError, ValueError, IndexError):
            return None
    return waits or None


def _interruptions() -> int | None:
    """How often other programs took this process's core so far; None if the system does not say."""
    if sys.platform == "win32":
        return None
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
