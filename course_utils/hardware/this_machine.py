"""What machine this is: its device, cores, threads and memory, and its datasheet if known."""

import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from course_utils import units
from course_utils.arguments import one_of, text
from course_utils.hardware.datasheets import Device, find
from course_utils.hardware.limits import usable_cores, usable_memory
from course_utils.hardware.trial import DTYPES, refusals
from course_utils.table import Result, Table, table


@dataclass(frozen=True, repr=False)
class Machine(Result):
    """The machine this notebook's kernel runs on.

    `memory` is in bytes. `promise` is the accelerator's row of the datasheet table; None if the
    table lacks it, or if a processor alone computes. `unused` says why an accelerator that is there
    is not used.
    """

    backend: str
    name: str
    cores: float
    threads: int
    memory: int
    promise: Device | None
    unused: str = ""

    def shown(self) -> Table:
        """The facts as rows; every value is live, since each machine has its own."""
        promised = self.promise.name if self.promise else "no datasheet figure: measure it"
        facts = [
            ("device that computes", f"{self.name} ({self.backend}){self.unused}"),
            ("cores this kernel may use", units.digits(self.cores)),
            ("threads PyTorch uses", f"{self.threads}, held to the cores above"),
            ("memory of that device", units.size(self.memory)),
            ("the same in GiB", units.size(self.memory, binary=True)),
            ("datasheet found", promised),
            ("PyTorch", torch.__version__),
        ]
        rows = [(fact, units.measured(value)) for fact, value in facts]
        return table(("your machine", "what it says"), rows)


def backend() -> str:
    """Where this machine computes best: 'cuda', 'mps', another accelerator's name, or 'cpu'.

    An accelerator is tried first: one that fails at a matmul in fp32 is left alone.
    """
    kind = _accelerator()
    return kind if kind and "fp32" not in refusals(kind) else "cpu"


def device_type(device: str | torch.device | None) -> str:
    """'cpu' or this machine's accelerator, from a torch device, its text, or None for the best.

    Of several accelerators only the current one is meant. Raises ValueError for a device that this
    machine does not have, or that is not the current one.
    """
    if device is None:
        return backend()
    given = str(device) if isinstance(device, torch.device) else text("device", device)
    kind, _, index = given.partition(":")
    known = dict.fromkeys(["cpu", backend()])
    one_of("device", kind, known)
    here = torch.accelerator.current_device_index() if kind != "cpu" else 0
    if index not in ("", str(here)):
        raise ValueError(
            f"device must be the current one, {kind}:{here}, got {given!r}: choose another by "
            f"torch.accelerator.set_device_index({index}) first"
        )
    return kind


def _accelerator() -> str:
    """The kind of accelerator that PyTorch sees, '' if it sees none."""
    if not torch.accelerator.is_available():
        return ""
    return torch.accelerator.current_accelerator().type


def _not_used() -> str:
    """In words, which accelerator is there and why it is not used; '' if there is none such."""
    kind = _accelerator()
    why = refusals(kind).get("fp32") if kind else None
    return f"; {kind} cannot compute with this PyTorch: {why}" if why else ""


def machine() -> Machine:
    """This machine, looked at anew in each call.

    The call also limits PyTorch's threads to the cores that this process may use: see
    `limit_threads`.
    """
    kind, threads = backend(), limit_threads()
    memory = _device_memory(kind) or usable_memory()
    return Machine(kind, _name(kind), usable_cores(), threads, memory, promise(), _not_used())


def promise() -> Device | None:
    """The row of the datasheets for the device that the course computes on; None if there is none.

    Only looks: it changes no setting of PyTorch.
    """
    kind = backend()
    return None if kind == "cpu" else find(_name(kind))


def _name(kind: str) -> str:
    return _cpu_name() if kind in ("cpu", "mps") else _accelerator_name(kind)


def datasheet_peak(dtype: torch.dtype = torch.float32) -> float | None:
    """The datasheet's peak of this machine for matmuls in `dtype`, in FLOP/s; None if unknown.

    With fp32 matmuls set to run as TF32 it is TF32's peak, where the device has one.
    """
    kind, found = dtype_name(dtype), promise()
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


def dtype_name(dtype: torch.dtype) -> str:
    """'fp32', 'bf16' or 'fp16' for the torch dtype; the datasheets use these names."""
    names = {value: name for name, value in DTYPES.items()}
    return names[one_of("dtype", dtype, names)]


def _accelerator_name(kind: str) -> str:
    named = getattr(torch.get_device_module(kind), "get_device_name", None)
    return named() if named else "unknown"


def _device_memory(kind: str) -> int | None:
    """Bytes of the accelerator's own memory; None for one that shares the processor's."""
    if kind not in ("cuda", "xpu"):
        return None
    module = torch.get_device_module(kind)
    return module.get_device_properties(module.current_device()).total_memory


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
