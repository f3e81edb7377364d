"""The machines that the notebooks are tested on: a small one whose limits hold, a pretended one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import machines

SAY = (
    "import os, pathlib\n"
    "group = [l for l in open('/proc/self/cgroup') if 'course-small' in l]\n"
    "print(len(os.sched_getaffinity(0)), bool(group))\n"
    "from course_utils import hardware\n"
    "print(hardware.usable_cores(), hardware.usable_memory() <= 2 * 10**9)\n"
)


def test_the_small_machine_has_one_core_and_two_gigabytes():
    try:
        with machines.small() as prefix:
            ran = subprocess.run([*prefix, sys.executable, "-c", SAY], text=True,
                                 capture_output=True, cwd=machines.ROOT)  # fmt: skip
    except OSError as error:
        pytest.skip(f"limits cannot be set here: {error}")
    assert ran.stdout.split() == ["1", "True", "1", "True"], ran.stderr


@pytest.mark.parametrize("status", [0, 3])
def test_what_the_small_machine_found_is_what_is_returned(monkeypatch, tmp_path, status):
    """Also when its group cannot be removed yet."""
    monkeypatch.setattr(machines, "GROUPS", tmp_path)
    monkeypatch.setattr(machines.shutil, "which", lambda _: "/usr/bin/taskset")
    (tmp_path / "memory").mkdir()
    run = lambda *_, **__: subprocess.CompletedProcess([], status)  # noqa: E731
    monkeypatch.setattr(machines.subprocess, "run", run)
    assert machines.main() == status
    assert list((tmp_path / "memory").glob("*/memory.limit_in_bytes"))  # so it was not empty


def test_where_no_limit_can_be_set_it_is_said(monkeypatch, capsys):
    monkeypatch.setattr(machines, "GROUPS", Path("/nowhere"))
    assert machines.main() == 0 and "SKIPPED: one core and 2 GB" in capsys.readouterr().out


def test_kernels_find_the_pretended_accelerator_by_a_startup_file():
    with machines.pretended() as variables:
        (startup,) = Path(variables["IPYTHONDIR"]).glob("profile_default/startup/*.py")
        assert startup.read_text() == "import tests.pretended\n"
        assert os.fspath(machines.ROOT) == variables["PYTHONPATH"]
    assert not startup.exists()


def test_missing_compilers_are_named(monkeypatch):
    monkeypatch.setattr(machines.shutil, "which", lambda tool: None)
    assert machines.missing() == "the pretended accelerator needs g++ and ninja"
    monkeypatch.setattr(machines.shutil, "which", lambda tool: tool)
    assert machines.missing() == ""
