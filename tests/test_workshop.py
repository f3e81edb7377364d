"""The commands behind the Makefile: the learner's copy, saved runs, student copies, refusals."""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course_utils.workshop import lab, student, workbook
from course_utils.workshop.__main__ import main
from course_utils.workshop.execute import execute
from course_utils.workshop.files import REPOSITORY, WorkshopError


def write(path: Path, *cells: nbformat.NotebookNode) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(new_notebook(cells=list(cells)), path)
    return path


def ran(source: str, shown: str) -> nbformat.NotebookNode:
    """A code cell with a number and an output."""
    printed = new_output("stream", text=f"{shown}\n")
    return new_code_cell(source, outputs=[printed], execution_count=7)


@pytest.fixture
def notebooks(tmp_path) -> Path:
    folder = tmp_path / "notebooks"
    write(folder / "00_first.ipynb", new_code_cell("1 + 1"))
    write(folder / "04_second.ipynb", ran("2 + 2", "4"), new_markdown_cell("It is *four*."))
    (folder / "glossary.md").write_text("# Glossary\n")
    return folder


PROGRESS = {"version": 1, "ledger": {"00.1": {}, "04.1": {}}, "hints": {"04.2": 1}, "solved": []}


@pytest.fixture
def progress(tmp_path) -> Path:
    """What a learner did in both chapters, in the workbook."""
    path = tmp_path / "workbook" / "progress.json"
    path.parent.mkdir()
    path.write_text(json.dumps(PROGRESS))
    return path


@pytest.fixture
def places(tmp_path, notebooks) -> list[str]:
    """Options that send every command to temporary folders."""
    folders = {name: tmp_path / name for name in ("notebooks", "workbook", "student")}
    return [f"--{name}={folder}" for name, folder in folders.items()]


class TestWorkbook:
    def test_holds_every_chapter_and_the_glossary(self, tmp_path, notebooks):
        workbook.refresh(tmp_path / "mine", notebooks)
        names = {path.name for path in notebooks.iterdir()}
        assert {path.name for path in (tmp_path / "mine").iterdir()} == names
        for name in ("00_first.ipynb", "glossary.md"):  # nothing to clear
            assert (tmp_path / "mine" / name).read_bytes() == (notebooks / name).read_bytes()

    def test_has_no_outputs_and_is_else_the_same(self, tmp_path, notebooks):
        before = (notebooks / "04_second.ipynb").read_bytes()
        workbook.refresh(tmp_path / "mine", notebooks)
        copied = nbformat.read(tmp_path / "mine" / "04_second.ipynb", as_version=4)
        assert (copied.cells[0].outputs, copied.cells[0].execution_count) == ([], None)
        original = nbformat.reads(before.decode(), as_version=4)
        original.cells[0].update(outputs=[], execution_count=None)
        assert copied == original
        assert (notebooks / "04_second.ipynb").read_bytes() == before

    def test_is_never_overwritten(self, tmp_path, notebooks):
        workbook.refresh(tmp_path / "mine", notebooks)
        mine = tmp_path / "mine" / "00_first.ipynb"
        mine.write_text("my work")
        assert workbook.refresh(tmp_path / "mine", notebooks) == []
        assert mine.read_text() == "my work"

    def test_gains_new_chapters(self, tmp_path, notebooks):
        workbook.refresh(tmp_path / "mine", notebooks)
        write(notebooks / "05_third.ipynb")
        assert workbook.refresh(tmp_path / "mine", notebooks) == [
            tmp_path / "mine" / "05_third.ipynb"
        ]

    def test_shows_slides_as_the_course_does_now(self, tmp_path, notebooks):
        for style in ("h1 { color: red }", "h1 { color: blue }"):
            (notebooks / "rise.css").write_text(style)
            workbook.refresh(tmp_path / "mine", notebooks)
            assert (tmp_path / "mine" / "rise.css").read_text() == style

    def test_shows_pictures_as_the_course_does_now(self, tmp_path, notebooks):
        for picture in ("<svg/>", "<svg></svg>"):
            (notebooks / "map.svg").write_text(picture)
            workbook.refresh(tmp_path / "mine", notebooks)
            assert (tmp_path / "mine" / "map.svg").read_text() == picture


class TestReset:
    def test_keeps_the_old_one_each_time(self, tmp_path, notebooks):
        workbook.refresh(tmp_path / "mine", notebooks)
        mine = tmp_path / "mine" / "04_second.ipynb"
        fresh, kept = mine.read_bytes(), []
        for work in (b"my first try", b"no UTF-8: \xff"):
            mine.write_bytes(work)
            kept.append(workbook.reset("04", mine.parent, notebooks))
            assert mine.read_bytes() == fresh
        assert [path.read_bytes() for path in kept] == [b"my first try", b"no UTF-8: \xff"]

    def test_keeps_what_was_only_run(self, tmp_path, notebooks):
        mine = tmp_path / "mine" / "04_second.ipynb"
        mine.parent.mkdir()
        shutil.copy(notebooks / mine.name, mine)  # it has outputs
        kept = workbook.reset("04", mine.parent, notebooks)
        assert kept.read_bytes() == (notebooks / mine.name).read_bytes()

    def test_keeps_nothing_that_was_not_changed(self, tmp_path, notebooks):
        for _ in range(2):
            assert workbook.reset("4", tmp_path / "mine", notebooks) is None
        assert [path.name for path in (tmp_path / "mine").iterdir()] == ["04_second.ipynb"]

    @pytest.mark.parametrize("number", ["07", "", "x", "-1", "../00", "00_first"])
    def test_names_the_chapters_when_it_gets_another(self, number, notebooks, tmp_path):
        with pytest.raises(WorkshopError) as error:
            workbook.reset(number, tmp_path / "mine", notebooks)
        assert str(error.value) == f"There is no chapter {number!r}; the chapters are 00, 04."

    @pytest.mark.parametrize("number", ["04", "4"])
    def test_drops_the_chapter_from_the_progress_and_says_so(
        self, number, places, progress, capsys
    ):
        dropped = "Its ledger, solved exercises and hints are dropped from your progress."
        assert main(["reset", number, *places]) == 0
        assert dropped in capsys.readouterr().out
        left = {**PROGRESS, "ledger": {"00.1": {}}, "hints": {}}
        assert json.loads(progress.read_text()) == left
        assert main(["reset", number, *places]) == 0
        assert capsys.readouterr().out == f"Chapter {number} is new again.\n"
        assert json.loads(progress.read_text()) == left

    def test_without_progress_makes_none(self, places, tmp_path, capsys):
        assert main(["reset", "04", *places]) == 0
        assert capsys.readouterr().out == "Chapter 04 is new again.\n"
        assert [path.name for path in (tmp_path / "workbook").iterdir()] == ["04_second.ipynb"]

    def test_puts_damaged_progress_aside(self, places, progress, capsys):
        progress.write_text("[")
        assert main(["reset", "04", *places]) == 0
        assert "progress.damaged-1.json" in capsys.readouterr().out
        assert progress.with_name("progress.damaged-1.json").read_text() == "["


class TestStudentCopies:
    def test_lack_solutions_and_outputs(self, tmp_path, notebooks):
        write(
            notebooks / "04_second.ipynb",
            new_markdown_cell("## Solution to the crisis: count"),
            ran("print(42)", "42"),
            new_code_cell("answer = None", metadata={"tags": ["exercise"]}),
            new_markdown_cell("### Solution"),
            new_code_cell("the_answer = 42", metadata={"tags": ["solution"]}),
            new_code_cell("also = 42", metadata={"tags": ["solution"]}),
            new_markdown_cell("## Next"),
        )
        student.make_copies(tmp_path / "student", notebooks)
        copy = nbformat.read(tmp_path / "student" / "04_second.ipynb", as_version=4)
        assert [cell.source for cell in copy.cells] == [
            "## Solution to the crisis: count",
            "print(42)",
            "answer = None",
            "## Next",
        ]
        assert copy.cells[1].outputs == [] and copy.cells[1].execution_count is None

    def test_have_the_pictures_that_they_show(self, tmp_path, notebooks):
        (notebooks / "map.svg").write_text("<svg/>")
        written = student.make_copies(tmp_path / "student", notebooks)
        assert written[-1].read_text() == "<svg/>" and written[-1].name == "map.svg"

    def test_the_course_itself_is_left_alone(self, tmp_path, notebooks):
        before = {path: path.read_bytes() for path in notebooks.iterdir()}
        student.make_copies(tmp_path / "student", notebooks)
        assert {path: path.read_bytes() for path in notebooks.iterdir()} == before


LIVE_FIGURE = """
from IPython.display import display
class Figure:
    value = "first"
    def __repr__(self): return self.value
figure = Figure()
handle = display(figure, display_id=True)
print("a", flush=True)
figure.value = "last"
handle.update(figure)
print("b", flush=True)
"""


class TestExecute:
    def test_saves_a_clean_run(self, tmp_path):
        cells = [new_code_cell("1 + 1", execution_count=9), ran("", "old"), new_code_cell("3")]
        cells[0].metadata = {"tags": ["kept"], "execution": {"iopub.status.busy": "today"}}
        path = write(tmp_path / "00.ipynb", *cells)
        execute(path)
        saved = nbformat.read(path, as_version=4)
        assert [cell.execution_count for cell in saved.cells] == [1, None, 2]
        assert saved.cells[1].outputs == []
        assert [cell.id for cell in saved.cells] == [cell.id for cell in cells]
        assert saved.cells[0].metadata == {"tags": ["kept"]}
        assert set(saved.metadata) == {"kernelspec", "language_info"}

    def test_a_second_run_changes_nothing(self, tmp_path):
        path = write(tmp_path / "00.ipynb", new_code_cell(LIVE_FIGURE))
        execute(path)
        first = path.read_bytes()
        execute(path)
        assert path.read_bytes() == first

    def test_keeps_a_live_figures_last_state_and_joins_streams(self, tmp_path):
        path = write(tmp_path / "00.ipynb", new_code_cell(LIVE_FIGURE))
        execute(path)
        figure, printed = nbformat.read(path, as_version=4).cells[0].outputs
        assert figure.data["text/plain"] == "last"
        assert printed.text == "a\nb\n"

    def test_keeps_no_widgets(self, tmp_path):
        path = write(
            tmp_path / "00.ipynb", new_code_cell("import ipywidgets\nipywidgets.IntSlider()")
        )
        execute(path)
        saved = nbformat.read(path, as_version=4)
        assert set(saved.cells[0].outputs[0].data) == {"text/plain"}
        assert "widgets" not in saved.metadata

    def test_keeps_nothing_in_the_progress_of_the_one_who_runs_it(self, tmp_path, monkeypatch):
        monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.json"))
        source = "import os\nprint(os.environ.get('COURSE_PROGRESS'), 'PATH' in os.environ)"
        path = write(tmp_path / "00.ipynb", new_code_cell(source))
        execute(path)
        assert nbformat.read(path, as_version=4).cells[0].outputs[0].text == "None True\n"

    @pytest.mark.parametrize(
        "source", ["import sys\nprint('oh', file=sys.stderr)", "1 / 0", "import os\nos._exit(1)"]
    )
    def test_refuses_a_bad_run_and_leaves_the_file(self, source, tmp_path):
        path = write(tmp_path / "00.ipynb", new_code_cell("1"), new_code_cell(source))
        before = path.read_bytes()
        with pytest.raises(WorkshopError, match="00.ipynb is left as it was"):
            execute(path)
        assert path.read_bytes() == before


class TestLab:
    def test_keeps_the_progress_in_the_folder_that_it_serves(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("COURSE_PROGRESS", "somewhere else")  # as in another lab's terminal
        named = []
        main = "jupyterlab.labapp.main"
        monkeypatch.setattr(main, lambda options: named.append(os.environ["COURSE_PROGRESS"]))
        lab.start(Path("workbook"), "/lab")
        assert named == [str(tmp_path / "workbook" / "progress.json")]


class TestRefusals:
    """Each is one line on stderr and exit code 1."""

    @pytest.fixture(autouse=True)
    def no_server(self, monkeypatch):
        monkeypatch.setattr("jupyterlab.labapp.main", lambda options: pytest.fail("it started"))

    def refused(self, capsys, *arguments: str) -> str:
        assert main(list(arguments)) == 1
        line = capsys.readouterr().err
        assert line.count("\n") == 1
        return line

    def test_an_unknown_chapter(self, capsys, places):
        for command in ("reset", "slides", "execute"):
            assert "the chapters are 00, 04" in self.refused(capsys, command, "13", *places)

    def test_a_folder_that_cannot_be_written(self, capsys, places, tmp_path):
        (tmp_path / "workbook").write_text("a file, not a folder")
        for command in (["lab"], ["reset", "00"]):
            line = self.refused(capsys, *command, *places)
            assert str(tmp_path / "workbook") in line and "Cannot write" in line

    def test_progress_that_cannot_be_written(self, capsys, places, progress):
        progress.unlink()
        progress.mkdir()
        line = self.refused(capsys, "reset", "04", *places)
        assert f"Cannot write {progress}: Is a directory." in line

    def test_no_notebooks(self, capsys, places, notebooks):
        shutil.rmtree(notebooks)
        assert "No notebooks" in self.refused(capsys, "lab", *places)

    def test_a_port_in_use(self, capsys, places):
        with socket.create_server((lab.LOOPBACK, 0)) as server:
            port = str(server.getsockname()[1])
            line = self.refused(capsys, "lab", *places, "--port", port)
        assert f"Port {port} cannot be used" in line and "leave --port out" in line

    def test_a_port_that_is_none(self, capsys, places):
        assert "from 1 to 65535" in self.refused(capsys, "lab", *places, "--port=70000")


@pytest.mark.skipif(shutil.which("make") is None, reason="no make on this machine")
class TestMake:
    def make(self, folder: Path, python: str) -> str:
        shutil.copy(REPOSITORY / "Makefile", folder)
        for name in ("requirements.txt", "pyproject.toml"):
            (folder / name).touch()
        command = ["make", "lab", f"PYTHON={python}"]
        outer = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")  # these tests may run under make themselves
        env = {name: value for name, value in os.environ.items() if name not in outer}
        run = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
        assert run.returncode != 0
        assert run.stdout.count("\n") == 1 and "Traceback" not in run.stderr
        return run.stdout

    def pretend_python(self, folder: Path, pretence: str) -> str:
        """A Python that runs `pretence` before the code it is given."""
        path = folder / "python"
        path.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{pretence}\n$2"\n')
        path.chmod(0o755)
        return str(path)

    def test_says_that_python_is_missing(self, tmp_path):
        assert "Python is missing" in self.make(tmp_path, "no-such-python")

    def test_says_that_python_is_too_old(self, tmp_path):
        old = self.pretend_python(tmp_path, "import sys; sys.version_info = (3, 10, 9)")
        assert "too old" in self.make(tmp_path, old)

    def test_says_that_venv_is_missing(self, tmp_path):
        bare = self.pretend_python(tmp_path, "import sys; sys.modules['ensurepip'] = None")
        assert "python3-venv" in self.make(tmp_path, bare)

    def test_lists_its_commands(self):
        command = ["make", "-C", str(REPOSITORY)]
        listed = subprocess.run(command, capture_output=True, text=True).stdout
        for name in ("lab", "test", "execute", "format", "reset", "student", "slides", "torch"):
            assert f"make {name} " in listed
