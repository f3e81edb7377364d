"""The state of every global random generator: Python's, NumPy's, torch's, the accelerator's."""

import random

import numpy as np
import torch


def random_states() -> dict:
    """The states now, in types that `torch.load(weights_only=True)` reads back."""
    states = {
        "python": random.getstate(),
        "numpy": _without_arrays(np.random.get_state(legacy=False)),
        "torch": torch.get_rng_state(),
    }
    if (device := torch.accelerator.current_accelerator(check_available=True)) is not None:
        states["accelerator"] = device.type
        states["devices"] = _of_devices(device.type)
    return states


def restore_random_states(states: dict) -> None:
    """Set the generators to `states`, which `random_states` returned.

    Devices that this machine lacks, or that the states do not speak of, are left alone.
    """
    version, numbers, gauss = states["python"]
    random.setstate((version, tuple(numbers), gauss))
    np.random.set_state(_with_arrays(states["numpy"]))
    torch.set_rng_state(states["torch"])
    device = torch.accelerator.current_accelerator(check_available=True)
    if device is None or device.type != states.get("accelerator"):
        return
    module = torch.get_device_module(device.type)
    for index, state in enumerate(states["devices"][: torch.accelerator.device_count()]):
        where = (index,) if hasattr(module, "get_rng_state_all") else ()
        module.set_rng_state(state, *where)


def _of_devices(kind: str) -> list[torch.Tensor]:
    """The state of each device's generator; MPS has one device, and one function for it."""
    module = torch.get_device_module(kind)
    every = getattr(module, "get_rng_state_all", None)
    return list(every()) if every else [module.get_rng_state()]


def _without_arrays(value: object) -> object:
    """NumPy's nested state with tensors for its arrays and plain numbers for its numbers."""
    if isinstance(value, dict):
        return {name: _without_arrays(inside) for name, inside in value.items()}
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.astype(np.int64))
    return value.item() if isinstance(value, np.generic) else value


def _with_arrays(value: object) -> object:
    if isinstance(value, dict):
        return {name: _with_arrays(inside) for name, inside in value.items()}
    return value.numpy().astype(np.uint32) if isinstance(value, torch.Tensor) else value
