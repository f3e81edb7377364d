"""CONTRIBUTING.md and README.md stay true: what they name exists, and the picture is the code's."""

import re
from importlib.util import find_spec

import pytest

from tests.test_package import ROOT as PACKAGE
from tests.test_package import USES

ROOT = PACKAGE.parent
DOCUMENTS = {name: (ROOT / name).read_text("utf-8") for name in ("CONTRIBUTING.md", "README.md")}
GUIDE = DOCUMENTS["CONTRIBUTING.md"]
MADE_LATER = set(re.findall(r"^/([\w.]+)/$", (ROOT / ".gitignore").read_text(), re.MULTILINE))
COLUMNS = ("room", "what it holds", "it uses")  # of the picture for a terminal
FILE = r"[\w.-]+\.(?:py|md|toml|cfg|txt|ipynb|json)"
every_document = pytest.mark.parametrize("name", DOCUMENTS)


def links(text: str) -> set[str]:
    """The targets of links into the repository."""
    return {target for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target}


def code(text: str) -> list[str]:
    """What stands between backticks, fenced blocks line by line."""
    fenced = re.findall(r"^ *```\w*\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    plain = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    return [*re.findall(r"`([^`]+)`", plain), *"\n".join(fenced).splitlines()]


def paths(text: str) -> set[str]:
    """Every path, relative to the top folder, that `text` links to or names as code."""
    words = {word.strip("\"',.;:") for piece in code(text) for word in piece.split()}
    return links(text) | {word for word in words if is_path(word)}


def is_path(word: str) -> bool:
    """Whether `word` looks like a path: a folder/, a file.py, or something in a folder we have."""
    if not re.fullmatch(r"[\w./-]+", word) or word.startswith("/"):
        return False
    inside = "/" in word and (ROOT / word.partition("/")[0]).exists()
    return inside or word.endswith("/") or re.fullmatch(FILE, word.rpartition("/")[2]) is not None


def missing(text: str) -> set[str]:
    """The paths in `text` that do not exist; NN stands for any chapter, NN_name for its file."""
    patterns = {path: re.sub("NN_name|NN", "[0-9][0-9]*", path) for path in paths(text)}
    return {
        path
        for path, pattern in patterns.items()
        if path.partition("/")[0] not in MADE_LATER and not list(ROOT.glob(pattern.rstrip("/")))
    }


def commands(text: str) -> set[str]:
    """What `text`, where it stands as code, passes to make."""
    found = (re.match(r"(?:\w+=\S+ )*make (\w+)", piece.strip()) for piece in code(text))
    return {match[1] for match in found if match}


def makefile() -> set[str]:
    return set(re.findall(r"^(\w+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))


def block(opening: str) -> str:
    """The first fenced block of CONTRIBUTING.md after its opening, a regular expression."""
    return re.search(rf"```{opening}(.*?)```", GUIDE, re.DOTALL)[1]


def drawn_arrows() -> dict[str, set[str]]:
    """What each box of the diagram uses: the loose files in its brackets, and by its arrows."""
    boxes = re.findall(r"^ +(\w+)(?:\[\"\1<br>\(([\w, ]+)\)\"\])?$", block("mermaid"), re.MULTILINE)
    arrows = re.findall(r"^ +(\w+) --> (.+)$", block("mermaid"), re.MULTILINE)
    used = {room: set(re.findall(r"\w+", files)) for room, files in boxes if room != "end"}
    for room, others in arrows:
        used[room] |= set(others.split(" & "))
    return used


def written_arrows() -> dict[str, set[str]]:
    """The arrows of the picture for a terminal; a line without a room continues the one above."""
    head, _rule, *lines = block(r"\n(?=does it)").splitlines()
    room, holds, uses = map(head.index, COLUMNS)
    arrows, name = {}, ""
    for line in lines:
        name = line[room:holds].strip() or name
        arrows.setdefault(name, set()).update(line[uses:].replace("->", " ").split())
    return {name: used - {"nothing"} for name, used in arrows.items()}


def test_the_diagram_has_exactly_the_arrows_of_the_code():
    assert drawn_arrows() == USES


def test_the_picture_for_a_terminal_has_exactly_the_arrows_of_the_code():
    assert written_arrows() == USES


def test_every_room_and_loose_file_stands_in_the_picture():
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    loose = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    assert written_arrows().keys() == rooms | loose


@every_document
def test_what_it_names_exists(name):
    assert len(paths(DOCUMENTS[name])) > 10 and not missing(DOCUMENTS[name])


@every_document
def test_its_make_commands_exist(name):
    assert commands(DOCUMENTS[name]) <= makefile()


def test_the_readme_lists_every_make_command():
    assert makefile() - {"help"} <= commands(DOCUMENTS["README.md"])


@every_document
def test_the_modules_that_its_commands_run_exist(name):
    lines = "\n".join(code(DOCUMENTS[name]))
    modules = re.findall(r"-[mp] ((?:course_utils|tests)\b[\w.]*)", lines)
    assert modules and all(find_spec(module) for module in modules)


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("see `course_utils/measure/watch_maker.py`", {"course_utils/measure/watch_maker.py"}),
        ("see [this](tests/nowhere.py)", {"tests/nowhere.py"}),
        ("```\npython tests/nowhere.py\n```", {"tests/nowhere.py"}),
        ("`nowhere.toml`, `notebooks/NN_name.ipynb`, `FLOP/s`, `workbook/`", {"nowhere.toml"}),
        ("in `course_utils/nowhere/`", {"course_utils/nowhere/"}),
        ("`https://example.org/a/b.py` and `course_utils/check/exNN.py`", set()),
    ],
)
def test_a_path_that_does_not_exist_is_seen(text, lost):
    assert missing(text) == lost


def test_a_make_command_that_does_not_exist_is_seen():
    assert commands("`make coffee` or\n```\nX=1 make lab ARGS=2\n```") - makefile() == {"coffee"}
