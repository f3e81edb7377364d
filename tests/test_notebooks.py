"""The style budgets, for every notebook in the folder: what a learner meets before running it."""

import ast
import base64
import json
import re
import statistics
import symtable
from pathlib import Path

import nbformat
import pytest

from course_utils.session import in_order

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
IGNORED = re.compile(r"nbval[-_](ignore|skip)|raises[-_]exception", re.IGNORECASE)
SLIDES = {"slide", "subslide", "fragment", "skip", "notes", "-"}
WIDGET = "application/vnd.jupyter.widget-view+json"
COLLAPSED = "jp-MarkdownHeadingCollapsed"
# The lines of code on a slide, with a figure or a table under them; tests/browser/test_slides.py
# sees them fit. So many words of prose take the room of a line.
SLIDE_LINES = {"code": 26, "table": 21, "figure": 12}
WORDS_FOR_A_LINE = 10

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(path, kind=None):
    found = nbformat.read(path, as_version=4).cells
    return [cell for cell in found if kind in (None, cell.cell_type)]


def code(path):
    return cells(path, "code")


def prose(path):
    return cells(path, "markdown")


def tags(cell):
    return set(cell.metadata.get("tags", []))


def tagged(path, tag):
    return [cell for cell in code(path) if tag in tags(cell)]


def lines(cell):
    return len([line for line in cell.source.splitlines() if line.strip()])


def datas(path):
    return [out.data for cell in code(path) for out in cell.outputs if "data" in out]


def test_there_are_notebooks():
    assert NOTEBOOKS and all(re.match(r"\d\d_[a-z_]+$", path.stem) for path in NOTEBOOKS)
    assert len({path.name[:2] for path in NOTEBOOKS}) == len(NOTEBOOKS)


@every_notebook
def test_it_is_valid_and_small(path):
    nbformat.validate(nbformat.read(path, as_version=4))
    assert path.stat().st_size < 400_000


@every_notebook
def test_code_cells_are_short(path):
    lengths = sorted(lines(cell) for cell in code(path))
    assert statistics.median(lengths) <= 6
    assert lengths[int(0.9 * len(lengths))] <= 18
    assert max(lengths) <= 25


@every_notebook
def test_prose_is_short_and_there_is_enough_of_it(path):
    assert max(len(cell.source.split()) for cell in prose(path)) <= 120
    shown = [cell for cell in code(path) if not {"hint", "guess"} & tags(cell)]
    assert 1.0 <= len(prose(path)) / len(shown) <= 1.7


@every_notebook
def test_it_opens_with_what_the_learner_gets_and_needs(path):
    opening = cells(path)[0].source
    assert opening.startswith(f"# {path.name[:2]} · ")
    for promise in ("**You will be able to**", "**You need**", "**Time:**", "**A GPU**"):
        assert promise in opening
    assert 3 <= len(re.findall(r"^- ", opening, re.MULTILINE)) <= 5


@every_notebook
def test_it_closes_with_a_summary_and_readings(path):
    summary, readings = cells(path)[-2:]
    assert summary.source.startswith("## What to keep") and "|---|" in summary.source
    assert readings.source.startswith("## Read on")
    assert 2 <= len(re.findall(r"^- ", readings.source, re.MULTILINE)) <= 3


@every_notebook
def test_it_was_saved_from_one_clean_run(path):
    counts = [cell.execution_count for cell in code(path)]
    assert counts == list(range(1, len(counts) + 1))
    for cell in code(path):
        for out in cell.outputs:
            assert out.output_type != "error", cell.source
            assert out.get("name") != "stderr", cell.source
            assert out.get("execution_count", cell.execution_count) == cell.execution_count


@every_notebook
def test_every_cell_is_compared(path):
    for cell in code(path):
        assert not any(IGNORED.search(tag) for tag in tags(cell)), cell.source
        comments = re.findall(r"^\s*#.*$", cell.source, re.MULTILINE)
        assert not any(IGNORED.search(comment) for comment in comments), cell.source
        assert "clear_output" not in cell.source


@every_notebook
def test_every_output_has_a_text_that_can_be_compared(path):
    for data in datas(path):
        words = data.get("text/plain", "")
        assert words.strip(), data.keys()
        assert not re.search(r"0x[0-9a-f]{6,}", words), words


@every_notebook
def test_every_picture_has_words(path):
    pictures = [data for data in datas(path) if "image/png" in data]
    assert pictures
    for data in pictures:
        assert len(data["text/plain"]) > 30 and "<Figure" not in data["text/plain"]
        assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
    for cell in prose(path):
        assert not re.search(r"!\[\s*\]\(|<img(?![^>]*alt=\"[^\"]+\")", cell.source), cell.source
        assert not re.search(r"!\[[^\]]*\]\(https?:", cell.source), cell.source


@every_notebook
def test_no_widget_state_is_saved(path):
    raw = json.loads(path.read_text("utf-8"))
    assert "widgets" not in raw["metadata"] and WIDGET not in path.read_text("utf-8")


@every_notebook
def test_guesses_are_empty_and_compared(path):
    guesses = tagged(path, "guess")
    assert len(guesses) >= 3
    source = "\n".join(cell.source for cell in code(path))
    for cell in guesses:
        found = re.fullmatch(r"(guess_\d\d_\d+) = None  # .+", cell.source)
        assert found, cell.source
        assert f"guess={found[1]}" in source, f"{found[1]} is never compared"
    computed = re.search(r"guess_\d\d_\d+ (and|[*/+-]) |[*/+-] guess_", source)
    assert not computed, f"{computed[0]}: a guess may be a text; hand it to compare as it is"


@every_notebook
def test_exercises_come_with_a_folded_solution(path):
    everything = cells(path)
    exercises, solutions = tagged(path, "exercise"), tagged(path, "solution")
    ids = [cell.metadata["id"] for cell in exercises]
    assert ids and ids == [cell.metadata["id"] for cell in solutions] == in_order(set(ids))
    for exercise, solution in zip(exercises, solutions, strict=True):
        at = everything.index(solution)
        heading, after = everything[at - 1], everything[at + 1]
        hint = everything[at - 2]
        name = f"check.ex{exercise.metadata['id'].replace('.', '_')}.hint()"
        assert everything[at - 3] == exercise
        assert tags(hint) == {"hint"} and hint.source.startswith(name)
        assert "try it first" in hint.outputs[0].data["text/plain"]
        assert heading.source.endswith("Solution") and heading.metadata.get(COLLAPSED) is True
        assert after.cell_type == "markdown" and re.match("##", after.source)
        assert after.source.index(" ") < heading.source.index(" "), "the fold must end here"
        assert solution.metadata["jupyter"]["source_hidden"] is True


@every_notebook
def test_a_stub_answers_and_a_solution_does_not_tell(path):
    for cell in tagged(path, "exercise"):
        assert re.search(r"^check\.ex\d\d_\d+\(answer_", cell.source, re.MULTILINE)
        assert "○" in cell.outputs[-1].data["text/plain"], cell.source
    for cell in tagged(path, "solution"):
        assert cell.source.startswith(f"# Solution {cell.metadata['id']}\n")
        assert not re.search(r"^\s*answer_\w+ =", cell.source, re.MULTILINE), "own names, please"
        assert "✓" in cell.outputs[-1].data["text/plain"], cell.source


@every_notebook
def test_solutions_overwrite_nothing_of_the_learner(path):
    def names(cell):
        top = symtable.symtable(cell.source, path.name, "exec")
        return {symbol.get_name() for symbol in top.get_symbols() if symbol.is_assigned()}

    solutions = tagged(path, "solution")
    theirs = set().union(*(names(cell) for cell in code(path) if cell not in solutions))
    for cell in solutions:
        assert not names(cell) & theirs, cell.source


def slide_type(cell):
    return cell.metadata.get("slideshow", {}).get("slide_type")


def slides(path):
    """The cells of each slide, without those that are skipped."""
    found = []
    for cell in cells(path):
        if slide_type(cell) in ("slide", "subslide"):
            found.append([])
        if slide_type(cell) != "skip":
            found[-1].append(cell)
    return found


@every_notebook
def test_every_cell_says_what_it_is_on_a_slide(path):
    for cell in cells(path):
        assert slide_type(cell) in SLIDES, cell.source
        skipped = slide_type(cell) == "skip"
        # The ledger is the learner's own, and longer than a slide once it is filled.
        own = cell.source.startswith(("## Your ledger", "compare.ledger("))
        if cell.cell_type == "code":
            assert skipped == (own or bool({"solution", "hint"} & tags(cell))), cell.source
        else:
            tells = cell.source.endswith("Solution") or cell.source.startswith("<details>")
            assert skipped == (own or tells), cell.source


def folded(cell):
    return cell.metadata.get("jupyter", {}).get("source_hidden", False)


@every_notebook
def test_no_code_under_a_question_gives_its_answer_away(path):
    """The cell that compares a guess is folded: it holds the arithmetic."""
    for cell in code(path):
        if re.search(r"guess=guess_\d\d", cell.source):
            assert folded(cell), cell.source
    for cell in code(path):  # of what is folded, JupyterLab shows the first line
        assert not folded(cell) or cell.source.startswith(("compare(", "# ")), cell.source


@every_notebook
def test_a_guess_is_asked_before_its_answer_is_shown(path):
    """The answer waits for a key: it comes as a fragment, or fills the next slide."""
    shown = [(slide, cell) for slide in slides(path) for cell in slide]
    for slide, cell in shown:
        if "guess" in tags(cell):
            before = slide[: slide.index(cell)]
            assert any(one.cell_type == "markdown" for one in before), cell.source
            assert slide_type(cell) == "-", cell.source
        if re.search(r"guess=guess_\d\d", cell.source):
            fills = cell is slide[0] and slide_type(cell) == "subslide"
            assert fills or slide_type(cell) == "fragment", cell.source
        if slide_type(cell) == "fragment":
            assert cell is not slide[0], cell.source


@every_notebook
def test_an_exercise_is_read_before_its_answer_is_typed(path):
    for slide in slides(path):
        for cell in slide:
            if "exercise" in tags(cell):
                statement = slide[slide.index(cell) - 1]
                assert statement.source.startswith("### Exercise"), cell.source
                assert slide_type(cell) == "fragment", cell.source


@every_notebook
def test_a_slide_has_room_for_what_it_shows(path):
    for slide in slides(path):
        outputs = [out.get("data", {}) for cell in slide for out in cell.get("outputs", [])]
        figure = any("image/png" in data for data in outputs)
        table = any("<table" in data.get("text/html", "") for data in outputs)
        words = sum(len(cell.source.split()) for cell in slide if cell.cell_type == "markdown")
        typed = sum(
            len(cell.source.splitlines())
            for cell in slide
            if cell.cell_type == "code" and not folded(cell)
        )
        most = SLIDE_LINES["figure" if figure else "table" if table else "code"]
        assert typed + words // WORDS_FOR_A_LINE <= most, slide[0].source


@every_notebook
def test_it_ends_with_the_ledger_and_the_progress(path):
    sources = [cell.source for cell in code(path)]
    number = path.name[:2]
    assert sources[-2:] == [f'compare.ledger("{number}")', f'check.progress("{number}")']


@every_notebook
def test_every_guess_is_predicted_and_measured_somewhere(path):
    calls = [
        node
        for cell in code(path)
        for node in ast.walk(ast.parse(cell.source))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "compare"
    ]
    given = [{keyword.arg for keyword in call.keywords} for call in calls]
    assert all(keys & {"predicted", "measured"} for keys in given)
    assert sum("measured" in keys for keys in given) >= 3


@every_notebook
def test_no_path_of_this_machine_is_saved(path):
    text = path.read_text("utf-8")
    assert not re.search(r"/home/|/Users/|/work/|/root/|/tmp/ipykernel", text)


def test_the_glossary_covers_the_terms_in_bold():
    glossary = (ROOT / "notebooks/glossary.md").read_text("utf-8")
    entries = {m.lower() for m in re.findall(r"^\*\*(.+?)\*\*", glossary, re.MULTILINE)}
    labels = {"you will be able to", "you need", "time:", "a gpu", "next:", "guess", "guess.",
              "predict", "predict.", "predict:", "measure.", "compare", "compare.", "explain.",
              "explain the gap.", "read the figure.", "read the figure", 
              "guess:", "predicts", "measures", "compares",
              "compare with a real run.", "measure", "measure:", "compare them"}  # fmt: skip
    for path in NOTEBOOKS:
        for cell in prose(path):
            body = re.sub(r"^>.*$|^#.*$", "", cell.source, flags=re.MULTILINE)
            for term in re.findall(r"\*\*(.+?)\*\*", body):
                word = term.lower()
                known = word in labels or re.search(r"\d|·|\?$", term)
                explained = known or word in entries or word.removesuffix("s") in entries
                assert explained, f"{path.name}: {term} is not in the glossary"


@every_notebook
def test_any_cell_can_be_run_again(path):
    """A name keeps its meaning: no two cells assign it, but inside of loops."""

    def assigned(cell):
        tree = ast.parse(cell.source)
        loops = {
            name.id
            for node in ast.walk(tree)
            if isinstance(node, ast.For)
            for name in ast.walk(node)
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
        }
        top = symtable.symtable(cell.source, path.name, "exec").get_symbols()
        return {symbol.get_name() for symbol in top if symbol.is_assigned()} - loops

    seen = {}
    for cell in code(path):
        for name in assigned(cell):
            assert name not in seen, f"{name} is assigned again by:\n{cell.source}"
            seen[name] = cell


HEADINGS = {
    file.name: {
        line.lstrip("#").strip().replace(" ", "-")
        for cell in cells(file)
        if cell.cell_type == "markdown"
        for line in cell.source.splitlines()
        if line.startswith("#")
    }
    for file in NOTEBOOKS
}


@every_notebook
def test_chapters_and_exercises_are_linked_to_what_is_there(path):
    """In prose; a heading and a list of what you should have found are no places for links."""
    for cell in prose(path):
        text = "\n".join(line for line in cell.source.splitlines() if not line.startswith("#"))
        for file, heading in re.findall(r"\]\(<?([\w.]*)#([^)>]+)>?\)", text):
            assert heading in HEADINGS[file or path.name], cell.source
        if "<details>" not in text:
            bare = re.sub(r"\[[^\]]*\]\([^)]*\)|`[^`]*`", "", text)
            named = re.findall(r"[Cc]hapter (\d\d)\b", bare)
            others = {file[:2] for file in HEADINGS} - {path.name[:2]}
            assert not others & set(named), cell.source
            assert not re.search(r"[Ee]xercise \d\d\.\d", bare), cell.source
