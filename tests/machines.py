"""The other machines that the notebooks are tested on: a pretended one, and a small one.

python -m tests.machines    all notebooks on one core and in 2 GB, where such limits can be set

A pretended machine has an accelerator that needs no hardware (`tests.pretended`). The small one is
this machine with one core and 2 GB, as the smallest of Binder's have.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[1]
MEMORY = 2 * 10**9  # bytes
GROUPS = Path("/sys/fs/cgroup")


def missing() -> str:
    """What this machine lacks to compile the pretended accelerator, in words; '' if nothing."""
    lacking = [tool for tool in ("g++", "ninja") if shutil.which(tool) is None]
    return f"the pretended accelerator needs {' and '.join(lacking)}" if lacking else ""


@contextmanager
def pretended() -> Iterator[dict[str, str]]:
    """The variables with which every kernel, and every test, finds the pretended accelerator."""
    with tempfile.TemporaryDirectory() as folder:
        startup = Path(folder) / "profile_default/startup"
        startup.mkdir(parents=True)
        (startup / "pretended.py").write_text("import tests.pretended\n")
        yield {"IPYTHONDIR": folder, "PYTHONPATH": str(ROOT)}


@contextmanager
def small() -> Iterator[list[str]]:
    """The start of a command line under which a program has one core and 2 GB.

    Raises OSError where this user cannot set such limits.
    """
    version_2 = (GROUPS / "cgroup.controllers").exists()
    group = (GROUPS if version_2 else GROUPS / "memory") / f"course-small-{os.getpid()}"
    if shutil.which("taskset") is None:
        raise OSError("taskset is missing")
    group.mkdir()
    try:
        limit = "memory.max" if version_2 else "memory.limit_in_bytes"
        (group / limit).write_text(str(MEMORY))
        enter = f'echo $$ > {group}/cgroup.procs && exec taskset -c 0 "$@"'
        yield ["sh", "-c", enter, "small"]
    finally:
        with suppress(OSError):  # a process that has not ended yet is still in it
            group.rmdir()


def main() -> int:
    """Run the notebooks on the small machine; 0 if green, or if no limit can be set here."""
    try:
        with small() as prefix:
            command = [*prefix, sys.executable, "-m", "tests", "notebooks"]
            return subprocess.run(command, cwd=ROOT).returncode
    except OSError as error:
        print(f"SKIPPED: one core and 2 GB cannot be imposed here ({error})")
        return 0


if __name__ == "__main__":
    sys.exit(main())
