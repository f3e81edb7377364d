"""The course's folders and chapters; files are written completely or not at all."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import nbformat

REPOSITORY = Path(__file__).resolve().parents[2]
NOTEBOOKS = REPOSITORY / "notebooks"
WORKBOOK = REPOSITORY / "workbook"
STUDENT = REPOSITORY / "student"
PICTURES = "*.svg"  # beside the notebooks that show them
PROGRESS = "progress.json"  # in the workbook: ledger rows, hints and solved exercises


class WorkshopError(Exception):
    """Something that the user can correct; its text is the one line they see."""


def chapters(folder: Path = NOTEBOOKS) -> list[Path]:
    """The notebooks of `folder`, in the order of their chapters.

    Raises:
        WorkshopError: there is none.
    """
    found = sorted(folder.glob("*.ipynb"))
    if not found:
        raise WorkshopError(f"No notebooks in {folder}: is this a whole clone of the course?")
    return found


def find_chapter(number: str, folder: Path = NOTEBOOKS) -> Path:
    """The notebook of chapter `number` ("04" or "4").

    Raises:
        WorkshopError: there is no such chapter; names those that exist.
    """
    by_number = {path.name.partition("_")[0]: path for path in chapters(folder)}
    given = str(number).strip()
    chapter = by_number.get(given.zfill(2)) if given else None
    if chapter is None:
        raise WorkshopError(
            f"There is no chapter {str(number)!r}; the chapters are {', '.join(by_number)}."
        )
    return chapter


@contextmanager
def writing(target: Path) -> Iterator[Path]:
    """A temporary path beside `target` that takes its name when the block ends well.

    Raises:
        WorkshopError: `target` cannot be written.
    """
    part = target.with_name(f".{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield part
        os.replace(part, target)
    except OSError as error:
        raise WorkshopError(
            f"Cannot write {target}: {error.strerror or error}. "
            "Make its folder writable, or clone the course into a folder of your own."
        ) from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def copy(source: Path, target: Path) -> None:
    """Copy the content of `source` to `target`, replacing it."""
    with writing(target) as part:
        shutil.copyfile(source, part)


def without_outputs(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """`notebook`, changed: no cell has outputs or a number."""
    from nbconvert.preprocessors import ClearOutputPreprocessor  # slow to import

    return ClearOutputPreprocessor().preprocess(notebook, {})[0]


def write_notebook(notebook: nbformat.NotebookNode, target: Path) -> None:
    """Save `notebook` byte for byte as JupyterLab would."""
    with writing(target) as part:
        nbformat.write(notebook, part)
