"""Recorded runs: real measurements only, readable, and complete."""

import json
from datetime import date
from importlib.resources import files

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
    run = record._read(path)
    assert run.products["fp32"][64] > 0 and run.peaks["fp32"] > 1e8
    assert path.parent == tmp_path and path.name.endswith("cores.json")


def test_a_busy_machine_is_not_recorded(tmp_path, monkeypatch, capsys):
    busy = measure.Bandwidth(1.0, "measured", "here", False, "another program ran")
    monkeypatch.setattr(measure, "measured_bandwidth", lambda *_, **__: busy)
    assert record.main([str(tmp_path), "--seconds", "1"]) == 1
    assert "too busy to be recorded" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_bad_input(tmp_path):
    with pytest.raises(ValueError, match="budget must be"):
        record.record(tmp_path, budget=0)


@pytest.mark.parametrize("folder", ["missing", "file"])
def test_a_folder_that_cannot_be_written_into_is_told_before_measuring(
    tmp_path, monkeypatch, capsys, folder
):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(measure, "sweep", lambda *_, **__: pytest.fail("this measures"))
    assert record.main([str(tmp_path / folder)]) == 1
    assert f"folder must be a folder that can be written into, got {tmp_path}" in (
        capsys.readouterr().err
    )


SHIPPED = files("course_utils").joinpath("recorded/amd-epyc-2-cores.json").read_text("utf-8")


def changed(**fields):
    return json.dumps({**json.loads(SHIPPED), **fields})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "Expecting value"),
        (SHIPPED[:200], "line "),
        ("3", r"its fields must be device, .*, got 3 \(int\)"),
        ("null", "its fields must be .*, got None"),
        ("[]", "its fields must be"),
        ('{"backend": "cpu"}', "its fields must be device, .*, got backend$"),
        ("{}", "got none$"),
        (changed(extra=1), "its fields must be .*, extra$"),
        (changed(device=None), "device must be a text"),
        (changed(date=3), "date must be a text"),
        (changed(bandwidth=0), "bandwidth must be a finite number above 0, got 0"),
        (changed(bandwidth=float("nan")), "bandwidth must be a finite number"),
        (changed(cores="two"), "cores must be a finite number above 0, got 'two'"),
        (changed(peaks={"bf16": 1e9}), "peaks must have fp32"),
        (changed(peaks={"fp32": 1e9, "fp7": 1e9}), "peaks must have fp32, and may have fp32, bf16"),
        (changed(peaks=[1e9]), "peaks must have fp32"),
        (changed(peaks={"fp32": -1}), "peaks.fp32 must be a finite number above 0"),
        (changed(products=[]), "products must have fp32"),
        (changed(products={"fp32": [1]}), "products.fp32 must map sizes to seconds"),
        (changed(products={"fp32": {"x": 1.0}}), "products.fp32 must map sizes to seconds"),
        (changed(products={"fp32": {"0": 1.0}}), "a size of products.fp32 must be"),
        (changed(products={"fp32": {"64": None}}), "products.fp32.64 must be a finite number"),
        (b"\xff\xfe{", "codec can't decode"),
    ],
)
def test_a_file_that_is_no_run_is_named(tmp_path, monkeypatch, content, message):
    (tmp_path / "recorded").mkdir()
    raw = content if isinstance(content, bytes) else content.encode()
    (tmp_path / "recorded" / "bad.json").write_bytes(raw)
    monkeypatch.setattr(record, "files", lambda _: tmp_path)
    with pytest.raises(ValueError, match=f"^bad.json must be a recorded run: .*{message}"):
        record.recorded()
