"""Functions in several processes by a real torchrun: results, failures, and that none is left."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch
import torch.distributed as dist
from torch import nn

from course_utils.train import models, processes

FAR = 400.0  # seconds: never reached, but on a machine that does nothing else
SIZE = 3


def summed(word):
    x = torch.ones(2) * dist.get_rank()
    dist.all_reduce(x)
    print("rank", dist.get_rank(), word)
    return {"sum": x.tolist(), "processes": dist.get_world_size()}


def one_fails(rank):
    if dist.get_rank() == rank:
        raise ValueError("no way")
    dist.barrier()


def one_is_killed(rank):
    if dist.get_rank() == rank:
        os.kill(os.getpid(), 9)
    dist.barrier()


def waits(seconds):
    time.sleep(seconds)


def doubled(x):
    return 2 * x


def uses_another(x):
    return doubled(x)


def uses_a_constant():
    return SIZE


def uses_a_constant_within():
    return [SIZE for _ in range(2)], (lambda: SIZE)()


def uses_what_is_there(size):
    model = nn.Sequential(nn.Linear(size, size), models.DeepLinear(size, 1))
    return sum(p.numel() for p in model.parameters()), dist.get_rank(), max(1, size)


def test_a_script_is_what_was_written():
    text = processes.script(uses_another, [doubled], timeout=7)
    assert text.startswith("import os\n") and "import torch.distributed as dist" in text
    assert text.index("def doubled(x):") < text.index("def uses_another(x):")
    assert text.endswith('if __name__ == "__main__":\n    group.run(uses_another, 7)\n')
    compile(text, "script.py", "exec")
    assert "uses_what_is_there" in processes.script(uses_what_is_there)


@pytest.mark.parametrize(
    ("worker", "name"),
    [(uses_another, "doubled"), (uses_a_constant, "SIZE"), (uses_a_constant_within, "SIZE")],
)
def test_a_process_shares_nothing_with_the_notebook(worker, name):
    with pytest.raises(ValueError, match=f"uses {name}, which another process does not have"):
        processes.script(worker)


@pytest.mark.parametrize("count", [1, 3])
def test_each_process_returns_its_result(count):
    seen = []
    text = processes.script(summed)
    made = processes.launch(text, count, {"word": "hello"}, seconds=FAR,
                            follow=lambda passed, lines: seen.append((passed, lines)))  # fmt: skip
    total = float(sum(range(count)))
    assert made.results == ({"sum": [total] * 2, "processes": count},) * count
    assert sorted(made.printed) == [f"rank {rank} hello" for rank in range(count)]
    assert made.errors == {} and 0 < seen[-1][0] <= made.seconds < FAR


def test_a_failure_is_told_with_its_process():
    with pytest.raises(processes.LaunchFailed, match="process 1: ValueError: no way") as failed:
        processes.launch(processes.script(one_fails), 2, {"rank": 1}, seconds=FAR)
    assert failed.value.launch.results == (None, None)
    assert failed.value.launch.errors[1] == "ValueError: no way"


def test_a_process_that_is_killed_ends_the_others():
    began = time.perf_counter()
    with pytest.raises(processes.LaunchFailed, match="of the processes did not reach their end"):
        processes.launch(processes.script(one_is_killed), 2, {"rank": 1}, seconds=FAR)
    assert time.perf_counter() - began < FAR / 2


def test_processes_that_take_too_long_are_ended():
    with pytest.raises(processes.LaunchFailed, match="did not end within 8 s"):
        processes.launch(processes.script(waits), 2, {"seconds": 1000}, seconds=8)


KERNEL = """
import sys
from course_utils.train import processes
processes.launch(open(sys.argv[1]).read(), 2, {"seconds": 1000}, seconds=900)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_none_is_left_when_the_kernel_is_interrupted_or_dies(how, tmp_path):
    script = tmp_path / "waits.py"
    script.write_text(processes.script(waits))
    kernel = subprocess.Popen([sys.executable, "-c", KERNEL, str(script)],
                              cwd=Path(__file__).parents[1], stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        family = wait_for(lambda: workers_of(kernel.pid), at_least=2)
        kernel.send_signal(how)
        kernel.wait(FAR)
        wait_for(lambda: [] if any(p.is_running() for p in family) else [1], at_least=1)
    finally:
        kernel.kill()


def workers_of(pid):
    """The processes that torchrun started for the kernel, and torchrun itself, once all are up."""
    children = psutil.Process(pid).children(recursive=True)
    scripts = [p for p in children if any("script.py" in word for word in p.cmdline())]
    return children if len(scripts) >= 3 else []  # torchrun, which names it too, and two


def wait_for(found, at_least):
    end = time.perf_counter() + FAR
    while time.perf_counter() < end:
        if len(now := found()) >= at_least:
            return now
        time.sleep(0.2)
    pytest.fail("it did not come to that")
