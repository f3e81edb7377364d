"""Follows every storage that a step touches: when it appears, what it is for, when it goes."""

import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from course_utils.measure.counter import _in_backward
from course_utils.measure.watch import Saved, Watch, parts, resizes, stored

CATEGORIES = ("parameters", "gradients", "optimizer", "activations", "inputs", "temporaries")


@dataclass(frozen=True)
class Event:
    """Bytes by category after one change, and the phase it happened in."""

    phase: str
    parts: dict[str, int] = field(hash=False)

    @property
    def total(self) -> int:
        """Bytes held in all."""
        return sum(self.parts.values())


@dataclass
class _Storage:
    """One storage: how often autograd saved it, and since which event it is called what it is.

    `left` is what an earlier step made and left, until the measured one reads it.
    """

    nbytes: int
    category: str = ""
    saved: int = 0
    since: int = 0
    left: bool = False

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
        """Watch a step, and note its parameters and optimizers."""
        with ExitStack() as self._stack:
            self._stack.callback(register_optimizer_step_pre_hook(self._before_optimizer).remove)
            self._stack.callback(register_optimizer_step_post_hook(self._after_optimizer).remove)
            self._follow(*self._parameters.values())
            self._stack.enter_context(saved_tensors_hooks(self._save, Saved.unpack))
            self._stack.enter_context(resizes(self._entry))
            self._stack.enter_context(Watch(self.read, self.made))
            yield

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Watch a step too, and count from what is known to exist already."""
        self._inherit()
        self._phase, self._optimizing, self._counting = "forward", False, True
        self._note()
        with self.learning():
            yield
            self._enrol(*self._parameters.values())

    def close(self) -> None:
        """Let go of all storages, so that none keeps this tracker and its parameters alive."""
        self._counting = False
        for finalizer in self._finalizers:
            finalizer.detach()
        for books in (self._finalizers, self._known, self._awaited):
            books.clear()

    def _follow(self, *parameters: torch.Tensor) -> None:
        """Hear when the gradients of `parameters` are ready, as long as the step runs."""
        for parameter in parameters:
            if parameter.requires_grad:
                handle = parameter.register_post_accumulate_grad_hook(self._after_gradient)
                self._stack.callback(handle.remove)

    def _inherit(self) -> None:
        """Begin with what the warm-up steps left; what they only read may be of no use any more."""
        for key, entry in list(self._known.items()):
            if entry.shown == "inputs":
                del self._known[key]
            elif entry.category == "temporaries":
                entry.category, entry.left = "inputs", True
        self._enrol(*self._parameters.values())
        self._adopt_state(*self._optimizers.values())
        for entry in self._known.values():
            self.held[entry.shown] += entry.nbytes

    # What the watcher and the hooks report

    def read(self, tensor: torch.Tensor) -> None:
        """An operation reads `tensor`: if it is unknown, it existed before."""
        entry = self._find(tensor)
        leaf = tensor.is_leaf and tensor.requires_grad
        if leaf and entry is not None and not entry.left:
            leaf = id(tensor) in self._parameters
        if leaf or isinstance(tensor, torch.nn.Parameter):
            self._enrol(tensor)
        elif entry is None:
            self._adopt(tensor, "inputs", earlier=True)
        else:
            entry.left = False

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
        self._enrol(*(one for group in optimizer.param_groups for one in group["params"]))

    def _after_optimizer(self, optimizer: Optimizer, *_: object) -> None:
        self._adopt_state(optimizer)
        self._optimizing = False

    def _after_gradient(self, parameter: torch.Tensor) -> None:
        for gradient in parts(parameter.grad):
            self._relabel(gradient, "gradients")

    def _enrol(self, *parameters: torch.Tensor) -> None:
        """Enter parameters and gradients as such; another `.data` or `.grad` may be assigned."""
        for parameter in parameters:
            if id(parameter) not in self._parameters:
                self._parameters[id(parameter)] = parameter
                self._follow(parameter)
            for part in parts(parameter):
                self._relabel(part, "parameters", earlier=True)
            for gradient in parts(parameter.grad):
                self._relabel(gradient, "gradients", earlier=True)

    def _adopt_state(self, *optimizers: Optimizer) -> None:
        states = [dict(state) for one in optimizers for state in one.state.values()]
        for value in stored(states):
            self._relabel(value, "optimizer", earlier=True)

    # The books

    def _find(self, tensor: torch.Tensor) -> _Storage | None:
        return self._entry(tensor.untyped_storage())

    def _entry(self, storage: torch.UntypedStorage) -> _Storage | None:
        """What is known of `storage`, at its present size."""
        entry = self._known.get(id(storage))
        if entry is not None and entry.nbytes != storage.nbytes():
            grown, entry.nbytes = storage.nbytes() - entry.nbytes, storage.nbytes()
            entry.since = len(self.events)  # it is no longer what it was
            self._change({entry.shown: grown})
        return entry

    def _adopt(self, tensor: torch.Tensor, category: str, *, earlier: bool = False) -> None:
        """Enter a storage. What existed `earlier` was there at every moment counted so far."""
        storage = tensor.untyped_storage()
        key = id(storage)
        entry = self._known[key] = self._awaited.pop(key, None) or _Storage(0)
        entry.nbytes, entry.category = storage.nbytes(), category
        self._finalizers.append(weakref.finalize(storage, self._gone, key, entry))
        if earlier:
            for event in self.events:
                event.parts[category] += entry.nbytes
        entry.since = 0 if earlier and entry.shown == category else len(self.events)
        self._change({entry.shown: entry.nbytes})

    def _gone(self, key: int, entry: _Storage) -> None:
        if self._known.get(key) is entry:
            del self._known[key]
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

    def _save(self, tensor: torch.Tensor) -> Saved:
        """Autograd keeps `tensor` for the backward pass."""
        entries = [self._expected(part.untyped_storage()) for part in parts(tensor)]
        self._keep(entries, 1)
        return Saved(tensor, partial(self._keep, entries, -1))

    def _expected(self, storage: torch.UntypedStorage) -> _Storage:
        known = self._entry(storage)
        return known or self._awaited.setdefault(id(storage), _Storage(storage.nbytes()))

    def _keep(self, entries: list[_Storage], times: int) -> None:
        """Autograd keeps storages once more, or once less."""
        for entry in entries:
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
