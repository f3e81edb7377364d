"""Follows every storage that a step touches: when it appears, what it is for, when it goes."""

import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from course_utils.measure.flops import _in_backward
from course_utils.measure.watch import Watch, tensors

CATEGORIES = ("parameters", "gradients", "optimizer", "activations", "inputs", "temporaries")


@dataclass(frozen=True)
class Event:
    """Bytes by category after one change, and the phase it happened in."""

    phase: str
    parts: dict[str, int]

    @property
    def total(self) -> int:
        """Bytes held in all."""
        return sum(self.parts.values())


@dataclass
class _Storage:
    """One storage: how often autograd saved it, and since which event it is called what it is."""

    nbytes: int
    category: str = ""
    saved: int = 0
    since: int = 0

    @property
    def shown(self) -> str:
        """Its category; what autograd keeps, and is nothing else, is an activation."""
        free = self.category in ("temporaries", "inputs")
        return "activations" if free and self.saved > 0 else self.category


class StorageTracker:
    """Keeps the books; `learning` finds out what is what, `measuring` counts."""

    def __init__(self) -> None:
        self.held: Counter[str] = Counter()
        self.events: list[Event] = []
        self.device = "cpu"
        self._known: dict[int, _Storage] = {}
        self._awaited: dict[int, _Storage] = {}  # saved by the operation that is about to read it
        self._finalizers: list[weakref.finalize] = []
        # Weak, so that what the warm-up step made and dropped is not held on.
        self._parameters = weakref.WeakValueDictionary[int, torch.Tensor]()
        self._optimizers = weakref.WeakValueDictionary[int, Optimizer]()
        self._phase, self._optimizing, self._counting = "forward", False, False

    @contextmanager
    def learning(self) -> Iterator[None]:
        """Run a warm-up step and note its parameters and optimizers."""
        with self._watching():
            yield

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Count from what is known to exist already."""
        self._phase, self._counting = "forward", True
        with self._watching():
            for parameter in list(self._parameters.values()):
                self._adopt(parameter, "parameters", earlier=True)
                self._adopt_gradient(parameter)
                self.events.clear()  # all of it was there from the first moment on
            for optimizer in list(self._optimizers.values()):
                self._adopt_state(optimizer)
            self._note()
            del self.events[:-1]
            yield

    def at_peak(self) -> dict[str, int]:
        """Bytes by category at the first moment when most were held."""
        return dict(max(self.events, key=lambda event: event.total).parts)

    def largest(self) -> dict[str, int]:
        """Each category's own maximum."""
        return {name: max(event.parts[name] for event in self.events) for name in CATEGORIES}

    @contextmanager
    def _watching(self) -> Iterator[None]:
        with ExitStack() as self._stack:
            self._stack.callback(self._forget)
            self._stack.callback(register_optimizer_step_pre_hook(self._before_optimizer).remove)
            self._stack.callback(register_optimizer_step_post_hook(self._after_optimizer).remove)
            for parameter in list(self._parameters.values()):
                self._follow(parameter)
            self._stack.enter_context(
                saved_tensors_hooks(partial(_Saved, self), attrgetter("tensor"))
            )
            self._stack.enter_context(Watch(self.read, self.made))
            yield

    def _follow(self, parameter: torch.Tensor) -> None:
        """Hear when the gradient of `parameter` is ready, as long as the step runs."""
        if parameter.requires_grad:
            handle = parameter.register_post_accumulate_grad_hook(self._after_gradient)
            self._stack.callback(handle.remove)

    def _forget(self) -> None:
        """Let go of all storages, so that none keeps this tracker and its parameters alive."""
        for finalizer in self._finalizers:
            finalizer.detach()
        for books in (self._finalizers, self._known, self._awaited):
            books.clear()

    # What the watcher and the hooks report

    def read(self, tensor: torch.Tensor) -> None:
        """An operation reads `tensor`: if it is unknown, it existed before."""
        known, named = self._find(tensor) is not None, isinstance(tensor, torch.nn.Parameter)
        leaf = named or (not known and tensor.is_leaf and tensor.requires_grad)
        if leaf and id(tensor) not in self._parameters:
            self._parameters[id(tensor)] = tensor
            self._follow(tensor)
            self._relabel(tensor, "parameters", earlier=True)
            self._adopt_gradient(tensor)
        elif not known:
            self._adopt(tensor, "inputs", earlier=True)

    def made(self, tensor: torch.Tensor) -> None:
        """An operation returned `tensor`: its storage is new or known.

        What is freed between two operations belongs to the phase of the earlier one.
        """
        apart = "optimizer" if self._optimizing else "forward"
        self._phase = "backward" if _in_backward() else apart
        if self._find(tensor) is None:
            self._adopt(tensor, "temporaries")
            self.device = tensor.device.type if self.device != "cuda" else "cuda"

    def _before_optimizer(self, optimizer: Optimizer, *_: object) -> None:
        self._optimizing = True
        self._phase = "optimizer"  # a fused step may make no tensor that would tell
        self._change({})
        self._optimizers[id(optimizer)] = optimizer

    def _after_optimizer(self, optimizer: Optimizer, *_: object) -> None:
        self._adopt_state(optimizer)
        self._optimizing = False

    def _after_gradient(self, parameter: torch.Tensor) -> None:
        for gradient in tensors(parameter.grad):
            self._relabel(gradient, "gradients")

    def _adopt_gradient(self, parameter: torch.Tensor) -> None:
        for gradient in tensors(parameter.grad):
            self._adopt(gradient, "gradients", earlier=True)

    def _adopt_state(self, optimizer: Optimizer) -> None:
        for value in tensors([dict(state) for state in optimizer.state.values()]):
            self._relabel(value, "optimizer", earlier=True)

    # The books

    def _find(self, tensor: torch.Tensor) -> _Storage | None:
        return self._known.get(id(tensor.untyped_storage()))

    def _adopt(self, tensor: torch.Tensor, category: str, *, earlier: bool = False) -> None:
        """Enter a storage. What existed `earlier` was there at every moment counted so far."""
        storage = tensor.untyped_storage()
        key = id(storage)
        if key in self._known:
            return
        entry = self._known[key] = self._awaited.pop(key, None) or _Storage(storage.nbytes())
        entry.category = category
        self._finalizers.append(weakref.finalize(storage, self._gone, key, entry))
        if earlier:
            for event in self.events:
                event.parts[category] += entry.nbytes
        entry.since = 0 if earlier and entry.shown == category else len(self.events)
        self._change({entry.shown: entry.nbytes})

    def _gone(self, key: int, entry: _Storage) -> None:
        if self._known.pop(key, None) is entry:
            self._change({entry.shown: -entry.nbytes})

    def _relabel(self, tensor: torch.Tensor, category: str, *, earlier: bool = False) -> None:
        """`tensor` turned out to be something else, and was so since it is called what it is."""
        entry = self._find(tensor)
        if entry is None:
            return self._adopt(tensor, category, earlier=earlier)
        before, entry.category = entry.shown, category
        for event in self.events[entry.since :] if before != entry.shown else ():
            event.parts[before] -= entry.nbytes
            event.parts[entry.shown] += entry.nbytes
        return self._move(entry, before)

    def save(self, tensor: torch.Tensor) -> _Storage:
        """Autograd keeps `tensor` for the backward pass."""
        storage = tensor.untyped_storage()
        entry = self._known.get(id(storage)) or self._awaited.get(id(storage))
        if entry is None:
            entry = self._awaited[id(storage)] = _Storage(storage.nbytes())
        self.keep(entry, 1)
        return entry

    def keep(self, entry: _Storage, times: int) -> None:
        """Autograd keeps a storage once more, or once less."""
        before = entry.shown
        entry.saved += times
        if before != entry.shown:
            entry.since = len(self.events)
        self._move(entry, before)

    def _move(self, entry: _Storage, before: str) -> None:
        if before != entry.shown:
            self._change({before: -entry.nbytes, entry.shown: entry.nbytes})

    def _change(self, changes: dict[str, int]) -> None:
        if self._counting:
            self.held.update(changes)
            self._note()

    def _note(self) -> None:
        self.events.append(Event(self._phase, {name: self.held[name] for name in CATEGORIES}))


class _Saved:
    """What autograd holds instead of a saved tensor; tells when it lets go."""

    def __init__(self, tracker: StorageTracker, tensor: torch.Tensor) -> None:
        self.tracker, self.tensor = tracker, tensor
        self.entry = tracker.save(tensor) if tensor.layout is torch.strided else None

    def __del__(self) -> None:
        if self.entry is not None:
            self.tracker.keep(self.entry, -1)
