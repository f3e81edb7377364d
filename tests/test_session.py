"""What outlasts a kernel: one small file of the learner's, whatever happens to it."""

import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st

from course_utils import check, compare
from course_utils import session as module
from course_utils.compare import ABSENT, Comparison
from course_utils.compare.kept import plain, rows
from course_utils.session import Session, session


@pytest.fixture(autouse=True)
def restart(monkeypatch):
    """Begins a new kernel, as far as the session is concerned; the first one has begun."""

    def begin() -> None:
        for field in fields(Session):
            monkeypatch.setattr(session, field.name, getattr(Session(), field.name))

    begin()
    return begin


@pytest.fixture
def file(tmp_path, monkeypatch) -> Path:
    """The file that keeps the progress; it does not exist yet."""
    path = tmp_path / "progress.json"
    monkeypatch.setenv("COURSE_PROGRESS", str(path))
    return path


def row(id="04.1", **given):
    return compare(**{"id": id, "what": "x", "unit": "s", "predicted": 1.5, **given})


def listed(*chapter) -> list[str]:
    return [cells[0] for cells in compare.ledger(*chapter).rows]


def solved(chapter) -> list[str]:
    return [id for id, _, state in check.progress(chapter).rows if state == "✓ solved"]


def test_without_the_variable_nothing_is_read_or_written(tmp_path, monkeypatch):
    monkeypatch.delenv("COURSE_PROGRESS", raising=False)
    monkeypatch.chdir(tmp_path)
    row()
    check.ex00_1(0.7996)
    assert (listed(), solved("00"), list(tmp_path.iterdir())) == (["04.1"], ["00.1"], [])


def test_ledger_and_solved_exercises_outlast_a_kernel(file, restart):
    row("04.10", guess=3, measured=2.0)
    row("00.1")
    shown = repr(compare.ledger())
    check.ex00_1(0.7996)
    restart()
    row("04.9")
    assert listed("04") == ["04.9", "04.10"] and listed() == ["00.1", "04.9", "04.10"]
    assert shown.splitlines()[-1] in repr(compare.ledger())
    assert check.progress().rows[0][:2] == ("00", "1")
    check.ex00_1("nonsense")
    assert solved("00") == ["00.1"]


def test_hints_go_on_where_they_ended(file, restart):
    check.ex00_1("nonsense").hint()
    restart()
    assert check.ex00_1("nonsense").hint().words.startswith("hint 2 of")


def test_a_later_comparison_takes_the_place_of_an_earlier_one(file, restart):
    row(predicted=1)
    restart()
    row(predicted=2)
    assert [cells[3] for cells in compare.ledger().rows] == ["2 s"]


numbers = st.integers(0, 10**300) | st.floats(0, allow_infinity=False) | st.none()
texts = st.text() | st.characters(categories=["Cs"])  # a lone surrogate is no UTF-8


@given(
    guess=st.none() | st.floats(0, allow_infinity=False),
    predicted=numbers | st.just(ABSENT),
    measured=numbers | st.just(ABSENT),
    said=st.lists(texts, min_size=8, max_size=8),
    slips=st.dictionaries(texts, st.integers() | st.floats(allow_nan=False, allow_infinity=False)),
)
def test_a_row_is_exactly_the_same_again(guess, predicted, measured, said, slips):
    id, what, unit, doubt, above, near, below, remark = said
    slips = {words: n for words, n in slips.items() if abs(n) < 1e308}
    made = Comparison(id, what, unit, guess, predicted, measured, doubt, above, near, below,
                      slips, remark)  # fmt: skip
    again = rows(json.loads(json.dumps({"04.1": plain(made)})))["04.1"]
    assert again == made
    for name in ("guess", "predicted", "measured"):
        assert type(getattr(again, name)) is type(getattr(made, name))
    assert [*map(type, again.slips.values())] == [*map(type, made.slips.values())]
    assert list(again.slips) == list(made.slips)


WRITER = """
import sys
from course_utils import check, compare
for n in range(60):
    compare(id=f"{sys.argv[1]}.{n}", what="x", unit="s", predicted=n)
check.ex00_1(0.7996) if sys.argv[1] == "01" else check.ex01_2(170)
"""


def test_two_kernels_may_write_at_once(file):
    command = [sys.executable, "-c", WRITER]
    running = [
        subprocess.Popen([*command, chapter], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for chapter in ("01", "02")
    ]
    assert [process.communicate()[0] for process in running] == [b"", b""]
    assert listed() == [f"{chapter}.{n}" for chapter in ("01", "02") for n in range(60)]
    assert solved("00") == ["00.1"] and solved("01") == ["01.2"]


def test_nothing_is_written_when_nothing_changes(file):
    row()
    check.ex00_1(0.7996)
    before = file.stat()
    compare.ledger(), check.progress("00")
    row()
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


SOUND = {"version": 1, "ledger": {}, "hints": {}, "solved": []}
DAMAGED = {
    "empty": b"",
    "cut off": b'{"version": 1, "ledger": {"04.1": {"id": "04',
    "no UTF-8": b'{"version": 1, "ledger": "\xff"}',
    "no object": b"[1, 2]",
    "nested": b"[" * 100_000,
    "another version": json.dumps({**SOUND, "version": 2}).encode(),
    "no version": b"{}",
    "a part is missing": json.dumps({"version": 1, "ledger": {}, "hints": {}}).encode(),
    "a part is something else": json.dumps({**SOUND, "ledger": ["04.1"]}).encode(),
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_put_aside_and_said_once(content, file, capfd):
    file.write_bytes(content)
    row("04.1")
    row("04.2")
    assert listed() == ["04.1", "04.2"]
    said, complained = capfd.readouterr()
    assert complained == "" and said.count("\n") == 1
    assert "is damaged, or from another version of the course" in said
    assert "progress.damaged-1.json" in said
    assert file.with_name("progress.damaged-1.json").read_bytes() == content
    file.write_bytes(content)
    assert listed() == [] and file.with_name("progress.damaged-2.json").read_bytes() == content


def test_damaged_entries_are_left_out_and_the_others_stay(file, capsys):
    row("04.1")
    kept = json.loads(file.read_text())
    good = kept["ledger"]["04.1"]
    for n, bad in enumerate(
        [{"guess": "3"}, {"predicted": True}, {"measured": float("nan")}, {"measured": -1},
         {"guess": "none"}, {"slips": {"x": None}}, {"slips": 3}, {"what": None},
         {"stranger": 1}, {"unit": 3}, {"predicted": [1]}]
    ):  # fmt: skip
        kept["ledger"][f"05.{n}"] = {**good, **bad}
    kept["ledger"] |= {f"06.{n}": bad for n, bad in enumerate([3, None, {}, [0], "x", {"id": 3}])}
    kept["hints"] = {"00.1": -5, "00.2": "2", "00.3": True, "00.4": 1}
    kept["solved"] = [None, {"a": 1}, "00.1", 7]
    file.write_text(json.dumps(kept))
    assert listed() == ["04.1"] and solved("00") == ["00.1"]
    hints = [exercise("nonsense").hint().words for exercise in (check.ex00_1, check.ex00_4)]
    assert [words[:6] for words in hints] == ["hint 1", "hint 2"]
    assert capsys.readouterr().out == ""


def test_where_nothing_can_be_written_it_is_said_once_and_the_kernel_remembers(
    file, restart, monkeypatch, capfd
):
    row("04.1")
    restart()
    with monkeypatch.context() as full:
        full.setattr(Path, "write_text", fail)
        row("04.2")
        check.ex00_1(0.7996)
        assert listed() == ["04.1", "04.2"] and solved("00") == ["00.1"]
    said, complained = capfd.readouterr()
    assert complained == "" and said.count("\n") == 1
    assert f"cannot be kept in {file} (No space left on device)" in said
    row("04.3")  # there is room again
    restart()
    assert listed() == ["04.1", "04.2", "04.3"] and solved("00") == ["00.1"]


def fail(*_):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("place", ["/", ".", "file/progress.json"])
def test_a_place_where_no_file_can_be_stops_no_cell(place, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    monkeypatch.setenv("COURSE_PROGRESS", place)
    row("04.1")
    assert check.ex00_1(0.7996).state == "right"
    assert listed() == ["04.1"] and solved("00") == ["00.1"]
    said, complained = capfd.readouterr()
    assert complained == "" and said.count("\n") == 1


def test_another_kernel_that_hangs_holds_nobody_up_for_long(file, monkeypatch, capsys):
    row("04.1")
    monkeypatch.setattr(module, "PATIENCE", 0.1)
    with FileLock(file.with_name(".progress.json.lock")):
        row("04.2")
        assert listed() == ["04.1", "04.2"]
    assert "cannot be kept" in capsys.readouterr().out
    assert listed() == ["04.1", "04.2"] and "04.2" in file.read_text()


def test_an_interrupted_write_leaves_the_old_file(file, monkeypatch):
    row("04.1")
    before = file.read_bytes()
    monkeypatch.setattr(module.os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        row("04.2")
    assert file.read_bytes() == before
    assert {path.name for path in file.parent.iterdir()} <= {file.name, ".progress.json.lock"}


def interrupt(*_):
    raise KeyboardInterrupt


def test_what_is_dropped_while_a_kernel_runs_does_not_come_back(file):
    row("00.1")
    check.ex00_1("nonsense").hint()
    check.ex00_1(0.7996)
    with module.changing(file) as kept:
        kept.forget("00")
    row("04.1")
    assert listed() == ["04.1"] and solved("00") == []
    assert check.ex00_1("nonsense").hint().words.startswith("hint 1 of")


@pytest.mark.parametrize("chapter", ["04", "05", "00", "0"])
def test_a_chapter_is_forgotten_whole_and_alone(chapter, file):
    row("04.1"), row("0.1"), row("40.1"), row("05")
    check.ex00_1("nonsense").hint()
    check.ex00_1(0.7996), check.ex04_2(887)
    before = json.loads(file.read_text())
    with module.changing(file) as kept:
        assert kept.forget(chapter) == (chapter != "05")
    after = json.loads(file.read_text())
    for part in ("ledger", "hints", "solved"):
        stays = [id for id in before[part] if not id.startswith(f"{chapter}.")]
        assert list(after[part]) == stays
