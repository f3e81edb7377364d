"""Follows every storage that a step touches: when it appears, what it is for, when it is freed."""

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

from course_utils.measure import private
from course_utils.measure.watch import Saved, Watch, parts, stored

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
    """One storage. `saved` counts how often autograd keeps it for the backward pass.

    The events from index `since` on count it as what it is now; if that turns out to be wrong, they
    are corrected. `inherited`: a warm-up step left it behind, and the measured one has not read it.
    """

    nbytes: int
    category: str = ""
    saved: int = 0
    since: int = 0
    inherited: bool = False

    @property
    def shown(self) -> str:
        """What it counts as: autograd keeping a temporary or an input makes it an activation."""
        free = self.category in ("temporaries", "inputs")
        return "activations" if free and self.saved > 0 else self.category


class StorageTracker:
    """Records the storages of steps: `learning` finds out what each is for, `measuring` counts."""

    def __init__(self) -> None:
        self.held: Counter[str] = Counter()
        self.events: list[Event] = []
        self.device = "cpu"
        self._known: dict[int, _Storage] = {}
        self._awaited: dict[int, _Storage] = {}  # saved by autograd, not yet seen by `Watch`
        self._finalizers: list[weakref.finalize] = []
        # Weak references: what the warm-up step made and dropped must be free to go.
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
            self._stack.enter_context(private.resizes(self._entry))
            self._stack.enter_context(Watch(self.read, self.made))
            yield

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Watch the measured step, and count, beginning with what is known to exist already."""
        self._inherit()
        self._phase, self._optimizing, self._counting = "forward", False, True
        self._note()
        with self.learning():
            yield
            self._enrol(*self._parameters.values())

    def close(self) -> None:
        """Forget all storages, so that none of them keeps this tracker and its parameters alive."""
        self._counting = False
        for finalizer in self._finalizers:
            finalizer.detach()
        for books in (self._finalizers, self._known, self._awaited):
            books.clear()

    def _follow(self, *parameters: torch.Tensor) -> None:
        """Have `_after_gradient` called for `parameters` as long as the step runs."""
        for parameter in parameters:
            if parameter.requires_grad:
                handle = parameter.register_post_accumulate_grad_hook(self._after_gradient)
                self._stack.callback(handle.remove)

    def _inherit(self) -> None:
        """Begin with what the warm-up steps left behind, without the inputs that they only read."""
        for key, entry in list(self._known.items()):
            if entry.shown == "inputs":
                del self._known[key]
            elif entry.category == "temporaries":
                entry.category, entry.inherited = "inputs", True
        self._enrol(*self._parameters.values())
        self._adopt_state(*self._optimizers.values())
        for entry in self._known.values():
            self.held[entry.shown] += entry.nbytes

    # What the watcher and the hooks report

    def read(self, tensor: torch.Tensor) -> None:
        """An operation reads `tensor`: if its storage is unknown, it existed before the step."""
        entry = self._find(tensor)
        leaf = tensor.is_leaf and tensor.requires_grad
        if leaf and entry is not None and not entry.inherited:
            leaf = id(tensor) in self._parameters
        if leaf or isinstance(tensor, torch.nn.Parameter):
            self._enrol(tensor)
        elif entry is None:
            self._adopt(tensor, "inputs", earlier=True)
        else:
            entry.inherited = False

    def made(self, tensor: torch.Tensor) -> None:
        """An operation returned `tensor`; changes until the next one count in this one's phase."""
        apart = "optimizer" if self._optimizing else "forward"
        self._phase = "backward" if private.in_backward() else apart
        if self._find(tensor) is None:
            self._adopt(tensor, "temporaries")
            self.device = tensor.device.type if self.device == "cpu" else self.device

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
        """Count parameters and gradients as such; `.data` and `.grad` may have been replaced."""
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

    # The record of storages and events

    def _find(self, tensor: torch.Tensor) -> _Storage | None:
        return self._entry(tensor.untyped_storage())

    def _entry(self, storage: torch.UntypedStorage) -> _Storage | None:
        """What is known of `storage`, at its present size."""
        entry = self._known.get(id(storage))
        if entry is not None and entry.nbytes != storage.nbytes():
            grown, entry.nbytes = storage.nbytes() - entry.nbytes, storage.nbytes()
            entry.since = len(self.events)  # earlier events hold its old size
            self._change({entry.shown: grown})
        return entry

    def _adopt(self, tensor: torch.Tensor, category: str, *, earlier: bool = False) -> None:
        """Record a storage. One that existed `earlier` is added to every event so far, too."""
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
        """`tensor` is found to be of another category: correct the events that counted it too."""
        entry = self._find(tensor)
        if entry is None:
            return self._adopt(tensor, category, earlier=earlier)
        before, entry.category = entry.shown, category
        for event in self.events[entry.since :] if before != entry.shown else ():
            event.parts[before] -= entry.nbytes
            event.parts[entry.shown] += entry.nbytes
        return self._move(entry, before)

    def _save(self, tensor: torch.Tensor) -> Saved:
        """Autograd saves `tensor` for the backward pass; what is returned stands for it there."""
        entries = [self._expected(part.untyped_storage()) for part in parts(tensor)]
        self._keep(entries, 1)
        return Saved(tensor, partial(self._keep, entries, -1))

    def _expected(self, storage: torch.UntypedStorage) -> _Storage:
        known = self._entry(storage)
        return known or self._awaited.setdefault(id(storage), _Storage(storage.nbytes()))

    def _keep(self, entries: list[_Storage], times: int) -> None:
        """Autograd keeps these storages once more (`times` 1) or once less (−1)."""
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
