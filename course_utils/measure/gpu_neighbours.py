"""Whether another program computes on the same NVIDIA GPU, as far as the driver tells (NVML).

Programs that share a GPU take turns on it. A time is then too long by a steady factor, which the
samples do not betray. NVML tells what share of the GPU each process had in each of its periods.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from time import time
from types import ModuleType

import torch

PERIOD = 1.0  # seconds: the driver samples every 1/6 to 1 s, so a little of the past is looked at
UNSEEN = "whether another program uses this GPU cannot be seen here"


@contextmanager
def watch(device: str) -> Iterator[Callable[[], str]]:
    """Yield a function that tells, when all is done, what speaks against having been alone."""
    began = time() - PERIOD
    yield lambda: _doubt(began) if device == "cuda" else ""


def seen() -> bool:
    """Whether the driver can be asked at all."""
    return _nvml() is not None


def _doubt(began: float) -> str:
    nvml = _nvml()
    if nvml is None:
        return f"{UNSEEN}: NVML does not answer, or nvidia-ml-py is not installed"
    try:
        handle = _handle(nvml, torch.cuda.current_device())
        programs = {p.pid for p in nvml.nvmlDeviceGetComputeRunningProcesses(handle)}
    except nvml.NVMLError as error:
        return f"{UNSEEN}: {error}"
    try:
        samples = nvml.nvmlDeviceGetProcessUtilization(handle, int(began * 1e6))
    except nvml.NVMLError_NotFound:  # no samples: nobody computed, or only for a moment
        return ""
    except nvml.NVMLError:
        return "" if len(programs) == 1 else f"{UNSEEN}: the driver does not tell who computes"
    active = {sample.pid for sample in samples if sample.smUtil > 0}
    # In a container this process has another number than the driver's: then one of them is ours.
    others = len(active - {os.getpid()}) - (os.getpid() not in programs and bool(active))
    return "another program computes on this GPU" if others > 0 else ""


@cache
def _nvml() -> ModuleType | None:
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
