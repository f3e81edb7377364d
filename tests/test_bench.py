"""The bench's own arithmetic: verdicts, exit status, tables, formulas. Run it: `make bench`."""

import pytest
import torch
from torch import nn

from course_utils.table import table
from tests.bench import counting, machine, timing, weighing
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
