"""The bench's own arithmetic: verdicts, exit status, tables, formulas. Run it: `make bench`."""

import sys

import numpy as np
import pytest
import torch
from torch import nn

from course_utils.table import table
from course_utils.train import write_tokens
from tests.bench import chapters, counting, feeding, machine, timing, weighing
from tests.bench.report import (
    Figure,
    Section,
    difference,
    document,
    exit_status,
    markdown,
    ratio,
    share,
    worst,
)
from tests.bench.work import Call, Case, cases


def figure(met, others=0.0):
    return Figure("a figure", "2", "≤ 1", met, others)


def test_only_a_miss_on_a_quiet_machine_fails():
    assert figure(True, 0.5).verdict == figure(True).verdict == "met"
    assert figure(False).verdict == "not met"
    assert figure(False, 0.3).verdict.startswith("not met (not quiet: 30%")
    assert exit_status([figure(True), figure(False, 0.3)]) == 0
    assert exit_status([figure(True), figure(False)]) == 1
    assert exit_status([]) == 0


def test_a_ratio_never_rounds_to_exact():
    assert ratio(100, 100) == "1.000"
    assert ratio(0, 100) == "0.000"
    assert ratio(1_000_001, 1_000_000) == "1.000001"
    assert ratio(999_999, 1_000_000) == "0.999999"


def test_differences_shares_and_the_worst():
    assert difference(5, 5) == "0"
    assert difference(1000, 2012) == "-1,012"
    assert share(3, []) == "3 of 3"
    assert share(3, ["b"]) == "2 of 3, not: b"
    assert worst([1.02, 0.9, 1.05]) == 0.9


def test_the_saved_report_is_plain_markdown():
    shown = table(("a|b", "c"), [("1", "two\nlines")], note="A note.")
    assert markdown(shown) == "| a\\|b | c |\n| --- | --- |\n| 1 | two lines |\n\nA note."
    text = document(shown, [Section("Part", (shown,), (figure(False),))])
    assert "| a figure | 2 | ≤ 1 | not met |" in text
    assert text.count("## ") == 2 and text.endswith("A note.\n")


def test_a_peer_that_is_missing_or_fails_is_told_in_words(monkeypatch):
    def missing(case):
        raise ModuleNotFoundError("No module named 'peer'")

    def broken(case):
        raise IndexError("out of range")

    monkeypatch.setattr(counting, "PEERS", {"missing": missing, "broken": broken})
    case, failures = cases()[0], {}
    assert counting.asked("missing", case, failures) == "not installed"
    assert counting.asked("broken", case, failures) == "failed"
    assert failures == {
        "missing": ["not installed"],
        "broken": ["failed on linears on 3-D input (IndexError: out of range)"],
    }
    assert machine.version("no-such-package") == "not installed"
    assert timing._triton([]) == "no CUDA"
    assert timing._triton(["not installed"]) == "not installed"
    assert timing._triton([1e-3, 3e-3, 2e-3]) == "2 ms"


def test_the_formulas_of_the_cases():
    x = torch.randn(2, 3)
    case = Case("a", Call(nn.Identity()), (x,), ((1, 2, 3, 4),), ((1, 2, 3, 4),))
    assert (case.forward, case.both) == (96, 144 + 168)
    assert len({case.name for case in cases()}) == 15


def memory_event(ts, size, address):
    args = {"Bytes": size, "Addr": address, "Device Type": 0, "Ev Idx": ts}
    return {"name": "[memory]", "ts": ts, "args": args}


@pytest.mark.parametrize(("scratch", "peak"), [(True, 1512), (False, 1500)])
def test_the_peak_of_a_trace(scratch, peak):
    events = [
        memory_event(1, 1000, 1),  # existed before the step
        {"name": weighing.MEASURED, "ph": "X", "ts": 10, "dur": 30},
        memory_event(11, 8, 2),  # the number handed to the operation
        {"name": "aten::div", "ph": "X", "ts": 12, "dur": 8},
        memory_event(13, 4, 3),  # its copy, inside
        memory_event(14, 500, 4),  # the result
        memory_event(15, -4, 3),
        memory_event(21, -8, 2),
        {"name": "aten::add", "ph": "X", "ts": 22, "dur": 2},
        memory_event(30, -500, 4),
        memory_event(50, 9999, 5),  # after the step
    ]
    assert weighing.peak_of(events, scratch=scratch) == peak


@pytest.fixture
def tokens(tmp_path):
    assert write_tokens(tmp_path / "tokens.bin", feeding.tokens(5_000_000)) == 5_000_000
    return tmp_path / "tokens.bin"


def test_all_ways_to_feed_give_the_same_kind_of_batch(tokens):
    whole = np.fromfile(tokens, np.uint16)
    found = feeding.ways(tokens, tokens)
    for name, way in found.items():
        x, y = way()
        assert x.shape == y.shape == (feeding.BATCH, feeding.CONTEXT), name
        assert x.dtype == torch.int64 and torch.equal(x[:, 1:], y[:, :-1]), name
        assert x[0, :8].numpy().astype(np.uint16).tobytes() in whole.tobytes(), name
    best = feeding.fastest(found, rounds=2)
    assert list(best) == list(found) and all(0 < took < 10 for took in best.values())


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere pages are not let go")
def test_what_is_read_is_watched_from_outside(tokens):
    kept = feeding.reading(tokens, mapped=0, seconds=0.3)
    whole = feeding.reading(tokens, mapped=feeding.ALL, seconds=0.3)
    assert kept.batches > 10 < whole.batches
    assert whole.grown > 8e6 and kept.grown < whole.grown  # of a file of 10 MB


@pytest.mark.parametrize(("grown", "met"), [(99_000_000, True), (100_000_000, False)])
def test_the_verdicts_on_feeding(grown, met):
    assert feeding._memory(feeding.Reading(1, grown)).met is met
    best = {feeding.BATCHES: 2.0, feeding.GATHER: 1.0, feeding.LISTS: 20.0}
    assert [figure.found for figure in feeding._speeds(best, 0.0)] == ["10.0", "2.00"]
    assert all(figure.met for figure in feeding._speeds(best, 0.0))
    worse = {**best, feeding.BATCHES: 2.1}
    assert not any(figure.met for figure in feeding._speeds(worse, 0.0))


def test_the_verdicts_on_the_chapters_seconds():
    took = {"04_flops": 27.0, "08_loop": 30.0, "10_transformer": 60.0}
    average, nearest = chapters.figures(took, 0.0)
    assert not average.met and average.found == "39.0"
    assert nearest.met and "08_loop" in nearest.name
    late = chapters.figures({**took, "10_transformer": 60.1}, 0.0)[1]
    assert late.failed and "10_transformer" in late.name and late.wanted.startswith("≤ 60")
    assert all(figure.met for figure in chapters.figures({"04_flops": 20.0}, 0.0))
    assert not chapters.figures(took, 0.3)[0].failed
