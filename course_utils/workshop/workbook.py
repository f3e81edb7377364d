"""The learner's own copy of the course: made once, never overwritten, reset on request."""

import filecmp
import os
from itertools import count
from pathlib import Path

from .files import NOTEBOOKS, WORKBOOK, WorkshopError, chapters, copy, find_chapter

SLIDE_STYLE = "rise.css"  # beside the notebooks, where jupyterlab-rise looks for it


def refresh(workbook: Path = WORKBOOK, notebooks: Path = NOTEBOOKS) -> list[Path]:
    """Copy into `workbook` what it lacks, and how slides look now; returns what it lacked.

    Raises:
        WorkshopError: there are no notebooks, or `workbook` cannot be written.
    """
    new = []
    for source in [*chapters(notebooks), *notebooks.glob("glossary.md")]:
        target = workbook / source.name
        if not target.exists():
            copy(source, target)
            new.append(target)
    for source in notebooks.glob(SLIDE_STYLE):
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
    if target.exists() and not filecmp.cmp(source, target, shallow=False):
        kept = _unused_name(target)
        _rename(target, kept)
    copy(source, target)
    return kept


def _unused_name(path: Path) -> Path:
    names = (path.with_name(f"{path.stem}.kept-{n}{path.suffix}") for n in count(1))
    return next(name for name in names if not name.exists())


def _rename(path: Path, new: Path) -> None:
    try:
        os.rename(path, new)
    except OSError as error:
        raise WorkshopError(f"Cannot rename {path}: {error.strerror or error}.") from error
