"""Whether another program computes on the same NVIDIA GPU, as far as the driver tells (NVML).

Programs that share a GPU take turns on it. A time is then too long by a steady factor, which the
samples do not betray. NVML tells what share of the GPU each process had in each of its periods.
It knows nothing of AMD's GPUs, and under WSL, on Jetson and in some containers it does not tell.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from time import time
from types import ModuleType

import torch

PERIOD = 1.0  # seconds: the driver samples every 1/6 to 1 s, so a little of the past is looked at
BUSY = 10  # per cent of the GPU below which a program, such as the screen's, hardly disturbs
UNSEEN = "other programs on this GPU cannot be seen here"


@contextmanager
def watch(device: str) -> Iterator[Callable[[], tuple[str, str]]]:
    """Yield a function for when all is done: what speaks against having been alone, and a note.

    The note says if nothing can be said of it.
    """
    began = time() - PERIOD
    unseen = "" if device in ("cpu", "meta") else UNSEEN
    yield lambda: _found(began) if device == "cuda" else ("", unseen)


def seen() -> bool:
    """Whether the driver can be asked at all."""
    return _nvml() is not None


def _found(began: float) -> tuple[str, str]:
    nvml = _nvml()
    if nvml is None:
        return "", UNSEEN
    try:
        handle = _handle(nvml, torch.cuda.current_device())
        programs = {p.pid for p in nvml.nvmlDeviceGetComputeRunningProcesses(handle)}
    except nvml.NVMLError:
        return "", UNSEEN
    since = int(began * 1e6)
    try:
        samples = nvml.nvmlDeviceGetProcessUtilization(handle, since)
    except nvml.NVMLError_NotFound:  # no samples: nobody computed, or only for a moment
        return "", ""
    except nvml.NVMLError:
        return "", "" if len(programs) <= 1 else UNSEEN
    # The driver may return old samples and impossible shares too.
    active = {s.pid for s in samples if BUSY <= s.smUtil <= 100 and s.timeStamp > since}
    # In a container this process has another number than the driver's: then one of them is ours.
    others = len(active - {os.getpid()}) - (os.getpid() not in programs and bool(active))
    return "another program computes on this GPU" if others > 0 else "", ""


@cache
def _nvml() -> ModuleType | None:
    if torch.version.hip:  # AMD's GPUs are called cuda too
        return None
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # the package, the library or the driver is missing
        return None
    return pynvml


@cache
def _handle(nvml: ModuleType, device: int) -> object:
    """The driver's handle of torch's device: a whole GPU, or an instance of a divided one."""
    uuid = torch.cuda.get_device_properties(device).uuid
    try:
        return nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    except nvml.NVMLError:
        return nvml.nvmlDeviceGetHandleByUUID(f"MIG-{uuid}")
