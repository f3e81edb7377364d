"""The gate: what went elsewhere is seen, and only then may a timed test be skipped."""

import subprocess
import sys

import pytest

from course_utils.workshop.files import REPOSITORY
from tests import quiet

BURN = """
import time
while time.process_time() < 0.5: pass
print(flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("busy", "own", "refused", "share"),
    [
        (8.0, 8.0, 0.0, 0.0),
        (8.0, 2.0, 0.0, 0.75),  # 6 of the 2 × 4 processor seconds
        (2.0, 2.0, 0.4, 0.4),  # alone, but with a quota
        (2.0, 2.1, -0.01, 0.0),  # two coarse clocks
    ],
)
def test_the_share_that_went_elsewhere(monkeypatch, busy, own, refused, share):
    for name, values in {
        "perf_counter": [10.0, 14.0],
        "_busy_seconds": [100.0, 100.0 + busy],
        "_own_seconds": [5.0, 5.0 + own],
        "_refused": [refused],
    }.items():
        monkeypatch.setattr(quiet, name, iter(values).__next__)
    monkeypatch.setattr(quiet.psutil, "cpu_count", lambda: 2)
    with quiet.watch() as seen:
        pass
    assert seen.share == pytest.approx(share)


def test_what_this_process_started_is_its_own():
    before = quiet._own_seconds()
    with subprocess.Popen([sys.executable, "-c", BURN], stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        alive = quiet._own_seconds() - before
        child.kill()
    assert alive >= 0.45 and quiet._own_seconds() - before >= 0.45  # counted in 1/100 s


def test_a_thread_that_runs_half_of_the_time_is_refused_the_other_half(monkeypatch):
    monkeypatch.setattr(quiet, "perf_counter", iter([10.0, 10.1, 10.4, 10.4]).__next__)
    monkeypatch.setattr(quiet, "thread_time", iter([3.0, 3.2]).__next__)
    assert quiet._refused() == pytest.approx(0.5)


def test_a_quiet_machine_has_no_excuse():
    assert quiet.noise(0.05) == ""
    assert quiet.noise(0.3) == "not quiet: 30% of the processors went elsewhere"


SAMPLE = """
import pytest
from tests import conftest

conftest.noise = lambda share: {noise!r}

@pytest.mark.quiet
def test_that_fails(): assert 1 == 2

@pytest.mark.quiet
def test_that_passes(): pass

def test_without_the_mark(): assert 1 == 2
"""


@pytest.mark.parametrize(
    ("noise", "outcome"),
    [("", "2 failed, 1 passed"), ("too loud", "1 failed, 1 passed, 1 skipped")],
)
def test_only_a_marked_test_that_fails_on_a_noisy_machine_is_skipped(tmp_path, noise, outcome):
    sample = tmp_path / "test_sample.py"
    sample.write_text(SAMPLE.format(noise=noise))
    command = [sys.executable, "-m", "pytest", "-rs", "-p", "tests.conftest"]
    command += ["-p", "no:cacheprovider", sample]
    run = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert outcome in run.stdout, run.stdout
    assert ("too loud, and test_that_fails failed (assert 1 == 2)" in run.stdout) is bool(noise)
