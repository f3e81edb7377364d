"""FLOPs: the course's counter and its peers against arithmetic."""

import contextlib
import logging
import os
import warnings
from collections.abc import Callable, Iterator

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from course_utils import measure
from course_utils.table import Table, table
from tests.bench.machine import version
from tests.bench.report import Figure, Section, ratio, share
from tests.bench.work import Case, cases, products_to_refuse

NOTE = (
    "Ratios to the formula: 2·m·k·n for each product, backward twice that, 2.5 times for "
    "scaled_dot_product_attention, whose kernel recomputes. fvcore and torchinfo count "
    "multiply-adds: × 2 here. torchscan: its own module formulas (its operator counts are "
    "FlopCounterMode's), which count elementwise work too; 'partial' is its own word."
)


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Keep the peers' warnings and logs out of the report, those of C++ included."""
    logging.disable(logging.WARNING)
    stderr, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)
        logging.disable(logging.NOTSET)


def _counter_mode(run: Callable[[], object]) -> int:
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


def _fvcore(case: Case) -> str:
    from fvcore.nn import FlopCountAnalysis

    with torch.set_grad_enabled(case.grad):
        return ratio(2 * FlopCountAnalysis(case.module, case.inputs).total(), case.forward)


def _torchinfo(case: Case) -> str:
    from torchinfo import summary

    mode = "train" if case.module.training else "eval"
    found = summary(case.module, input_data=list(case.inputs), mode=mode, verbose=0)
    return ratio(2 * found.total_mult_adds, case.forward)


def _torchscan(case: Case) -> str:
    from torchscan import crawl_module

    found = crawl_module(case.module, args=case.inputs)["totals"]["module_flops"]
    partial = "" if found["status"] == "complete" else f", {found['status']}"
    return ratio(found["known_value"] or 0, case.forward) + partial


def _profiler(case: Case) -> str:
    with profile(activities=[ProfilerActivity.CPU], with_flops=True) as seen:
        case.run()
    return ratio(sum(event.flops or 0 for event in seen.events()), case.forward)


PEERS: dict[str, Callable[[Case], str]] = {
    "FlopCounterMode forward": lambda case: ratio(_counter_mode(case.run), case.forward),
    "FlopCounterMode both": lambda case: (
        ratio(_counter_mode(case.run_both), case.both) if case.grad else "no_grad"
    ),
    "fvcore": _fvcore,
    "torchinfo": _torchinfo,
    "torchscan": _torchscan,
    "profiler": _profiler,
}


def asked(peer: str, case: Case, failures: dict[str, list[str]]) -> str:
    """What `peer` says of `case`; a peer that is missing or fails is told in words."""
    try:
        with silence():
            return PEERS[peer](case)
    except ImportError:
        failures[peer] = ["not installed"]
        return "not installed"
    except Exception as error:  # whatever a peer raises is its answer
        what = f"{type(error).__name__}: {str(error)[:80]}"
        failures.setdefault(peer, []).append(f"failed on {case.name} ({what})")
        return "failed"


def _row(case: Case, failures: dict[str, list[str]]) -> tuple[list[str], bool]:
    """The table's row, and whether our counts are exact."""
    forward = measure.flops(case.run).total
    both = measure.flops(case.run_both).total if case.grad else case.both
    ours = [ratio(forward, case.forward), ratio(both, case.both) if case.grad else "no_grad"]
    row = [case.name, f"{case.forward:,}", *ours, *(asked(p, case, failures) for p in PEERS)]
    return row, forward == case.forward and both == case.both


def counts() -> tuple[Table, Table, Figure]:
    """Every case by every counter, how the peers fared, and whether ours is exact."""
    failures: dict[str, list[str]] = {}
    rows, exact = zip(*(_row(case, failures) for case in cases()), strict=True)
    head = ("work", "formula forward", "ours forward", "ours both", *PEERS)
    missed = [row[0] for row, right in zip(rows, exact, strict=True) if not right]
    name, found = "FLOPs exact, forward and forward + backward", share(len(rows), missed)
    figure = Figure(name, found, "all, ratio 1.000", not missed)
    fared = [
        (peer, _installed(peer), "; ".join(failures.get(peer, ["ran on every case"])))
        for peer in PEERS
    ]
    return table(head, rows, note=NOTE), table(("peer", "version", "state"), fared), figure


def _installed(peer: str) -> str:
    return version(peer if peer in ("fvcore", "torchinfo", "torchscan") else "torch")


def _ours(run: Callable[[], object]) -> int | str:
    """Our count, or the operation that our counter refuses by name."""
    try:
        return measure.flops(run).total
    except measure.UncountedOperation as refusal:
        return f"refuses {str(refusal).split()[0]}"


def silences() -> tuple[Table, Figure]:
    """Products that counters tend to miss: counted right or refused by name, never a silent 0."""
    rows, wrong = [], []
    for name, (run, formula) in products_to_refuse().items():
        with silence():
            ours, theirs = _ours(run), _counter_mode(run)
        if isinstance(ours, int) and (ours == 0 or formula not in (None, ours)):
            wrong.append(name)
        rows.append((name, formula or "none", ours, theirs))
    found = share(len(rows), wrong)
    figure = Figure("never a silent 0", found, "all counted or refused by name", not wrong)
    note = "A product is counted as the formula says, or refused by name."
    return table(("product", "formula", "ours", "FlopCounterMode"), rows, note=note), figure


def section() -> Section:
    """The FLOP part of the report."""
    torch.manual_seed(0)
    counted, fared, exact = counts()
    missed, silent = silences()
    return Section("FLOPs", (counted, fared, missed), (exact, silent))
