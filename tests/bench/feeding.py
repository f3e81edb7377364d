"""Feeding tokens: batches from a file against two other ways, and the memory they take."""

import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep

import numpy as np
import psutil
import torch
from torch import Tensor

from course_utils import units
from course_utils.table import Table, table
from course_utils.train import Batches, open_tokens, write_tokens
from course_utils.train.data import MAPPED
from tests.bench.report import Figure, Section
from tests.quiet import watch

BATCH, CONTEXT = 64, 256
SMALL, LARGE = 2**24, 2**29  # tokens of 2 bytes: 32 MiB and 1 GiB
CHUNK = 2**22  # tokens that are written at once
ROUNDS = 100
READING = 4.0  # seconds
ALL = 2**40  # bytes that may stay mapped: whatever was touched
BATCHES = f"Batches, file of {SMALL * 2 / 2**20:.0f} MiB"
LARGE_BATCHES = f"Batches, file of {LARGE * 2 / 2**30:.0f} GiB"
LISTS = "torch.tensor of a list of slices"
GATHER = "index of a tensor in memory"
READER = """
import os, sys
from time import perf_counter
import numpy as np, psutil
from course_utils.train import Batches, data, open_tokens

path, seconds = sys.argv[1], float(sys.argv[5])
batch, context, mapped = map(int, sys.argv[2:5])
next(Batches(np.arange(10_000), batch=batch, context=context))
data.MAPPED = mapped
batches, done = Batches(open_tokens(path), batch=batch, context=context), 0
print(psutil.Process().memory_info().rss, flush=True)
end = perf_counter() + seconds
while perf_counter() < end:
    next(batches)
    done += 1
print(done, flush=True)
os._exit(0)  # a build of torch with CUDA loads its libraries when Python ends: not by reading
"""

Way = Callable[[], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Reading:
    """A process that read batches: how many, and by how much its resident memory grew at most."""

    batches: int
    grown: int


def tokens(count: int) -> Iterator[np.ndarray]:
    """Random tokens of 2 bytes, in parts."""
    rng = np.random.default_rng(0)
    for begin in range(0, count, CHUNK):
        yield np.frombuffer(rng.bytes(2 * min(CHUNK, count - begin)), np.uint16)


def by_lists(data: np.ndarray) -> Way:
    """A Python list of slices, turned into a tensor: PyTorch warns that this is slow."""
    rng = np.random.default_rng(0)

    def cut() -> tuple[Tensor, Tensor]:
        starts = rng.integers(0, len(data) - CONTEXT, BATCH)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows = torch.tensor([data[s : s + CONTEXT + 1] for s in starts], dtype=torch.int64)
        return rows[:, :-1], rows[:, 1:]

    return cut


def by_gather(data: np.ndarray) -> Way:
    """All tokens in memory as one int64 tensor, indexed."""
    held, along = torch.from_numpy(data.astype(np.int64)), torch.arange(CONTEXT + 1)

    def cut() -> tuple[Tensor, Tensor]:
        rows = held[torch.randint(len(held) - CONTEXT, (BATCH, 1)) + along]
        return rows[:, :-1], rows[:, 1:]

    return cut


def ways(small: Path, large: Path) -> dict[str, Way]:
    """The ways to get a batch, by name."""
    data = open_tokens(small)
    settings = {"batch": BATCH, "context": CONTEXT}
    return {
        BATCHES: Batches(data, **settings).__next__,
        LARGE_BATCHES: Batches(open_tokens(large), **settings).__next__,
        GATHER: by_gather(data),
        LISTS: by_lists(data),
    }


def fastest(found: dict[str, Way], rounds: int = ROUNDS) -> dict[str, float]:
    """The fastest call of each way in seconds, all ways in turn."""
    best = dict.fromkeys(found, float("inf"))
    for _ in range(rounds):
        for name, way in found.items():
            began = perf_counter()
            way()
            best[name] = min(best[name], perf_counter() - began)
    return best


def reading(path: Path, *, mapped: int = MAPPED, seconds: float = READING) -> Reading:
    """Read batches of `path` in a fresh process, watched from outside every millisecond.

    Resident memory is all that the process has touched: its own, and the file's pages too.
    """
    settings = map(str, (path, BATCH, CONTEXT, mapped, seconds))
    command = [sys.executable, "-c", READER, *settings]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        watched = psutil.Process(child.pid)
        first = most = int(child.stdout.readline())
        while child.poll() is None:
            with suppress(psutil.Error):  # it may just have ended
                most = max(most, watched.memory_info().rss)
            sleep(1e-3)
        return Reading(int(child.stdout.readline()), most - first)


def section() -> Section:
    """The part of the report on feeding."""
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder) / "small.bin", Path(folder) / "large.bin"
        write_tokens(small, tokens(SMALL))
        write_tokens(large, tokens(LARGE))
        with watch() as seen:
            best = fastest(ways(small, large))
        kept, whole = reading(large), reading(large, mapped=ALL)
    figures = (*_speeds(best, seen.share), _memory(kept))
    return Section("Feeding", (_times(best, seen.share), _sizes(kept, whole)), figures)


def _speeds(best: dict[str, float], elsewhere: float) -> tuple[Figure, Figure]:
    lists, gather = best[LISTS] / best[BATCHES], best[BATCHES] / best[GATHER]
    faster = "batches: times faster than by a list of slices"
    beside = f"{BATCHES[0].lower()}{BATCHES[1:]}: time over an index in memory"
    return (
        Figure(faster, f"{lists:.1f}", "≥ 10", lists >= 10, elsewhere),
        Figure(beside, f"{gather:.2f}", "≤ 2", gather <= 2, elsewhere),
    )


def _memory(kept: Reading) -> Figure:
    name = "batches of a file of 1 GiB: growth of resident memory"
    return Figure(name, units.size(kept.grown), "< 100 MB", kept.grown < 100e6)


def _times(best: dict[str, float], elsewhere: float) -> Table:
    rows = [
        (name, units.duration(took), f"{took / best[BATCHES]:.2f}") for name, took in best.items()
    ]
    note = (
        f"{BATCH} windows of {CONTEXT} + 1 tokens as int64, inputs and targets; the fastest of "
        f"{ROUNDS} calls, the ways in turn. Of the processors {elsewhere:.0%} went elsewhere "
        "meanwhile."
    )
    return table(("a batch", "time", "over Batches"), rows, note=note)


def _sizes(kept: Reading, whole: Reading) -> Table:
    rows = [
        (name, f"{one.batches:,}", units.size(one.grown))
        for name, one in (("pages are let go", kept), ("pages stay mapped", whole))
    ]
    note = (
        f"{READING:.0f} s each, in a fresh process; resident memory (RSS, the file's touched pages "
        "included) watched from outside."
    )
    return table(("file of 1 GiB", "batches read", "growth at most"), rows, note=note)
