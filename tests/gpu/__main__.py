"""Check the course on this machine's accelerator and keep what it shows: `make gpu`.

python -m tests.gpu FOLDER

Runs in this order, each as far as the time allows: a recorded run of the machine, the tests of the
device, chapters 04 and 07 to 10, the other chapters. After each, the folder holds what was found: a
summary (summary.md), the recorded run (JSON), the tests' words, the notebooks' words, and the
executed notebooks in one archive. Packages that this Python lacks are taken from a folder of wheels
(`make wheels`); of this Python itself only torch and numpy are needed, and no pip.
"""

import argparse
import atexit
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).parents[2]
ORDER = ("04", "07", "08", "09", "10", "00", "01", "02", "03", "05", "06")
NEEDED = ("beartype", "einops", "hypothesis", "ipykernel", "jaxtyping", "matplotlib", "nbclient",
          "nbformat", "nbval", "psutil", "pytest", "tqdm", "ipywidgets", "pynvml")  # fmt: skip
RESULTS = ("summary.md", "tests.txt", "notebooks.txt", "notebooks.tar.gz")
RECORDING, SEAL = 40.0, 5.0  # seconds for the recorded run, and kept back for the last summary
ASK = """
import torch
assert torch.accelerator.is_available(), "PyTorch sees no accelerator here"
from course_utils import hardware
why = hardware.refusals(torch.accelerator.current_accelerator().type)
print(hardware.machine())
for name, reason in why.items(): print(name, "cannot be computed here:", reason)
assert "fp32" not in why, "the accelerator cannot compute"
"""


@dataclass
class Step:
    """One thing to run: its name, what became of it, and its seconds."""

    name: str
    command: list[str]
    log: str
    state: str = "not run: no time was left"
    seconds: float = 0.0


@dataclass
class Session:
    """A folder of results, the environment of every step, and the seconds that are left."""

    folder: Path
    environment: dict[str, str]
    until: float
    steps: list[Step] = field(default_factory=list)
    machine: str = ""

    def run(self, step: Step) -> bool:
        """Run one step as far as time allows, add its words to its log, write the summary."""
        self.steps.append(step)
        left = self.until - perf_counter()
        if left > SEAL:
            began = perf_counter()
            step.state, words = _run(step.command, self.environment, left - SEAL)
            step.seconds = perf_counter() - began
            with open(self.folder / step.log, "a", encoding="utf-8") as log:
                log.write(f"== {step.name}\n{words}\n")
        self.write()
        return step.state == "green"

    def write(self) -> None:
        """The summary so far."""
        rows = [f"| {s.name} | {s.state} | {s.seconds:.0f} s |" for s in self.steps]
        head = f"# This machine's accelerator\n\n```\n{self.machine.strip()}\n```\n"
        table = ["| step | what became of it | time |", "| --- | --- | --- |", *rows, ""]
        text = "\n".join([head, *table])
        (self.folder / "summary.md").write_text(text, encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Run all steps; 0 if every one was green, 1 if not, 2 without an accelerator."""
    asked = _options(arguments)
    environment = _environment(asked.wheels)
    state, words = _run([sys.executable, "-c", ASK], environment, 120.0)
    if state != "green":
        print(words.strip(), f"There is no accelerator to check here ({state}).", sep="\n")
        return 2
    asked.folder.mkdir(parents=True, exist_ok=True)
    for old in [asked.folder / name for name in RESULTS if (asked.folder / name).exists()]:
        old.unlink()
    session = Session(asked.folder, environment, perf_counter() + asked.seconds, machine=words)
    _all_steps(session, min(RECORDING, asked.seconds / 10), asked.chapters)
    print((asked.folder / "summary.md").read_text("utf-8"))
    return int(any(step.state != "green" for step in session.steps))


def _all_steps(session: Session, recording: float, chapters: list[str]) -> None:
    python, folder = sys.executable, session.folder
    record = [python, "-m", "course_utils.measure.record", str(folder), f"--seconds={recording}"]
    session.run(Step("recorded run", record, "tests.txt"))
    tests = [python, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "tests/gpu/test_device.py"]
    session.run(Step("tests of the device", tests, "tests.txt"))
    with tempfile.TemporaryDirectory() as kept:
        for chapter in chapters:
            (book,) = (ROOT / "notebooks").glob(f"{chapter}_*.ipynb")
            session.run(Step(f"chapter {chapter}", _nbval(book, kept), "notebooks.txt"))
            with tarfile.open(folder / "notebooks.tar.gz", "w:gz") as archive:
                archive.add(kept, "notebooks")


def _nbval(book: Path, kept: str) -> list[str]:
    """The command that runs a notebook as a test and keeps its new outputs."""
    from tests.__main__ import NBVAL

    plugins = (
        "-p",
        "nbval.plugin",
        "-p",
        "tests.nbval_budget",
        "-p",
        "tests.nbval_keep",
        "-p",
        "no:cacheprovider",
    )
    return [sys.executable, "-m", "pytest", *plugins, *NBVAL, f"--keep-outputs={kept}", str(book)]


def _run(command: list[str], environment: dict[str, str], limit: float) -> tuple[str, str]:
    """How a command ended, and what it said."""
    options = {"cwd": ROOT, "env": environment, "text": True, "encoding": "utf-8"}
    with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        try:
            ran = subprocess.run(command, stdout=said, stderr=subprocess.STDOUT, timeout=limit,
                                 **options)  # fmt: skip
            state = "green" if ran.returncode == 0 else "RED"
        except subprocess.TimeoutExpired:
            state = f"not finished in {limit:.0f} s"
        said.seek(0)
        return state, said.read()


def _environment(wheels: Path) -> dict[str, str]:
    """The variables of every step; what this Python lacks is unpacked from the wheels before."""
    paths = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    if any(importlib.util.find_spec(name) is None for name in NEEDED) and wheels.is_dir():
        paths.append(str(_unpacked(wheels)))
    # Other plugins of this Python's pytest may not fit the version in the wheels.
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return {**os.environ, **alone, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _unpacked(wheels: Path) -> Path:
    """A new folder with the contents of all wheels, as pip would lay them out."""
    target = Path(tempfile.mkdtemp(prefix="course-wheels-"))
    atexit.register(shutil.rmtree, target, ignore_errors=True)
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target)
    for part in ("purelib", "platlib"):
        for inside in target.glob(f"*.data/{part}"):
            shutil.copytree(inside, target, dirs_exist_ok=True)
    return target


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=main.__doc__)
    results, wheels = ROOT / "tests/artefacts/gpu", ROOT / "wheels"
    words = "for the results; those of an earlier run are removed"
    parser.add_argument("folder", nargs="?", type=Path, default=results, help=words)
    parser.add_argument("--wheels", type=Path, default=wheels, help="what make wheels made")
    parser.add_argument("--seconds", type=float, default=450.0, help="for all steps together")
    parser.add_argument("--chapters", nargs="*", default=list(ORDER), help="in this order")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
