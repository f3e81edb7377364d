"""Follows every storage that a step touches: when it appears, what it is for, when it goes."""

import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from course_utils.measure.flops import _in_backward

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
    """One storage: bytes, category, how often autograd saved it, and when it was first seen."""

    nbytes: int
    category: str
    saved: int = 0
    born: int = 0
    alive: bool = True


class StorageTracker:
    """Keeps the books; `learning` finds out what is what, `measuring` counts."""

    def __init__(self) -> None:
        self.held: Counter[str] = Counter()
        self.at_peak: Counter[str] = Counter()
        self.largest: Counter[str] = Counter()
        self.events: list[Event] = []
        self.device = "cpu"
        self._known: dict[int, _Storage] = {}
        self._parameters: dict[int, torch.Tensor] = {}
        self._optimizers: dict[int, Optimizer] = {}
        self._phase, self._peak, self._peak_at, self._counting = "forward", -1, 0, False

    @contextmanager
    def learning(self) -> Iterator[None]:
        """Run a warm-up step and note its parameters and optimizers."""
        with self._watching():
            yield

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Count from what is known to exist already."""
        self._counting = True
        self.held.clear()
        self._known.clear()
        for parameter in self._parameters.values():
            self._adopt(parameter, "parameters")
            if parameter.grad is not None:
                self._adopt(parameter.grad, "gradients")
        for optimizer in self._optimizers.values():
            self._adopt_state(optimizer)
        self._note()
        with self._watching():
            yield

    @contextmanager
    def _watching(self) -> Iterator[None]:
        hooks = [
            register_optimizer_step_pre_hook(self._before_optimizer),
            register_optimizer_step_post_hook(self._after_optimizer),
        ]
        with ExitStack() as stack:
            for hook in hooks:
                stack.callback(hook.remove)
            self._stack = stack
            for parameter in self._parameters.values():
                self._follow(parameter)
            stack.enter_context(saved_tensors_hooks(self._pack, lambda saved: saved.tensor))
            stack.enter_context(_Watch(self))
            yield

    def _follow(self, parameter: torch.Tensor) -> None:
        """Hear when the gradient of `parameter` is ready, as long as the step runs."""
        handle = parameter.register_post_accumulate_grad_hook(self._after_gradient)
        self._stack.callback(handle.remove)

    # What the watcher and the hooks report

    def read(self, tensor: torch.Tensor) -> None:
        """An operation reads `tensor`: if it is unknown, it existed before."""
        if self._find(tensor) is None:
            leaf = tensor.is_leaf and tensor.requires_grad
            self._adopt(tensor, "parameters" if leaf else "inputs", earlier=True)
            if leaf and id(tensor) not in self._parameters:
                self._parameters[id(tensor)] = tensor
                self._follow(tensor)

    def made(self, tensor: torch.Tensor) -> None:
        """An operation returned `tensor`: its storage is new or known."""
        if self._find(tensor) is None:
            self._adopt(tensor, "temporaries")
            self.device = tensor.device.type if self.device != "cuda" else "cuda"

    def _before_optimizer(self, optimizer: Optimizer, *_: object) -> None:
        self._phase = "optimizer"
        self._optimizers[id(optimizer)] = optimizer

    def _after_optimizer(self, optimizer: Optimizer, *_: object) -> None:
        self._adopt_state(optimizer)
        self._phase = "forward"

    def _after_gradient(self, parameter: torch.Tensor) -> None:
        self._relabel(parameter.grad, "gradients")

    def _adopt_state(self, optimizer: Optimizer) -> None:
        for value in tree_leaves([dict(state) for state in optimizer.state.values()]):
            if isinstance(value, torch.Tensor):
                if self._find(value) is None:
                    self._adopt(value, "optimizer")
                else:
                    self._relabel(value, "optimizer")

    def _pack(self, tensor: torch.Tensor) -> "_Saved":
        return _Saved(self, tensor)

    # The books

    def _find(self, tensor: torch.Tensor) -> _Storage | None:
        return self._known.get(id(tensor.untyped_storage()))

    def _adopt(self, tensor: torch.Tensor, category: str, *, earlier: bool = False) -> None:
        """Enter a storage. What existed `earlier` was there at every moment counted so far."""
        storage = tensor.untyped_storage()
        if id(storage) in self._known:
            return
        entry = _Storage(storage.nbytes(), category, born=0 if earlier else len(self.events))
        self._known[id(storage)] = entry
        weakref.finalize(storage, self._gone, id(storage), entry).atexit = False
        if earlier:
            self._add_to_the_past(category, entry.nbytes)
        self._change(category, entry.nbytes)

    def _add_to_the_past(self, category: str, nbytes: int) -> None:
        for event in self.events:
            event.parts[category] += nbytes
        if self._peak >= 0:
            self.at_peak[category] += nbytes
            self._peak += nbytes

    def _gone(self, key: int, entry: _Storage) -> None:
        entry.alive = False
        if self._known.get(key) is entry:
            del self._known[key]
            self._change(self._shown(entry), -entry.nbytes)

    def _relabel(self, tensor: torch.Tensor, category: str) -> None:
        """`tensor` turned out to be something else; correct the peak if it existed then."""
        entry = self._find(tensor)
        if entry is None:
            return self._adopt(tensor, category)
        before, entry.category = self._shown(entry), category
        if before != self._shown(entry):
            self._move(entry, before)
        return None

    def save(self, tensor: torch.Tensor, step: int) -> None:
        """Autograd keeps `tensor` (step 1) or lets it go (step −1)."""
        entry = self._find(tensor)
        if entry is not None:
            before = self._shown(entry)
            entry.saved += step
            if before != self._shown(entry):
                self._move(entry, before, correct=False)

    def _shown(self, entry: _Storage) -> str:
        free = entry.category in ("temporaries", "inputs")
        return "activations" if free and entry.saved > 0 else entry.category

    def _move(self, entry: _Storage, before: str, *, correct: bool = True) -> None:
        self.held[before] -= entry.nbytes
        if correct and entry.born <= self._peak_at:
            self.at_peak[before] -= entry.nbytes
            self.at_peak[self._shown(entry)] += entry.nbytes
        self._change(self._shown(entry), entry.nbytes)

    def _change(self, category: str, nbytes: int) -> None:
        if not self._counting:
            return
        self.held[category] += nbytes
        self._note()

    def _note(self) -> None:
        parts = {name: self.held[name] for name in CATEGORIES}
        phase = "backward" if _in_backward() else self._phase
        self.events.append(Event(phase, parts))
        for name, held in parts.items():
            self.largest[name] = max(self.largest[name], held)
        if sum(parts.values()) > self._peak:
            self._peak, self._peak_at = sum(parts.values()), len(self.events) - 1
            self.at_peak = Counter(parts)


class _Saved:
    """What autograd holds instead of a saved tensor; tells when it lets go."""

    def __init__(self, tracker: StorageTracker, tensor: torch.Tensor) -> None:
        self.tracker, self.tensor = tracker, tensor
        tracker.save(tensor, 1)

    def __del__(self) -> None:
        self.tracker.save(self.tensor, -1)


class _Watch(TorchDispatchMode):
    """Reports the tensors that operations read and return."""

    def __init__(self, tracker: StorageTracker) -> None:
        super().__init__()
        self.tracker = tracker

    def __torch_dispatch__(
        self, func: Callable, types: object, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        for tensor in _tensors((args, kwargs)):
            self.tracker.read(tensor)
        out = func(*args, **(kwargs or {}))
        for tensor in _tensors(out):
            self.tracker.made(tensor)
        return out


def _tensors(tree: object) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
