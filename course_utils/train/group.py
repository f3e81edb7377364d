"""One process of a group: what every script that `torchrun` starts for the course does around it.

It joins the group, runs the learner's function, writes down what that returned or raised, and ends
with its parent: a process whose `torchrun` is gone would wait for the others for ever.
"""

import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

FOLDER, PARENT = "COURSE_GROUP_FOLDER", "COURSE_GROUP_PARENT"
GIVEN = "given.json"
EVERY = 0.25  # seconds between two looks at the parent


def run(function: Callable, seconds: float) -> None:
    """Join the group, call `function` with what was given, write its result to rank N's file.

    A collective that lasts longer than `seconds` raises an error in every process that waits.
    """
    end_with_the_parent()
    folder, rank = Path(os.environ[FOLDER]), int(os.environ["RANK"])
    torch.set_num_threads(1)
    try:
        dist.init_process_group("gloo", timeout=timedelta(seconds=seconds))
        result = function(**json.loads((folder / GIVEN).read_text("utf-8")))
        dist.barrier()  # nobody leaves while another still needs it
        dist.destroy_process_group()
    except BaseException as error:
        told = traceback.format_exception_only(error)[-1].strip()
        (folder / f"{rank}.error").write_text(told, "utf-8")
        raise
    (folder / f"{rank}.json").write_text(json.dumps(result), "utf-8")


def end_with_the_parent() -> None:
    """From now on, this process ends when the one that started it does."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(EVERY)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """`torchrun` with the arguments of the command line, which ends with the process above it."""
    from torch.distributed.run import main as torchrun

    if str(os.getppid()) == os.environ[PARENT]:  # else the kernel was gone before this began
        end_with_the_parent()
        torchrun(sys.argv[1:])


if __name__ == "__main__":
    main()
