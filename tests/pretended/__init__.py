"""A pretended accelerator: a torch device "pretend" with memory of its own that needs no hardware.

`import tests.pretended` before anything asks for a device; `torch.accelerator` then finds it. It is
compiled once (g++ and ninja, about a minute) into a folder of the user's cache. It shows what code
does with tensors on another device, with other random numbers and with an allocator's blocks; it
has no clock and no queue of its own: for those see `tests.simulated_cuda`.
"""

import hashlib
import tempfile
from pathlib import Path
from types import ModuleType

import torch
from filelock import FileLock

NAME = "pretend"
SOURCE = Path(__file__).with_name("device.cpp")
WORKSPACE = 8 * 2**20  # bytes, as cuBLAS takes on many GPUs


def _compiled() -> ModuleType:
    from torch.utils.cpp_extension import load

    version = hashlib.sha256(SOURCE.read_bytes() + torch.__version__.encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"pretended-accelerator-{version}"
    folder.mkdir(exist_ok=True)
    with FileLock(folder / "building"):  # ends with its process; torch's own lock outlives a kill
        (folder / "lock").unlink(missing_ok=True)
        return load("pretended", [str(SOURCE)], extra_cflags=["-O1"], build_directory=str(folder))


class Module(ModuleType):
    """What torch calls as `torch.pretend`."""

    def is_available(self):
        return True

    def is_initialized(self):
        return True

    def _is_in_bad_fork(self):
        return False

    def device_count(self):
        return 1

    def current_device(self):
        return 0

    def set_device(self, device):
        """There is only one."""

    def synchronize(self, device=None):
        """Nothing is ever under way."""

    def get_device_name(self, device=None):
        return "Pretended accelerator"

    def get_amp_supported_dtype(self):
        return [torch.bfloat16, torch.float16]

    def manual_seed(self, seed):
        native.generator().manual_seed(seed)

    manual_seed_all = manual_seed

    def get_rng_state(self, device=0):
        return native.generator().get_state()

    def get_rng_state_all(self):
        return [self.get_rng_state()]

    def set_rng_state(self, state, device=0):
        native.generator().set_state(state)

    def memory_allocated(self, device=None):
        return native.allocated()

    def max_memory_allocated(self, device=None):
        return native.peak()

    def memory_reserved(self, device=None):
        return native.reserved()

    def reset_peak_memory_stats(self, device=None):
        native.reset_peak()


native = _compiled()
native.set_workspace(WORKSPACE)
torch.utils.rename_privateuse1_backend(NAME)
torch.utils.generate_methods_for_privateuse1_backend()
torch._register_device_module(NAME, Module(f"torch.{NAME}"))
