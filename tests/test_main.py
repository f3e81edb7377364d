"""`make test` itself: every part runs, the sum tells of each, and one red part makes it red."""

import subprocess

import pytest

from course_utils.workshop.files import REPOSITORY
from tests import __main__ as runner

TESTS = """
import pytest

def test_one(): pass

@pytest.mark.skip(reason="no reason")
def test_two(): pass
"""
FAILING = TESTS + "def test_three(): assert 1 == 2\n"


@pytest.fixture
def parts(monkeypatch, tmp_path):
    """Lets `make test` have other parts: names with the source of their tests, or commands."""

    def chosen(**sources):
        found = {}
        for name, source in sources.items():
            path = tmp_path / f"test_{name}.py"
            path.write_text(source)
            found[name] = (("pytest", "-p", "no:cacheprovider", str(path)),)
        monkeypatch.setattr(runner, "PARTS", found)

    return chosen


def test_all_parts_run_and_one_red_part_makes_it_red(parts, capfd):
    parts(first=FAILING, second=TESTS)
    assert runner.main([]) == 1
    shown = capfd.readouterr().out
    first, second = shown.partition("== All parts\n")[2].splitlines()
    assert first.split()[:2] == ["first", "RED"] and "3 tests, 1 failed, 1 skipped" in first
    assert second.split()[:2] == ["second", "green"] and "2 tests, 1 skipped" in second
    assert "1 failed, 1 passed, 1 skipped" in shown  # pytest's own last line stays
    assert runner.main(["second"]) == 0


def test_tests_that_cannot_be_read_are_red(parts, capfd):
    parts(first="import no_such_module")
    assert runner.main([]) == 1
    assert "1 errors" in capfd.readouterr().out


def test_a_command_that_fails_does_not_stop_its_part(monkeypatch, capfd):
    monkeypatch.setattr(runner, "PARTS", {"style": (("no_such_module",), ("calendar", "1955"))})
    result = runner.run("style")
    assert not result.green and "1955" in capfd.readouterr().out


def test_an_unknown_part_is_named(capsys):
    with pytest.raises(SystemExit):
        runner.main(["stile"])
    assert "style, package, notebooks, accelerator, browser, got stile" in capsys.readouterr().err


def test_make_passes_the_parts_on():
    command = ["make", "-n", "-C", str(REPOSITORY), "test", "PART=style"]
    shown = subprocess.run(command, capture_output=True, text=True).stdout
    assert "python -m tests style" in shown
