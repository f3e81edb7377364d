"""Training loops as chapter 08 asks for them, some right and some broken.

Each is `fit(model, optimizer, batches, loss_fn, steps)`: it returns the losses of the batches, each
before the step changed the model, and raises FloatingPointError before the optimizer acts when one
is not finite.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from math import isfinite

import torch
from torch import Tensor, nn

from course_utils.train import Diverged, train

Batches = Iterator[tuple[Tensor, Tensor]]
LossFn = Callable[[Tensor, Tensor], Tensor]
Fit = Callable[[nn.Module, torch.optim.Optimizer, Batches, LossFn, int], list[float]]


class Loop:
    """A right loop in small parts; each broken one does one of them in another way."""

    def begin(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Before the first step."""
        model.train()

    def draw(self, batches: Batches) -> tuple[Tensor, Tensor]:
        """The batch of a step."""
        return next(batches)

    def clear(self, optimizer: torch.optim.Optimizer) -> None:
        """Before the forward pass."""
        optimizer.zero_grad()

    def look(self, loss: Tensor) -> float:
        """The loss as a number, before the backward pass."""
        value = loss.item()
        if not isfinite(value):
            raise FloatingPointError(f"the loss is {value}")
        return value

    def update(self, loss: Tensor, optimizer: torch.optim.Optimizer) -> None:
        """The backward pass and the optimizer's step."""
        loss.backward()
        optimizer.step()

    def step(self, optimizer: torch.optim.Optimizer, ask: Callable[[], Tensor]) -> float:
        """One step on the batch whose loss `ask` computes; returns that loss."""
        self.clear(optimizer)
        loss = ask()
        value = self.look(loss)
        self.update(loss, optimizer)
        return value

    def __call__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        batches: Batches,
        loss_fn: LossFn,
        steps: int,
    ) -> list[float]:
        """Take `steps` steps and return their losses."""
        self.begin(model, optimizer)
        losses = []
        for _ in range(steps):
            x, y = self.draw(batches)
            losses.append(self.step(optimizer, lambda x=x, y=y: loss_fn(model(x), y)))
        return losses


def plain(*run: object) -> list[float]:
    """The loop in parts, a new one for each run."""
    return Loop()(*run)


def course(*run: object) -> list[float]:
    """The course's own loop."""
    *things, steps = run
    return train(*things, steps=steps).losses


def cleared_by_the_model(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Batches,
    loss_fn: LossFn,
    steps: int,
) -> list[float]:
    """Clears late, by the model, and looks at the loss only after the backward pass."""
    model.train(True)
    losses = []
    for _, (x, y) in zip(range(steps), batches, strict=False):
        loss = loss_fn(model(x), y)
        model.zero_grad()
        loss.backward()
        if not loss.isfinite():
            raise Diverged("the loss is not finite")
        losses.append(float(loss.detach()))
        optimizer.step()
    return losses


def cleared_afterwards(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Batches,
    loss_fn: LossFn,
    steps: int,
) -> list[float]:
    """Clears before the first step and then after each one, so that no gradients are left."""
    model.train()
    optimizer.zero_grad()
    losses: list[float] = []
    while len(losses) < steps:
        x, y = next(batches)
        loss = loss_fn(model(x), y)
        if not isfinite(loss.item()):
            raise FloatingPointError(f"the loss is {loss.item()}")
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def cleared_to_zeros(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Batches,
    loss_fn: LossFn,
    steps: int,
) -> list[float]:
    """Fills the gradients with zeros, and turns the losses into numbers at the end."""
    model.train()
    losses = []
    for x, y in islice(batches, steps):
        optimizer.zero_grad(set_to_none=False)
        losses.append(loss_fn(model(x), y))
        losses[-1].backward()
        if losses[-1].isnan() or losses[-1].isinf():
            raise FloatingPointError("the loss is not finite")
        optimizer.step()
    return [loss.item() for loss in losses]


RIGHT: tuple[Fit, ...] = (plain, course, cleared_by_the_model, cleared_afterwards, cleared_to_zeros)
