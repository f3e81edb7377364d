"""What the notebooks' tests compare, and that a notebook fails for its memory, not for its time."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from nbval.plugin import get_sanitize_patterns

from course_utils.workshop.execute import execute
from course_utils.workshop.files import REPOSITORY


def sanitized(text: str) -> str:
    config = (REPOSITORY / "tests" / "nbval.cfg").read_text()
    for regex, replacement in get_sanitize_patterns(config):
        text = re.sub(regex, replacement, text)
    return text


@pytest.mark.parametrize(
    "one, other",
    [
        ("copy ≈ 3 ms", "copy ≈ 41 us"),
        ("ratio | ≈ 2.1 | of 4", "ratio | ≈ not reached| of 4"),
        ("<td>≈ 3 ms</td><td>4</td>", "<td>≈ 5 s, not comparable</td><td>4</td>"),
        ("one ≈ 1\ntwo ≈ 2\n", "one ≈ 3\ntwo ≈ 4\n"),
        ("a\nOn this machine a view is cheap.\nb", "a\nOn this machine it is not: 4 | 5 < 6\nb"),
        ("<p>On this machine: 2 cores</p>", "<p>On this machine: 64 cores and a GPU</p>"),
    ],
)
def test_measured_fields_may_differ(one, other):
    assert sanitized(one) == sanitized(other)


@pytest.mark.parametrize(
    "one, other",
    [
        ("copy ≈ 3 ms", "view ≈ 3 ms"),
        ("| ≈ 3 ms | 4", "| ≈ 3 ms | 5"),
        ("one ≈ 1\ntwo ≈ 2\n", "one ≈ 1\nthree ≈ 2\n"),
        ("one ≈ 1\ntwo ≈ 2\n", "one ≈ 1\n"),
        ("<td>≈ 3</td><td>4</td>", "<td>≈ 3</td><td>5</td>"),
        ("On this machine\nthe answer is 4", "On this machine\nthe answer is 5"),
        ("not On this machine: 4", "not On this machine: 5"),
    ],
)
def test_everything_else_is_compared(one, other):
    assert sanitized(one) != sanitized(other)


@pytest.fixture(scope="module")
def greedy(tmp_path_factory) -> Path:
    """A notebook that holds 200 MB for a moment and takes a second."""
    source = "import time\nheld = b'x' * 200_000_000\ndel held\ntime.sleep(1)"
    path = tmp_path_factory.mktemp("greedy") / "00_greedy.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell(source)]), path)
    execute(path)
    return path


def nbval(notebook: Path, *options: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "pytest", "-p", "tests.nbval_budget", "-p", "no:cacheprovider"]
    command += ["--nbval", "--nbval-current-env", notebook, *options]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)


def test_within_its_budget_a_notebook_passes_and_is_listed(greedy):
    run = nbval(greedy)
    assert run.returncode == 0, run.stdout
    assert re.search(r"00_greedy.ipynb +\d+\.\d s +\d+ MB", run.stdout)


def test_too_much_memory_fails(greedy):
    run = nbval(greedy, "--budget-mb=200")
    assert run.returncode == 1
    assert "MB resident, and 200 MB are allowed" in run.stdout


def test_a_cell_that_hangs_ends(greedy):
    run = nbval(greedy, "--nbval-cell-timeout=0.2")
    assert run.returncode == 1
    assert "Timeout of 0.2 seconds exceeded executing cell" in run.stdout
