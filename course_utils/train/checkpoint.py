"""Checkpoints: everything a run needs to go on as if nothing had happened.

A checkpoint holds the model, the optimizer's state, the step and every random state in use; where a
run has them, the position in the data, the schedule and the loss scale too. It is written beside
the last one, read back, and takes its name only then, so that at every moment there is a whole one
on disk.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import torch
from torch import nn

from course_utils.arguments import count
from course_utils.train import archive
from course_utils.train.loop import Step
from course_utils.train.random_states import random_states, restore_random_states
from course_utils.train.step import Diverged, Precision

FP32 = "fp32"  # the precision of a run without a recipe
CONTENTS = {
    "step", "model", "optimizer", "kind", "order", "batches", "schedule", "precision", "random",
}  # fmt: skip


class Stateful(Protocol):
    """Anything that has `state_dict` and `load_state_dict`."""

    def state_dict(self) -> dict: ...  # noqa: D102

    def load_state_dict(self, state: dict) -> object: ...  # noqa: D102


class Checkpoints:
    """The checkpoints of one run in `folder`; the newest `keep` of them stay."""

    def __init__(
        self,
        folder: str | Path,
        *,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        batches: Stateful | None = None,
        schedule: Stateful | None = None,
        precision: Precision | None = None,
        keep: int = 2,
    ) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.model, self.optimizer = model, optimizer
        self.batches, self.schedule, self.precision = batches, schedule, precision
        self.keep = count("keep", keep)
        self.skipped: dict[Path, str] = {}

    def paths(self) -> list[Path]:
        """The complete checkpoints in the folder, newest first."""
        numbered = (path for path in self.folder.glob("step-*.pt") if path.stem[5:].isdecimal())
        return sorted(numbered, key=_step_of, reverse=True)

    def every(self, steps: int) -> Callable[[Step], None]:
        """A callback for the loop that saves a checkpoint after every `steps` steps."""
        count("steps", steps)
        return lambda step: None if step.number % steps else self.save(step.number) and None

    def save(self, step: int) -> Path:
        """Write a checkpoint, read it back, then remove older ones; returns the new one's path.

        Raises `Diverged` if a parameter or the optimizer's state is not finite or a buffer is NaN,
        ValueError for a part that could not be read back, and OSError if the disk is full or cannot
        be written; the earlier checkpoints stay in every case.
        """
        step = count("step", step, at_least=0)
        self._refuse_what_is_not_finite(step)
        final = self.folder / f"step-{step:08d}.pt"
        try:
            archive.write(final, self._state(step))
        except (OSError, ValueError) as error:
            kept = ", ".join(path.name for path in self.paths()) or "none"
            raise type(error)(f"step {step} was not saved ({error}); kept: {kept}") from error
        self._remove_old(final)
        return final

    def load(self) -> int:
        """Restore the newest checkpoint that is whole and return its step; 0 if there is none.

        Files that are truncated, damaged or no checkpoints are left alone; `skipped` says why.
        Raises ValueError for a checkpoint of another model, optimizer or precision, or one without
        the batches' state where it is needed, before anything is changed; and when there are files
        but none can be read, so that no run silently starts over.
        """
        self.skipped = {}
        for path in self.paths():
            try:
                state = _read(path)
            except archive.BROKEN as error:
                self.skipped[path] = archive.why(error)
                continue
            self._restore(state, path.name)
            return state["step"]
        if self.skipped:
            why = "; ".join(f"{path.name}: {words}" for path, words in self.skipped.items())
            raise ValueError(f"no checkpoint in {self.folder} can be read: {why}")
        return 0

    def _state(self, step: int) -> dict:
        return {
            "step": step,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "kind": _kind(self.optimizer),
            "order": _order(self.model, self.optimizer),
            "batches": None if self.batches is None else self.batches.state_dict(),
            "schedule": None if self.schedule is None else self.schedule.state_dict(),
            "precision": {"name": FP32} if self.precision is None else self.precision.state_dict(),
            "random": random_states(),
        }

    def _restore(self, state: dict, name: str) -> None:
        _must_match(name, state["model"], self.model.state_dict())
        if state["kind"] != _kind(self.optimizer):
            raise ValueError(f"{name} is of another optimizer: {state['kind']}")
        order = _order(self.model, self.optimizer)
        if state["order"] != order:
            raise ValueError(
                f"{name} is of another optimizer: {_other_order(state['order'], order)}"
            )
        if self.batches is not None and state["batches"] is None:
            raise ValueError(f"{name} does not say where the batches were: saved without them")
        if self.schedule is not None and state["schedule"] is None:
            raise ValueError(f"{name} does not say where the schedule was: saved without it")
        if self.schedule is None and state["schedule"] is not None:
            raise ValueError(f"{name} was saved with a schedule: pass it")
        used, saved = getattr(self.precision, "name", FP32), state["precision"]["name"]
        if saved != used:
            raise ValueError(f"{name} is of a run in {saved!r}, this one is in {used!r}")
        try:
            self.optimizer.load_state_dict(state["optimizer"])
        except ValueError as error:
            raise ValueError(f"{name} is of another optimizer: {error}") from error
        self.model.load_state_dict(state["model"])
        if self.batches is not None:
            self.batches.load_state_dict(state["batches"])
        if self.schedule is not None:
            self.schedule.load_state_dict(state["schedule"])
        if self.precision is not None:
            self.precision.load_state_dict(state["precision"])
        restore_random_states(state["random"])

    def _refuse_what_is_not_finite(self, step: int) -> None:
        values = dict(self.model.named_parameters())
        names = {id(parameter): name for name, parameter in values.items()}
        for parameter, state in self.optimizer.state.items():
            owner = names.get(id(parameter), "a parameter")
            values |= {f"{key} of {owner}": x for key, x in state.items()}
        for name, value in values.items():
            if not all(tensor.isfinite().all() for tensor in _numbers(value)):
                raise Diverged(f"{name} is not finite after step {step}: no checkpoint is written")
        values = dict(self.model.named_buffers())  # infinity may be meant, as in a mask or a limit
        for number, group in enumerate(self.optimizer.param_groups):
            values |= {f"{key} of group {number}": x for key, x in group.items() if key != "params"}
        for name, value in values.items():
            if any(tensor.isnan().any() for tensor in _numbers(value)):
                raise Diverged(f"{name} is NaN after step {step}: no checkpoint is written")

    def _remove_old(self, newest: Path) -> None:
        """Keep `newest` and the whole ones before it, `keep` in all; remove what is older."""
        self.skipped.pop(newest, None)
        older = [path for path in self.paths() if _step_of(path) <= _step_of(newest)]
        for path in [path for path in older if path not in self.skipped][self.keep :]:
            path.unlink(missing_ok=True)
        for path in self.folder.glob(f"step-*.pt{archive.PARTIAL}"):  # left by a crash
            path.unlink(missing_ok=True)


def _numbers(value: object) -> Iterator[torch.Tensor]:
    """The tensors and floats, as tensors, in lists, tuples and dicts in each other."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from _numbers(each)
    elif isinstance(value, (torch.Tensor, float)):
        yield torch.as_tensor(value)


def _step_of(path: Path) -> int:
    return int(path.stem[5:])


def _read(path: Path) -> dict:
    """What the file holds; one of `archive.BROKEN` if it is damaged or no checkpoint."""
    state = archive.read(path)
    if not isinstance(state, dict) or state.keys() != CONTENTS:
        raise ValueError("it is no checkpoint of this class")
    return state


def _kind(optimizer: torch.optim.Optimizer) -> str:
    return f"{type(optimizer).__module__}.{type(optimizer).__qualname__}"


def _order(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[list[str]]:
    """The names of the parameters in each of the optimizer's groups, whose state is by position."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    groups = [group["params"] for group in optimizer.param_groups]
    return [
        [names.get(id(p), "a parameter of none of the model's") for p in group] for group in groups
    ]


def _other_order(saved: list[list[str]], wanted: list[list[str]]) -> str:
    """In words where two orders of parameters differ first."""
    for group, pair in enumerate(zip(saved, wanted, strict=False)):
        for at, (there, here) in enumerate(zip(*pair, strict=False)):
            if there != here:
                return f"parameter {at} of group {group} is {there} in the file, {here} here"
    return "its groups have other numbers of parameters"


def _must_match(name: str, saved: dict, wanted: dict) -> None:
    """Raise ValueError unless both have the same names, shapes and types."""
    for key in sorted(saved.keys() | wanted.keys()):
        there, here = (_form(d[key]) if key in d else "nothing" for d in (saved, wanted))
        if there != here:
            raise ValueError(
                f"{name} is of another model: {key} is {there} in the file, {here} in the model"
            )


def _form(value: object) -> str:
    if not torch.is_tensor(value):
        return "extra state"  # what a module's get_extra_state returned
    return f"{tuple(value.shape)} of {value.dtype}"
