"""Memory of a training step: the course's tracker, torch's MemTracker, the profiler."""

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from course_utils import measure
from course_utils.measure import Memory
from course_utils.table import table
from tests.bench.counting import silence
from tests.bench.report import Figure, Section, difference
from tests.bench.work import training

VARIANTS: dict[str, dict[str, bool]] = {
    "AdamW, default": {},
    "AdamW, foreach": {"foreach": True},
    "AdamW, fused": {"fused": True},
}
MEASURED = "the measured step"
HEAD = (
    "MLP 4 × 512² + head, batch 256",
    "ours",
    "MemTracker",
    "ours − MemTracker",
    "profiler",
    "ours − profiler",
    "scratch apart",
)
NOTE = (
    "Peak of the second step, with the time that building, warming up and measuring took. Scratch "
    "is memory that no operation returned: division by a Python number takes 12 bytes for that "
    "number while it runs, which only the profiler sees."
)


def ours(**adamw: bool) -> Memory:
    """The second step by the course's own tracker."""
    return measure.memory(training(**adamw).step)


def mem_tracker(**adamw: bool) -> tuple[int]:
    """The second step's peak by torch's MemTracker."""
    from torch.distributed._tools.mem_tracker import MemTracker

    run = training(**adamw)
    run.step()
    tracker = MemTracker()
    tracker.track_external(run.model, run.optimizer, run.x, run.y)
    with tracker:
        run.step()
    return (tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"],)


def profiler(**adamw: bool) -> tuple[int, int]:
    """The second step's peak by the profiler's [memory] events, with and without scratch.

    No event may be missed, so everything is made inside the profiler, and the events are added up
    from the start. Scratch is memory that no operation returned.
    """
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        run = training(**adamw)
        run.step()
        with record_function(MEASURED):
            run.step()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        seen.export_chrome_trace(str(file))
        events = json.loads(file.read_text())["traceEvents"]
    return peak_of(events, scratch=True), peak_of(events, scratch=False)


def peak_of(events: list[dict], *, scratch: bool) -> int:
    """The most bytes held during the measured step, by a trace's events."""
    step = next(event for event in events if event.get("name") == MEASURED)
    changes = [e for e in events if e.get("name") == "[memory]" and e["args"]["Device Type"] == 0]
    changes.sort(key=lambda e: (e["ts"], e["args"]["Ev Idx"]))
    left_out = set() if scratch else _scratch(changes, events)
    held, peak = 0, 0
    for place, event in enumerate(changes):
        held += 0 if place in left_out else event["args"]["Bytes"]
        if _within(step, event["ts"]):
            peak = max(peak, held)
    return peak


def _scratch(changes: list[dict], events: list[dict]) -> set[int]:
    """Which changes take or give back memory that no operation returned."""
    operations = _outermost(events)
    taken: dict[int, int] = {}
    found: set[int] = set()
    for place, event in enumerate(changes):
        address = event["args"]["Addr"]
        if event["args"]["Bytes"] > 0:
            taken[address] = place
        elif address in taken:
            born = taken.pop(address)
            if _is_scratch(changes[born]["ts"], event["ts"], operations):
                found |= {born, place}
    return found


def _is_scratch(born: float, gone: float, operations: list[dict]) -> bool:
    """Whether a block lives within one operation, or was made outside of any and serves one."""
    during = [op for op in operations if op["ts"] <= gone and born <= op["ts"] + op["dur"]]
    made_by = [op for op in during if _within(op, born)]
    return len(during) <= 1 and (not made_by or _within(made_by[0], gone))


def _outermost(events: list[dict]) -> list[dict]:
    """The operations that no other operation called, in order."""
    calls = [e for e in events if e.get("ph") == "X" and e["name"].startswith("aten::")]
    kept: list[dict] = []
    for call in sorted(calls, key=lambda e: (e["ts"], -e["dur"])):
        if not kept or not _within(kept[-1], call["ts"]):
            kept.append(call)
    return kept


def _within(event: dict, ts: float) -> bool:
    return event["ts"] <= ts <= event["ts"] + event["dur"]


def _told(peer: Callable[..., object], adamw: dict[str, bool]) -> tuple[tuple[int, ...], str]:
    """The peer's peaks and how long it took, or what went wrong in words."""
    began = perf_counter()
    try:
        with silence():
            peaks = peer(**adamw)
    except Exception as error:  # whatever a peer raises is its answer
        return (), f"failed: {type(error).__name__}: {str(error)[:80]}"
    return peaks, f"{peaks[0]:,} B in {perf_counter() - began:.2f} s"


def _adds_up(found: Memory) -> bool:
    return found.peak == sum(found.parts().values()) == max(e.total for e in found.timeline)


def _weigh(name: str, adamw: dict[str, bool]) -> tuple[list[str], list[str], Memory]:
    """A row of the table, our differences from the peers, and what ours found."""
    began = perf_counter()
    found = ours(**adamw)
    took = f"{found.peak:,} B in {perf_counter() - began:.2f} s"
    (tracked, tracker_says), (profiled, profiler_says) = (
        _told(peer, adamw) for peer in (mem_tracker, profiler)
    )
    peaks = [*(tracked or (None,)), *(profiled or (None, None))]
    apart = ["unknown" if peak is None else difference(found.peak, peak) for peak in peaks]
    return [name, took, tracker_says, apart[0], profiler_says, *apart[1:]], apart, found


def section() -> Section:
    """The memory part of the report."""
    torch.manual_seed(0)
    peaks, gaps, found = zip(*(_weigh(*variant) for variant in VARIANTS.items()), strict=True)
    parts = [
        (name, *(f"{held:,}" for held in one.parts().values()), f"{one.peak:,}")
        for name, one in zip(VARIANTS, found, strict=True)
    ]
    columns = ("bytes at the peak", *found[0].parts(), "together")
    tables = (table(HEAD, peaks, note=NOTE), table(columns, parts))
    return Section("Memory", tables, _figures(gaps, [_adds_up(one) for one in found]))


def _figures(gaps: Sequence[list[str]], whole: list[bool]) -> tuple[Figure, ...]:
    names = ("MemTracker", "profiler", "profiler, scratch apart")
    differences = [
        Figure(f"peak − {name}, bytes", ", ".join(column), "0", set(column) == {"0"})
        for name, column in zip(names, zip(*gaps, strict=True), strict=True)
        if name != "profiler"  # with the scratch: stands in the table and its note
    ]
    added = f"{sum(whole)} of {len(whole)}"
    return (*differences, Figure("categories add up to the peak", added, "all", all(whole)))
