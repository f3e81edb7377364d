"""Checkpoints: everything a run needs to go on as if nothing had happened.

A checkpoint holds the model, the optimizer's state, the step and every random state in use; where a
run has them, the position in the data and the loss scale too. It is written beside the last one and
takes its name only when it is complete, so that at every moment there is a whole one on disk.
"""

import os
import pickle
import random
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import torch
from torch import nn

from course_utils.arguments import count
from course_utils.train.loop import Step
from course_utils.train.step import Diverged, Precision

PARTIAL = ".partial"
FP32 = "fp32"  # the precision of a run without a recipe
CONTENTS = {"step", "model", "optimizer", "kind", "batches", "precision", "random"}
# The errors that reading raises for a damaged archive, or for a file that is no checkpoint.
BROKEN = (
    OSError, EOFError, RuntimeError, ValueError, OverflowError, IndexError, zipfile.BadZipFile,
    zlib.error, struct.error, pickle.UnpicklingError,
)  # fmt: skip


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
        precision: Precision | None = None,
        keep: int = 2,
    ) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.model, self.optimizer = model, optimizer
        self.batches, self.precision = batches, precision
        self.keep = count("keep", keep)
        self.skipped: list[Path] = []

    def paths(self) -> list[Path]:
        """The complete checkpoints in the folder, newest first."""
        return sorted(self.folder.glob("step-*.pt"), reverse=True)

    def every(self, steps: int) -> Callable[[Step], None]:
        """A callback for the loop that saves a checkpoint after every `steps` steps."""
        count("steps", steps)
        return lambda step: None if step.number % steps else self.save(step.number) and None

    def save(self, step: int) -> Path:
        """Write a checkpoint, then remove older ones; returns the new one's path.

        Raises `Diverged` if a parameter is not finite, and OSError if the disk is full or
        cannot be written; the earlier checkpoints stay in both cases.
        """
        self._refuse_what_is_not_finite(step)
        final = self.folder / f"step-{count('step', step, at_least=0):08d}.pt"
        partial = final.with_name(final.name + PARTIAL)
        try:
            with open(partial, "wb") as file:
                torch.save(self._state(step), file)
                file.flush()
                os.fsync(file.fileno())  # on the disk, not only in the system's memory
            os.replace(partial, final)  # atomic: the name means the old file or the new one
        except (OSError, RuntimeError) as error:
            partial.unlink(missing_ok=True)
            kept = ", ".join(path.name for path in self.paths()) or "none"
            raise OSError(f"step {step} was not saved ({_reason(error)}); kept: {kept}") from error
        _sync(self.folder)
        self._remove_old(final)
        return final

    def load(self) -> int:
        """Restore the newest checkpoint that is whole and return its step; 0 if there is none.

        Files that are truncated, damaged or no checkpoints are left alone and listed in `skipped`.
        Raises ValueError for a checkpoint of another model, optimizer or precision, or one without
        the batches' state where it is needed, before anything is changed; and when there are files
        but none can be read, so that no run silently starts over.
        """
        self.skipped = []
        for path in self.paths():
            try:
                state = _read(path)
            except BROKEN:
                self.skipped.append(path)
                continue
            self._restore(state, path.name)
            return state["step"]
        if self.skipped:
            names = ", ".join(path.name for path in self.skipped)
            raise ValueError(f"no checkpoint in {self.folder} can be read: {names} are damaged")
        return 0

    def _state(self, step: int) -> dict:
        return {
            "step": step,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "kind": _kind(self.optimizer),
            "batches": None if self.batches is None else self.batches.state_dict(),
            "precision": {"name": FP32} if self.precision is None else self.precision.state_dict(),
            "random": random_states(),
        }

    def _restore(self, state: dict, name: str) -> None:
        _must_match(name, state["model"], self.model.state_dict())
        if state["kind"] != _kind(self.optimizer):
            raise ValueError(f"{name} is of another optimizer: {state['kind']}")
        if self.batches is not None and state["batches"] is None:
            raise ValueError(f"{name} does not say where the batches were: saved without them")
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
        if self.precision is not None:
            self.precision.load_state_dict(state["precision"])
        restore_random_states(state["random"])

    def _refuse_what_is_not_finite(self, step: int) -> None:
        for name, parameter in self.model.named_parameters():
            if not parameter.isfinite().all():
                raise Diverged(f"{name} is not finite after step {step}: no checkpoint is written")

    def _remove_old(self, newest: Path) -> None:
        """Keep `newest` and the whole ones before it, `keep` in all; remove what is older."""
        self.skipped = [path for path in self.skipped if path != newest]
        older = [path for path in self.paths() if path.name <= newest.name]
        for path in [path for path in older if path not in self.skipped][self.keep :]:
            path.unlink(missing_ok=True)
        for path in self.folder.glob(f"step-*.pt{PARTIAL}"):  # left by a crash
            path.unlink(missing_ok=True)


def random_states() -> dict:
    """The states of Python's and torch's generators, as `weights_only` loading accepts them."""
    states = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state_all()
    return states


def restore_random_states(states: dict) -> None:
    """Set the generators to `states`, which `random_states` returned."""
    version, numbers, gauss = states["python"]
    random.setstate((version, tuple(numbers), gauss))
    torch.set_rng_state(states["torch"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(states["cuda"])


def _read(path: Path) -> dict:
    """What the file holds; one of `BROKEN` if it is damaged or no checkpoint."""
    with zipfile.ZipFile(path) as archive:  # what torch.save writes, with a checksum of each part
        damaged = archive.testzip()
    if damaged:
        raise ValueError(f"{path.name} is damaged in {damaged}")
    state = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(state, dict) or state.keys() != CONTENTS:
        raise ValueError(f"{path.name} is no checkpoint of this class")
    return state


def _reason(error: OSError | RuntimeError) -> BaseException:
    """The disk's own error, which torch.save may hide behind one about positions in the file."""
    hidden = error.__context__
    return hidden if isinstance(error, RuntimeError) and isinstance(hidden, OSError) else error


def _kind(optimizer: torch.optim.Optimizer) -> str:
    return f"{type(optimizer).__module__}.{type(optimizer).__qualname__}"


def _must_match(name: str, saved: dict, wanted: dict) -> None:
    """Raise ValueError unless both have the same names, shapes and types."""
    for key in sorted(saved.keys() | wanted.keys()):
        there, here = (_form(d[key]) if key in d else "nothing" for d in (saved, wanted))
        if there != here:
            raise ValueError(
                f"{name} is of another model: {key} is {there} in the file, {here} in the model"
            )


def _form(tensor: torch.Tensor) -> str:
    return f"{tuple(tensor.shape)} of {tensor.dtype}"


def _sync(folder: Path) -> None:
    """Write the folder to disk too, so that the new name lasts; Windows cannot, and need not."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
