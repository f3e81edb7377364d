"""What is remembered of a learner: ledger rows, hints, solved exercises, and the best rates seen.

It is the only state of the package. A kernel remembers until it ends. Where the variable
COURSE_PROGRESS names a file, as in the JupyterLab of `make lab`, rows, hints and solved exercises
go there, and every kernel sees them. The file is the learner's own: whatever became of it, no cell
fails for it, and one line says what happened.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

VARIABLE = "COURSE_PROGRESS"
VERSION = 1  # of the file
PATIENCE = 5.0  # seconds to wait for other kernels that write


@dataclass
class Progress:
    """Ledger rows as plain data and the number of hints given, by id; the ids that are solved."""

    ledger: dict[str, dict[str, object]] = field(default_factory=dict)
    hints: dict[str, int] = field(default_factory=dict)
    solved: set[str] = field(default_factory=set)

    def add(self, newer: "Progress") -> None:
        """Take over all of `newer`, in the place of rows and hints with the same id."""
        self.ledger.update(newer.ledger)
        self.hints.update(newer.hints)
        self.solved.update(newer.solved)

    def forget(self, chapter: str) -> bool:
        """Drop all of a chapter, such as "04"; returns whether there was anything."""
        every = {*self.ledger, *self.hints, *self.solved}
        gone = {id for id in every if id.startswith(f"{chapter}.")}
        for id in gone:
            self.ledger.pop(id, None)
            self.hints.pop(id, None)
        self.solved -= gone
        return bool(gone)


@dataclass
class Session(Progress):
    """One kernel's own: what no file keeps, or not yet."""

    tried: set[str] = field(default_factory=set)
    peaks: dict[tuple[str, str], object] = field(default_factory=dict)
    told: bool = False  # that nothing can be kept


session = Session()


def sync() -> Progress:
    """All that is remembered: what the file keeps, and in its place what `session` adds.

    What `session` adds moves to the file. It stays where no file is named, and where the file
    cannot be written, which one line says once. Never raises.
    """
    named = os.environ.get(VARIABLE)
    if not named:
        return session
    path = Path(named)
    try:
        with changing(path, 0.0 if session.told else PATIENCE) as kept:
            kept.add(session)
    except (OSError, ValueError, NotImplementedError) as error:
        return _unwritten(path, error)
    for part in (session.ledger, session.hints, session.solved):
        part.clear()
    return kept


@contextmanager
def changing(path: Path, patience: float = PATIENCE) -> Iterator[Progress]:
    """What the file at `path` keeps; what the block changes in it is written when the block ends.

    No other kernel reads or writes meanwhile; `patience` is how many seconds to wait for those that
    do. A file that is damaged or of another version is renamed, and one line says so. Raises
    OSError when the file cannot be read or written.
    """
    from filelock import FileLock  # not needed where nothing is kept

    with FileLock(path.with_name(f".{path.name}.lock"), timeout=patience):
        kept = _sound(path)
        before = _text(kept)
        yield kept
        if _text(kept) != before:
            _write(_text(kept), path)


def in_order(ids: Iterable[str]) -> list[str]:
    """Section ids in the order of their numbers: "04.9" stands before "04.10"."""
    return sorted(ids, key=lambda id: re.sub(r"\d+", lambda number: number[0].zfill(9), id))


def _unwritten(path: Path, error: Exception) -> Progress:
    """What can be known where the file cannot be written, which is said once."""
    if not session.told:
        session.told = True
        why = getattr(error, "strerror", None) or error
        what = f"Your ledger and solved exercises cannot be kept in {path}"
        print(f"{what} ({why}): they last until this kernel ends.")
    try:
        kept = _read(path)
    except (OSError, ValueError):
        kept = Progress()
    kept.add(session)
    return kept


def _sound(path: Path) -> Progress:
    """What the file keeps, or nothing yet; one that cannot be understood is renamed."""
    try:
        return _read(path)
    except FileNotFoundError:
        return Progress()
    except ValueError:
        names = (path.with_name(f"{path.stem}.damaged-{n}{path.suffix}") for n in count(1))
        aside = next(name for name in names if not name.exists())
        os.replace(path, aside)
        what = "is damaged, or from another version of the course"
        new = "your ledger and exercises begin anew"
        print(f"{path} {what}. It is now called {aside.name}, and {new}.")
        return Progress()


def _read(path: Path) -> Progress:
    """What the file keeps, less what is no count or id; ValueError if it is no such file."""
    try:
        data = json.loads(path.read_text("utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(data, dict) or data.get("version") != VERSION:
        raise ValueError("another version")
    ledger, hints, solved = (data.get(part) for part in ("ledger", "hints", "solved"))
    if not (isinstance(ledger, dict) and isinstance(hints, dict) and isinstance(solved, list)):
        raise ValueError("a part is missing")
    return Progress(
        ledger,
        {id: given for id, given in hints.items() if type(given) is int and given >= 0},
        {id for id in solved if isinstance(id, str)},
    )


def _text(kept: Progress) -> str:
    parts = {"ledger": kept.ledger, "hints": kept.hints, "solved": in_order(kept.solved)}
    return json.dumps({"version": VERSION, **parts}, indent=1) + "\n"


def _write(text: str, path: Path) -> None:
    """Write `text` completely or not at all."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text, "utf-8")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
