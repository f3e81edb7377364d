"""Every test, part by part, and what became of each part at the end: `make test`.

python -m tests            all parts
python -m tests package    one of them, or several
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from xml.etree import ElementTree

from tests import machines

ROOT = Path(__file__).parents[1]
SECONDS_A_CELL = 900  # far more than any cell needs: only one that hangs is ended
NBVAL = (
    "--nbval",
    "--nbval-current-env",
    "--nbval-sanitize-with=tests/nbval.cfg",
    "--nbval-kernel-startup-timeout=600",
    f"--nbval-cell-timeout={SECONDS_A_CELL}",
)
BOOKS = ("pytest", "-p", "tests.nbval_budget", *NBVAL, "notebooks")
APART = [f"--ignore=tests/{part}" for part in ("browser", "pretended", "gpu")]
# A part is what `python -m` runs, command after command.
PARTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "style": (("ruff", "check", "."), ("ruff", "format", "--check", ".")),
    "package": (("pytest", "tests", *APART),),
    "notebooks": (BOOKS,),
    "accelerator": (("pytest", "tests/pretended"), BOOKS),
    "browser": (("pytest", "tests/browser"),),
}


@dataclass(frozen=True)
class Result:
    """A part that ran: whether all of it is green, what it found in words, how long it took."""

    part: str
    green: bool
    found: tuple[str, ...]
    seconds: float

    def __str__(self) -> str:
        colour = "green" if self.green else "RED"
        found = ", ".join(self.found)
        return f"{self.part:10} {colour:6} {self.seconds:5.0f} s   {found}".rstrip()


def run(part: str) -> Result:
    """Run every command of a part, whatever the ones before it say, with its output shown."""
    began, green, found = perf_counter(), True, []
    if part == "accelerator" and (lacking := machines.missing()):
        print(f"\n== {part}: SKIPPED, {lacking}", flush=True)
        return Result(part, True, (f"SKIPPED: {lacking}",), 0.0)
    with machines.pretended() if part == "accelerator" else nullcontext({}) as variables:
        for command in PARTS[part]:
            print(f"\n== {part}: {' '.join(command)}", flush=True)
            status, words = _command(command, variables)
            green &= status == 0
            found += words
    return Result(part, green, tuple(found), perf_counter() - began)


def _command(command: Sequence[str], variables: Mapping[str, str]) -> tuple[int, list[str]]:
    """The exit status of one command, and pytest's own counts where it is pytest."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        noted = [f"--junit-xml={report}"] if command[0] == "pytest" else []
        options = {"cwd": ROOT, "env": {**os.environ, **variables}}
        ran = subprocess.run([sys.executable, "-m", *command, *noted], **options)
        return ran.returncode, counts(report.read_text("utf-8")) if report.exists() else []


def counts(report: str) -> list[str]:
    """How many tests ran, failed and were skipped, from a JUnit report."""
    suite = ElementTree.fromstring(report).find("testsuite")
    tests, *other = (int(suite.get(k)) for k in ("tests", "failures", "errors", "skipped"))
    named = zip(other, ("failed", "errors", "skipped"), strict=True)
    return [f"{tests} tests", *(f"{many} {what}" for many, what in named if many)]


def main(arguments: list[str] | None = None) -> int:
    """Run the parts; the exit status is 1 if any is red, and all of them have run before."""
    parser = argparse.ArgumentParser(prog="python -m tests", description=main.__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}")
    parts = parser.parse_args(arguments).parts or list(PARTS)
    if unknown := set(parts) - set(PARTS):
        parser.error(f"parts are {', '.join(PARTS)}, got {', '.join(sorted(unknown))}")
    results = [run(part) for part in parts]
    print("\n== All parts", *results, sep="\n", flush=True)
    return int(not all(result.green for result in results))


if __name__ == "__main__":
    sys.exit(main())
