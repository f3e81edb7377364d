"""A function of the notebook in several processes: written to a script, started by `torchrun`."""

import ast
import builtins
import contextlib
import inspect
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dis import get_instructions
from pathlib import Path
from textwrap import dedent
from types import CodeType

from course_utils.arguments import count, function, positive
from course_utils.train import group

# The first lines of every script: the names that its functions may use.
IMPORTS = """\
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from course_utils import measure
from course_utils.train import group, models
"""
PATIENCE = 5.0  # seconds from asking torchrun to end to making it
EVERY = 0.1  # seconds between two looks at a run
ERRORS_SHOWN = 3


@dataclass(frozen=True)
class Launch:
    """What became of a group of processes: what each returned, None if it did not come to that."""

    results: tuple[object, ...]
    errors: Mapping[int, str]
    printed: tuple[str, ...]
    seconds: float


class LaunchFailed(RuntimeError):
    """A process of a group failed, or they took too long; `launch` is what is known of them."""

    def __init__(self, message: str, launch: Launch) -> None:
        super().__init__(message)
        self.launch = launch


def script(worker: Callable, using: Sequence[Callable] = (), *, timeout: float = 30.0) -> str:
    """The text of a file for `torchrun`: imports, the functions as they were written, one call.

    A process shares nothing with the notebook, so `worker` and the functions in `using` may only
    use each other, the imported names and their arguments: anything else raises ValueError.
    """
    functions = [*using, function("worker", worker, "torchrun(worker, 2)")]
    for each in functions:
        _stands_alone(each, {f.__name__ for f in functions})
    sources = "\n\n".join(dedent(inspect.getsource(each)).rstrip() + "\n" for each in functions)
    seconds = positive("timeout", timeout)
    call = f'if __name__ == "__main__":\n    group.run({worker.__name__}, {seconds})\n'
    return f"{IMPORTS}\n\n{sources}\n\n{call}"


def launch(
    text: str,
    processes: int,
    given: Mapping[str, object],
    *,
    seconds: float = 60.0,
    follow: Callable[[float, list[str]], None] = lambda *_: None,
) -> Launch:
    """Run a `script` in `processes` processes by `torchrun`; wait for all, `seconds` at most.

    `given` are the worker's arguments, as JSON can write them. `follow` is told the seconds passed
    and the lines printed, ten times a second. Raises LaunchFailed when a process fails or the time
    is up. However this ends, by an interrupt or by the death of this process too, none is left.
    """
    processes, limit = count("processes", processes), positive("seconds", seconds)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        folder = Path(place)
        (folder / "script.py").write_text(text, "utf-8")
        (folder / group.GIVEN).write_text(json.dumps(dict(given)), "utf-8")
        began = time.perf_counter()
        with _started(folder, processes) as run:
            while run.poll() is None and time.perf_counter() - began < limit:
                time.sleep(EVERY)
                follow(time.perf_counter() - began, _printed(folder))
            late = run.poll() is None
        passed = time.perf_counter() - began
        return _judged(folder, processes, passed, limit if late else None)


@contextlib.contextmanager
def _started(folder: Path, processes: int) -> Iterator[subprocess.Popen]:
    """`torchrun` at work, in a session of its own; at the end it is asked to stop, then made to."""
    command = [sys.executable, "-m", group.__name__, "--standalone", "--nproc-per-node",
               str(processes), "--monitor-interval", "0.1", str(folder / "script.py")]  # fmt: skip
    package = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))
    own = {
        group.FOLDER: str(folder),
        group.PARENT: str(os.getpid()),
        "PYTHONPATH": path,
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "1",
    }
    with (
        (folder / "printed").open("wb") as printed,
        (folder / "complaints").open("wb") as complaints,
        subprocess.Popen(
            command,
            env={**os.environ, **own},
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=complaints,
            start_new_session=True,
        ) as run,
    ):
        try:
            yield run
        finally:
            _end(run)


def _end(run: subprocess.Popen) -> None:
    """Stop torchrun, which stops its processes; if it does not, they see that it is gone."""
    if run.poll() is None:
        run.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            run.wait(PATIENCE)
    if run.poll() is None:
        run.kill()


def _judged(folder: Path, processes: int, passed: float, limit: float | None) -> Launch:
    """The launch, from the files that its processes left; LaunchFailed if one of them failed."""
    results, errors = [], {}
    for rank in range(processes):
        result, error = folder / f"{rank}.json", folder / f"{rank}.error"
        results.append(json.loads(result.read_text("utf-8")) if result.exists() else None)
        if error.exists():
            errors[rank] = error.read_text("utf-8")
    found = Launch(tuple(results), errors, tuple(_printed(folder)), passed)
    ended = [rank for rank in range(processes) if (folder / f"{rank}.json").exists()]
    if limit is not None:
        raise LaunchFailed(f"the processes did not end within {limit:g} s", found)
    if len(ended) < processes:
        raise LaunchFailed(_why(folder, errors, processes - len(ended)), found)
    return found


def _why(folder: Path, errors: Mapping[int, str], failed: int) -> str:
    """A sentence about the processes that failed, with the first errors that they wrote down."""
    told = [f"process {rank}: {error}" for rank, error in sorted(errors.items())[:ERRORS_SHOWN]]
    if not told:
        lines = (folder / "complaints").read_text("utf-8", errors="replace").splitlines()
        told = [line for line in lines if "exitcode" in line or "Error" in line][-1:]
    return "; ".join([f"{failed} of the processes did not reach their end", *told])


def _printed(folder: Path) -> list[str]:
    return (folder / "printed").read_text("utf-8", errors="replace").splitlines()


def _stands_alone(each: Callable, together: set[str]) -> None:
    """Raise ValueError if a function uses a name that its script does not have."""
    known = set(dir(builtins)) | together | _imported()
    captured = set(inspect.getclosurevars(each).nonlocals)
    missing = sorted((set(_global_names(each.__code__)) | captured) - known)
    if missing:
        raise ValueError(
            f"{each.__name__} uses {', '.join(missing)}, which another process does not have: give "
            f"it as an argument, or a function in using"
        )


def _global_names(code: CodeType) -> Iterator[str]:
    """The names that code looks up outside of itself, in the functions within it too."""
    yield from (step.argval for step in get_instructions(code) if step.opname == "LOAD_GLOBAL")
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _global_names(inner)


def _imported() -> set[str]:
    """The names that a script's first lines bind."""
    lines = ast.parse(IMPORTS).body
    return {(alias.asname or alias.name).split(".")[0] for line in lines for alias in line.names}
