"""What machine this is: its device, cores, threads and memory, and its datasheet if known."""

import os
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil
import torch

from course_utils import units
from course_utils.arguments import one_of, text
from course_utils.hardware.datasheets import Device, find
from course_utils.table import Result, Table, table

DTYPES = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}
_CGROUP = Path("/sys/fs/cgroup")
_MEMORY_FILES = ("memory.max", "memory/memory.limit_in_bytes")


@dataclass(frozen=True, repr=False)
class Machine(Result):
    """The machine this notebook's kernel runs on.

    `memory` is in bytes. `promise` is the accelerator's row of the datasheet table; None if the
    table lacks it, or if a processor alone computes.
    """

    backend: str
    name: str
    cores: float
    threads: int
    memory: int
    promise: Device | None

    def shown(self) -> Table:
        """The facts as rows; every value is live, since each machine has its own."""
        promised = self.promise.name if self.promise else "no datasheet figure: measure it"
        facts = [
            ("device that computes", f"{self.name} ({self.backend})"),
            ("cores this kernel may use", units.digits(self.cores)),
            ("threads PyTorch uses", f"{self.threads}, held to the cores above"),
            ("memory of that device", units.size(self.memory)),
            ("the same in GiB", units.size(self.memory, binary=True)),
            ("promise found", promised),
            ("PyTorch", torch.__version__),
        ]
        rows = [(fact, units.measured(value)) for fact, value in facts]
        return table(("your machine", "what it says"), rows)


def backend() -> str:
    """Where this machine computes best: 'cuda', 'mps', another accelerator's name, or 'cpu'."""
    if torch.accelerator.is_available():
        return torch.accelerator.current_accelerator().type
    return "cpu"


def device_type(device: str | torch.device | None) -> str:
    """'cpu' or this machine's accelerator, from a torch device, its text, or None for the best.

    Raises ValueError for a device that this machine does not have.
    """
    if device is None:
        return backend()
    kind = device.type if isinstance(device, torch.device) else text("device", device)
    known = dict.fromkeys(["cpu", backend()])
    return one_of("device", kind.partition(":")[0], known)


def machine() -> Machine:
    """This machine, looked at anew in each call.

    The call also limits PyTorch's threads to the cores that this process may use: see
    `limit_threads`.
    """
    kind, threads = backend(), limit_threads()
    name = _cpu_name() if kind in ("cpu", "mps") else _accelerator_name(kind)
    memory = _cuda_memory() if kind == "cuda" else usable_memory()
    promise = None if kind == "cpu" else find(name)
    return Machine(kind, name, usable_cores(), threads, memory, promise)


def promised(dtype: torch.dtype = torch.float32) -> float | None:
    """Peak (datasheet) of this machine for matmuls in `dtype`, in FLOP/s; None if unknown.

    With fp32 matmuls set to run as TF32 it is TF32's peak, where the device has one.
    """
    kind, found = dtype_name(dtype), machine().promise
    if found and kind == "fp32" and runs_as_tf32() and found.promised("tf32"):
        kind = "tf32"
    return found.promised(kind) if found else None


def runs_as_tf32() -> bool:
    """Whether fp32 matmuls on CUDA are set to run as TF32; the setting's name varies by version."""
    matmul = torch.backends.cuda.matmul
    if hasattr(matmul, "fp32_precision"):
        return matmul.fp32_precision == "tf32"
    return bool(matmul.allow_tf32)


def limit_threads() -> int:
    """Cut PyTorch's threads to the cores this process may use, and return how many it uses.

    In a container with a quota PyTorch sees every core of the host and starts a thread on each;
    they then take turns on the few cores allowed, which can be eight times slower.
    """
    allowed = max(1, int(usable_cores()))
    if torch.get_num_threads() > allowed:
        torch.set_num_threads(allowed)
    return torch.get_num_threads()


def usable_cores() -> float:
    """Cores this process may use: its affinity, cut to a container's CPU quota."""
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
    else:
        allowed = os.cpu_count() or 1
    quota = _cpu_quota(_CGROUP)
    return min(allowed, quota) if quota else allowed


def usable_memory() -> int:
    """Bytes of main memory this process may use: the machine's, cut to a container's limit."""
    total = psutil.virtual_memory().total
    limits = [_read_number(_CGROUP / name) for name in _MEMORY_FILES]
    return int(min([total, *(limit for limit in limits if limit)]))


def dtype_name(dtype: torch.dtype) -> str:
    """'fp32', 'bf16' or 'fp16' for the torch dtype; the datasheets use these names."""
    names = {value: name for name, value in DTYPES.items()}
    return names[one_of("dtype", dtype, names)]


def _cpu_quota(folder: Path) -> float | None:
    """Cores a cgroup allows (version 2: cpu.max; version 1: cfs quota over period), or None."""
    try:
        quota, period = (folder / "cpu.max").read_text().split()
    except (OSError, ValueError):
        quota = _read_number(folder / "cpu/cpu.cfs_quota_us")
        period = _read_number(folder / "cpu/cpu.cfs_period_us")
    if quota in (None, "max") or not period:
        return None
    return float(quota) / float(period)


def _read_number(path: Path) -> float | None:
    try:
        value = float(path.read_text())
    except (OSError, ValueError):  # absent, or "max": no limit is set
        return None
    return value if value > 0 else None


def _accelerator_name(kind: str) -> str:
    named = getattr(torch.get_device_module(kind), "get_device_name", None)
    return named() if named else "unknown"


def _cuda_memory() -> int:
    return torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory


@cache
def _cpu_name() -> str:
    """The processor's name as the operating system gives it."""
    if platform.system() == "Darwin":
        import subprocess

        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        return answer or "unknown processor"
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or "unknown processor"
