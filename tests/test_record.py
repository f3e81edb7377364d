"""Recorded runs: real measurements only, readable, and complete."""

from dataclasses import replace
from datetime import date

import pytest

from course_utils import hardware, measure, predict
from course_utils.hardware import recordings
from course_utils.measure import record


@pytest.mark.parametrize("run", hardware.runs(), ids=lambda run: run.name)
def test_every_shipped_run_is_complete_and_consistent(run):
    assert all(isinstance(text, str) for text in (run.device, run.backend, run.torch, run.python))
    assert run.device and run.torch and run.cores > 0 and 1e9 < run.bandwidth < 1e14
    assert date.fromisoformat(run.date) <= date.today()
    assert {"fp32"} <= set(run.peaks) == set(run.products) <= set(hardware.DTYPES)
    for kind, points in run.products.items():
        rates = [predict.matmul_flops(n, n, n) / seconds for n, seconds in points.items()]
        assert 0.5 < max(rates) / run.peaks[kind] < 1.2, kind


def test_the_table_has_a_row_a_run():
    shown = hardware.recorded()
    assert len(shown.rows) == len(hardware.runs()) > 0
    assert shown.rows[0][0] == hardware.runs()[0].name
    assert "≈" not in repr(shown)  # recorded elsewhere: the same text on every machine


@pytest.mark.quiet
def test_a_machine_is_recorded_and_read_back(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "_insist", lambda results: None)  # other tests may run beside it
    path = record.record(tmp_path, budget=2)
    run = hardware.read_run(path)
    assert run.products["fp32"][64] > 0 and run.peaks["fp32"] > 1e8
    assert path.parent == tmp_path and path.name.endswith("cores.json")


GPU = hardware.Run("A GPU", "cuda", 16, "2", "3", "2026-11-30", 3e12,
                   {"fp32": 50e12, "bf16": 700e12}, {},
                   {"tf32": 350e12, "block": 512.0, "call": 8e-6, "device": 2e-6,
                    "pageable": 11e9, "pinned": 55e9, "kernels": 42.0, "gaps": 0.913})  # fmt: skip


@pytest.mark.parametrize(
    ("quantity", "words"),
    [
        ("fp32 matmuls as TF32", "350 TFLOP/s, 7 × that of plain fp32"),
        ("bf16 matmuls", "700 TFLOP/s, 14 × that of plain fp32"),
        ("a tensor of 4 bytes", "512 bytes of memory"),
        ("launching", "8 µs a call, of which the device works 2 µs"),
        ("pinned copies", "55 GB/s, 5 × that from pageable memory"),
        ("a small training step", "42 kernels, and the device waits for 91% of the time"),
    ],
)
def test_what_this_machine_may_lack_stands_beside_it(monkeypatch, quantity, words):
    assert set(hardware.QUANTITIES) >= {quantity}
    processor = hardware.runs()[0]
    monkeypatch.setattr(recordings, "runs", lambda: (processor,))
    assert hardware.elsewhere(quantity).rows[-1] == ("a GPU", "not recorded yet", "–")
    monkeypatch.setattr(recordings, "runs", lambda: (processor, GPU))
    assert hardware.elsewhere(quantity).rows[-1] == ("A GPU", "2026-11-30", words)
    monkeypatch.setattr(recordings, "runs", lambda: (replace(GPU, accelerator={}),))
    assert "≈" not in repr(hardware.elsewhere(quantity))
    with pytest.raises(ValueError, match="quantity must be one of"):
        hardware.elsewhere("luck")


@pytest.mark.parametrize("lacking", ["pageable", "pinned", "kernels", "gaps"])
def test_half_of_a_pair_is_not_told(monkeypatch, lacking):
    some = {kind: value for kind, value in GPU.accelerator.items() if kind != lacking}
    monkeypatch.setattr(recordings, "runs", lambda: (replace(GPU, accelerator=some),))
    quantity = "pinned copies" if lacking.startswith("p") else "a small training step"
    assert GPU.name not in repr(hardware.elsewhere(quantity))


def test_the_small_training_step_is_one():
    assert record._step("cpu", 0.02) == record._copies("cpu", 0.02) == {}


def test_a_busy_machine_is_not_recorded(tmp_path, monkeypatch, capsys):
    busy = measure.Bandwidth(1.0, "measured", "here", "another program ran")
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
