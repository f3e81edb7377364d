"""The learner's own copy of the course: made once, never overwritten, reset on request."""

import os
from itertools import count
from pathlib import Path

import nbformat

from course_utils.session import changing

from .files import (
    NOTEBOOKS,
    PICTURES,
    PROGRESS,
    WORKBOOK,
    WorkshopError,
    chapters,
    copy,
    find_chapter,
    without_outputs,
    write_notebook,
)

SLIDE_STYLE = "rise.css"  # beside the notebooks, where jupyterlab-rise looks for it


def refresh(workbook: Path = WORKBOOK, notebooks: Path = NOTEBOOKS) -> list[Path]:
    """Copy into `workbook` what it lacks, and pictures and slide style as they are now.

    Returns the notebooks that it lacked, and the glossary. The copies of notebooks have no outputs:
    an answer stands below its question once it was run.

    Raises:
        WorkshopError: there are no notebooks, or `workbook` cannot be written.
    """
    new = []
    for source in [*chapters(notebooks), *notebooks.glob("glossary.md")]:
        target = workbook / source.name
        if not target.exists():
            _copy_fresh(source, target)
            new.append(target)
    for source in [*notebooks.glob(SLIDE_STYLE), *notebooks.glob(PICTURES)]:
        copy(source, workbook / source.name)
    return new


def reset(number: str, workbook: Path = WORKBOOK, notebooks: Path = NOTEBOOKS) -> Path | None:
    """Put chapter `number` of `workbook` back; returns where the learner's version is kept.

    Returns None when there was nothing to keep: no copy, or one that was never changed.

    Raises:
        WorkshopError: there is no such chapter, or `workbook` cannot be written.
    """
    source = find_chapter(number, notebooks)
    target = workbook / source.name
    kept = None
    if target.exists() and not _is_fresh(target, source):
        kept = _unused_name(target)
        _rename(target, kept)
    _copy_fresh(source, target)
    return kept


def forget(number: str, workbook: Path = WORKBOOK, notebooks: Path = NOTEBOOKS) -> bool:
    """Drop chapter `number` from the learner's progress; returns whether there was anything.

    Raises:
        WorkshopError: there is no such chapter, or the file of the progress cannot be written.
    """
    chapter = find_chapter(number, notebooks).name.partition("_")[0]
    path = workbook / PROGRESS
    if not path.exists():
        return False
    try:
        with changing(path) as progress:
            return progress.forget(chapter)
    except OSError as error:
        raise WorkshopError(f"Cannot write {path}: {error.strerror or error}.") from error


def _copy_fresh(source: Path, target: Path) -> None:
    if source.suffix == ".ipynb":
        write_notebook(_fresh(source), target)
    else:
        copy(source, target)


def _is_fresh(target: Path, source: Path) -> bool:
    """Whether `target` reads as a copy that was just made."""
    return target.read_text("utf-8", errors="replace") == nbformat.writes(_fresh(source)) + "\n"


def _fresh(source: Path) -> nbformat.NotebookNode:
    return without_outputs(nbformat.read(source, as_version=4))


def _unused_name(path: Path) -> Path:
    names = (path.with_name(f"{path.stem}.kept-{n}{path.suffix}") for n in count(1))
    return next(name for name in names if not name.exists())


def _rename(path: Path, new: Path) -> None:
    try:
        os.rename(path, new)
    except OSError as error:
        raise WorkshopError(f"Cannot rename {path}: {error.strerror or error}.") from error
