"""`make gpu` from start to end, on a machine whose accelerator is pretended."""

import os
import subprocess
import sys
import tarfile

import nbformat
import pytest

from course_utils import hardware
from tests.gpu import __main__ as gpu
from tests.gpu import wheels
from tests.quiet import noise, watch

SITE = "import tests.pretended\n"  # in every Python that starts, kernels included


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The folder that a short run leaves, and what it printed."""
    site, folder = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("out") / "gpu"
    (site / "sitecustomize.py").write_text(SITE)
    variables = {"PYTHONPATH": os.pathsep.join([str(site), str(gpu.ROOT)])}
    command = [sys.executable, "-m", "tests.gpu", str(folder), "--seconds=300", "--chapters", "06"]
    with watch() as seen:
        ran = subprocess.run(command, cwd=gpu.ROOT, env={**os.environ, **variables}, text=True,
                             capture_output=True)  # fmt: skip
    if ran.returncode and noise(seen.share):  # no machine to be recorded, and make gpu says so
        pytest.skip(f"{noise(seen.share)}, and make gpu failed:\n{ran.stdout[-1000:]}")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder, ran.stdout


def test_the_summary_tells_the_machine_and_each_step(results):
    folder, said = results
    summary = (folder / "summary.md").read_text("utf-8")
    assert summary.strip() in said and "Pretended accelerator (pretend)" in summary
    steps = [line.split("|")[1:3] for line in summary.splitlines() if line.startswith("| ")][2:]
    assert [(name.strip(), state.strip()) for name, state in steps] == [
        ("recorded run", "green"), ("tests of the device", "green"), ("chapter 06", "green"),
    ]  # fmt: skip


def test_few_files_are_left_and_small_ones(results):
    folder, _ = results
    files = list(folder.iterdir())
    assert len(files) <= 6 and all(file.stat().st_size < 16 * 2**20 for file in files)
    (record,) = folder.glob("*.json")
    run = hardware.read_run(record)
    assert run.backend == "pretend" and run.accelerator.keys() == {"block", "pageable"}
    assert run.accelerator["block"] == 512.0 and run.accelerator["pageable"] > 1e6


def test_the_executed_notebooks_have_their_outputs_and_figures(results):
    folder, _ = results
    with tarfile.open(folder / "notebooks.tar.gz") as archive:
        (name,) = [name for name in archive.getnames() if name.endswith(".ipynb")]
        book = nbformat.reads(archive.extractfile(name).read().decode(), as_version=4)
    outputs = [output for cell in book.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert any("≈" in output.get("text", "") for output in outputs)


def test_time_that_is_up_is_said(tmp_path, monkeypatch):
    session = gpu.Session(tmp_path, dict(os.environ), until=0.0)
    step = gpu.Step("late", ["true"], "log.txt")
    assert not session.run(step) and "no time was left" in (tmp_path / "summary.md").read_text()


def test_a_step_that_takes_too_long_is_ended(tmp_path):
    command = [sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(60)"]
    state, words = gpu._run(command, dict(os.environ), 3.0)
    assert state == "not finished in 3 s" and "begun" in words


def test_wheels_are_pinned_and_unpacked(tmp_path):
    import zipfile

    assert all("==" in pin for pin in wheels.pins()) and len(wheels.pins()) == len(wheels.WANTED)
    with zipfile.ZipFile(tmp_path / "x-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("plain.py", "A = 1\n")
        wheel.writestr("x-1.data/purelib/moved.py", "B = 2\n")
    made = gpu._unpacked(tmp_path)
    assert (made / "plain.py").exists() and (made / "moved.py").exists()
