"""Recorded runs: real measurements only, readable, and complete."""

import json
from datetime import date

import pytest

from course_utils import measure, record


def test_every_shipped_run_is_complete_and_consistent():
    assert record.runs()
    for run in record.runs():
        assert date.fromisoformat(run.date) <= date.today()
        assert {"fp32", "bf16", "fp16"} == set(run.peaks) == set(run.products)
        assert run.torch and run.device and run.bandwidth > 1e9
        for kind, best in record.best_rates(run).items():
            assert 0.5 < best / run.peaks[kind] < 1.2, (run.device, kind)


def test_the_table_has_a_row_a_run():
    shown = record.recorded()
    assert len(shown.rows) == len(record.runs())
    assert shown.rows[0][0] == record.runs()[0].name
    assert "≈" not in repr(shown)  # recorded elsewhere: the same text on every machine


def test_a_machine_is_recorded_and_read_back(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "_insist", lambda results: None)  # other tests may run beside it
    path = record.record(tmp_path, budget=2)
    run = record._read(path.read_text("utf-8"))
    assert run.products["fp32"][64] > 0 and run.peaks["fp32"] > 1e8
    assert path.parent == tmp_path and path.name.endswith("cores.json")


def test_a_busy_machine_is_not_recorded(tmp_path, monkeypatch, capsys):
    busy = measure.Bandwidth(1.0, "measured", "here", False, "another program ran")
    monkeypatch.setattr(measure, "measured_bandwidth", lambda *_, **__: busy)
    assert record.main([str(tmp_path), "--seconds", "1"]) == 1
    assert "too busy to be recorded" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_bad_input(tmp_path, capsys):
    with pytest.raises(ValueError, match="budget must be"):
        record.record(tmp_path, budget=0)
    with pytest.raises(ValueError, match="must have the field 'device'"):
        record._read(json.dumps({"backend": "cpu"}))
