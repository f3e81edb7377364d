"""What one call sets going: operations on the processor, kernels on the accelerator, and gaps.

PyTorch's profiler notes when each begins and ends. The noting takes time itself, so that on an
accelerator the whole call is timed without it.
"""

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Protocol

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from course_utils import hardware, units
from course_utils.arguments import finished, function, positive
from course_utils.measure.clock import time
from course_utils.measure.guard import alone
from course_utils.table import Result, Table, table

PROFILED = 3  # calls under the profiler, whose own start falls into the first
LONGEST = 5  # names that are listed
NAME = 50  # characters of a name that are shown
UNSEEN = "the profiler does not see this device"
NONE = "none: the processor computes"
SILENT = "99"  # above every level at which the profiler reports of itself on stderr


class Event(Protocol):
    """What is read of an event of torch.profiler; times are in microseconds."""

    name: str
    device_type: DeviceType
    is_user_annotation: bool
    self_cpu_time_total: float
    cpu_parent: "Event | None"
    time_range: object


@dataclass(frozen=True, repr=False)
class Kernels(Result):
    """What one call of a function set going.

    `operations` counts those of PyTorch that Python or autograd asked for, such as aten::linear,
    without those that these call in turn; `launched` the kernels and copies on the accelerator,
    None without one or where the profiler does not see it.
    Then `busy` is the seconds in which the device worked, else those in which operations ran on the
    processor. `whole` is the seconds of the call: on an accelerator from one call to the next,
    without the profiler. `longest` has names with how often each ran and its seconds in all.
    """

    device: str
    operations: int
    launched: int | None
    busy: float | None
    whole: float
    longest: tuple[tuple[str, int, float], ...]
    doubt: str = ""

    @property
    def gaps(self) -> float | None:
        """The share of the call in which the device waited; None if that cannot be seen."""
        return None if self.busy is None else max(0.0, 1 - self.busy / self.whole)

    def shown(self) -> Table:
        """The counts, the times and the longest by name: as many rows on every machine."""
        unseen = NONE if self.device == "cpu" else UNSEEN
        facts = {
            "operations of PyTorch": f"{self.operations:,}",
            "kernels on the accelerator": unseen if self.launched is None else str(self.launched),
            "the device is busy for": self._seconds(self.busy),
            "the whole call": units.unsure(self._seconds(self.whole), self.doubt),
            "share of gaps": UNSEEN if self.gaps is None else f"{self.gaps:.0%}",
        }
        names = [self._line(*one) for one in self.longest] + ["–"] * LONGEST
        facts |= {f"longest, {n}": name for n, name in enumerate(names[:LONGEST], start=1)}
        rows = [(fact, units.measured(value)) for fact, value in facts.items()]
        return table(("one call", "what it sets going"), rows)

    def _line(self, name: str, many: int, seconds: float) -> str:
        return f"{self._seconds(seconds)} in {many} × {name}"

    @staticmethod
    def _seconds(value: float | None) -> str:
        return UNSEEN if value is None else units.duration(value, significant=3)


def kernels(
    step: Callable[[], object],
    *,
    device: str | torch.device | None = None,
    budget: float = 0.3,
) -> Kernels:
    """Call `step` for about `budget` seconds to time it, then under PyTorch's profiler.

    So it is called many times: a training step trains. The fastest of a few calls under the
    profiler is the one that counts. `device` names where it computes; by default
    the accelerator if the machine has one. CUDA's kernels are seen; of another accelerator only the
    operations that Python asked for are counted. Raises TypeError if `step` is no function.
    """
    function("step", step, "kernels(lambda: train_step())")
    where = hardware.device_type(device)
    took = time(step, budget=positive("budget", budget), device=where)
    with alone("kernels"):
        calls = [_profiled(step, where) for _ in range(PROFILED)]
    events, lasted = min(calls, key=lambda call: call[1])
    found = _found(events, where)
    if where == "cpu":  # what the profiler adds to the operations, it adds to the whole
        return replace(found, whole=lasted, doubt=took.doubt)
    return replace(found, whole=took.per_call, doubt=took.doubt)


def _profiled(step: Callable[[], object], device: str) -> tuple[list[Event], float]:
    """The events of one call of `step`, and the seconds that it took until all was done."""
    os.environ.setdefault("KINETO_LOG_LEVEL", SILENT)
    seen = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])]
    with profile(activities=seen) as profiler:
        start = perf_counter()
        finished("step", step())
        if device != "cpu":
            torch.accelerator.synchronize()
        lasted = perf_counter() - start
    return list(profiler.events()), lasted


def _found(events: Iterable[Event], device: str) -> Kernels:
    """All but the time of the whole call."""
    events = [event for event in events if not event.is_user_annotation]
    asked = [event for event in events if _is_operation(event)]
    count = sum(not _within_another(event) for event in asked)
    there = [event for event in events if event.device_type != DeviceType.CPU]
    if device == "cpu":
        longest = _by_name((event.name, event.self_cpu_time_total) for event in asked)
        return Kernels(device, count, None, _covered(asked), 0.0, longest)
    if device != "cuda":
        return Kernels(device, count, None, None, 0.0, ())
    longest = _by_name((_short(event.name), _length(event)) for event in there)
    return Kernels(device, count, len(there), _covered(there), 0.0, longest)


def _is_operation(event: Event) -> bool:
    """Whether it is one of PyTorch's operations, or of a library's: 'aten::add'."""
    here = event.device_type == DeviceType.CPU and "::" in event.name
    return here and not event.name.startswith("autograd::")


def _within_another(event: Event) -> bool:
    """Whether another operation called this one."""
    outer = event.cpu_parent
    while outer is not None and not _is_operation(outer):
        outer = outer.cpu_parent
    return outer is not None


def _length(event: Event) -> float:
    return event.time_range.end - event.time_range.start


def _covered(events: Iterable[Event]) -> float:
    """Seconds in which at least one of the events ran."""
    covered, until = 0.0, float("-inf")
    for span in sorted((event.time_range.start, event.time_range.end) for event in events):
        start, end = max(span[0], until), span[1]
        covered += max(0.0, end - start)
        until = max(until, end)
    return covered / 1e6


def _by_name(times: Iterable[tuple[str, float]]) -> tuple[tuple[str, int, float], ...]:
    """The names with the longest times in all: name, how often, seconds."""
    found: dict[str, list[float]] = {}
    for name, microseconds in times:
        found.setdefault(name, []).append(microseconds)
    every = [(name, len(each), sum(each) / 1e6) for name, each in found.items()]
    return tuple(sorted(every, key=lambda one: -one[2])[:LONGEST])


def _short(name: str) -> str:
    """A kernel's name without its C++ types; of a general one, also what it computes."""
    name = name.removeprefix("void ").replace("(anonymous namespace)::", "")
    plain, *rest = re.split(r"[<(|]", name, maxsplit=1)
    what = re.search(r"\w*[Ff]unctor\w*", "".join(rest))
    words = [plain.rsplit("::", 1)[-1].strip() or "a kernel", *([what[0]] if what else [])]
    return " ".join(words)[:NAME]
