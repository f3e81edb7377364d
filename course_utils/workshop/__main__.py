"""The command line: python -m course_utils.workshop lab|slides|reset|student|execute."""

import argparse
import sys
import time
from pathlib import Path

from . import lab, workbook
from .files import NOTEBOOKS, STUDENT, WORKBOOK, WorkshopError, chapters, find_chapter


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code: 1 when there is something for the user to correct."""
    parser = _parser()
    given, options = parser.parse_known_args(arguments)
    if options and given.command not in (open_lab, open_slides):
        parser.error(f"unknown: {' '.join(options)}")
    given.options = options
    try:
        given.command(given)
    except WorkshopError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def open_lab(given: argparse.Namespace) -> None:
    """Open the learner's copy in JupyterLab, at its first chapter."""
    _refresh(given)
    page = f"/lab/tree/{chapters(given.notebooks)[0].name}"
    lab.start(given.workbook, page, given.port, given.options)


def open_slides(given: argparse.Namespace) -> None:
    """Open one chapter of the learner's copy as live slides."""
    chapter = find_chapter(given.chapter or "00", given.notebooks).name
    _refresh(given)
    print(f"Slides show what Lab ran: open /lab/tree/{chapter}, Run All and save there first.")
    page = f"/rise/{chapter}"
    if not lab.open_running(given.workbook, page):
        lab.start(given.workbook, page, given.port, given.options)


def reset(given: argparse.Namespace) -> None:
    """Put one chapter of the learner's copy back, and drop it from their progress."""
    places = given.workbook, given.notebooks
    said = [f"Chapter {given.chapter} is new again."]
    if kept := workbook.reset(given.chapter, *places):
        said.append(f"Yours is {kept}.")
    if workbook.forget(given.chapter, *places):
        said.append("Its ledger, solved exercises and hints are dropped from your progress.")
    print(*said)


def write_student(given: argparse.Namespace) -> None:
    """Write copies without solutions and outputs."""
    from .student import make_copies

    files = make_copies(given.student, given.notebooks)
    print(f"{len(files)} files in {given.student}")


def execute(given: argparse.Namespace) -> None:
    """Run and save the notebooks."""
    from .execute import execute as run_and_save

    folder = given.notebooks
    for path in [find_chapter(given.chapter, folder)] if given.chapter else chapters(folder):
        start = time.monotonic()
        run_and_save(path)
        print(f"{path.name}: {time.monotonic() - start:.0f} s", flush=True)


def _refresh(given: argparse.Namespace) -> None:
    for path in workbook.refresh(given.workbook, given.notebooks):
        print(f"New in your copy: {path.name}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m course_utils.workshop", allow_abbrev=False)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, command in {
        "lab": open_lab,
        "slides": open_slides,
        "reset": reset,
        "student": write_student,
        "execute": execute,
    }.items():
        options = commands.add_parser(name, help=command.__doc__, allow_abbrev=False)
        options.set_defaults(command=command)
        options.add_argument("--notebooks", type=Path, default=NOTEBOOKS, help=argparse.SUPPRESS)
        options.add_argument("--workbook", type=Path, default=WORKBOOK, help=argparse.SUPPRESS)
        options.add_argument("--student", type=Path, default=STUDENT, help=argparse.SUPPRESS)
        if name in ("lab", "slides"):
            options.add_argument("--port", type=int, help="a port of your choice")
        if name in ("slides", "reset", "execute"):
            options.add_argument("chapter", nargs="?", default="", help="such as 04")
    return parser


if __name__ == "__main__":
    sys.exit(main())
