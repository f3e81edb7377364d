"""The training loop: one, short, for every model of the course."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median, quantiles
from time import perf_counter

import torch
from torch import Tensor, nn

from course_utils.arguments import count, positive
from course_utils.train.step import LossFn, Precision, known, one_step

FEW = 8  # steps of which no spread can be told
CLOSE = 1.25  # the third quartile of the steps' times over the first, as a comparison calls close


@dataclass(frozen=True)
class Step:
    """One step of training: its number (from 1), its loss, its seconds, how many targets it had.

    `loss` is that of the batch before the step changed the model.
    """

    number: int
    loss: float
    seconds: float
    targets: int


@dataclass(frozen=True)
class History:
    """The steps of a run."""

    steps: tuple[Step, ...]

    @property
    def losses(self) -> list[float]:
        """The loss of each step."""
        return [step.loss for step in self.steps]

    @property
    def seconds(self) -> float:
        """The median step, in seconds: the first ones are slower."""
        return median(step.seconds for step in self.steps)

    @property
    def doubt(self) -> str:
        """What speaks against `seconds`: the middle half of the steps lies far apart."""
        if len(self.steps) < FEW:
            return f"only {len(self.steps)} steps"
        first, _, third = quantiles((step.seconds for step in self.steps), n=4)
        return "" if third < CLOSE * first else "its steps took different times"

    @property
    def tokens_per_second(self) -> float:
        """Targets of a step over the median step's seconds."""
        return median(step.targets for step in self.steps) / self.seconds


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Iterator[tuple[Tensor, Tensor]],
    loss_fn: LossFn,
    *,
    steps: int,
    first: int = 1,
    seconds: float | None = None,
    callbacks: tuple[Callable[[Step], None], ...] = (),
    precision: Precision | None = None,
) -> History:
    """Take `steps` steps, numbered from `first`, and call each of `callbacks` after each.

    With `seconds` a slow machine takes fewer: after that time no further step begins.

    `loss_fn(model(x), y)` must be one number. Raises `Diverged` with the step's number when it is
    not finite: before the optimizer acts, and before any callback, so that neither the model nor
    a checkpoint takes harm. Raises ValueError when the batches end early.
    `precision` comes from `precision.choose` and has prepared the model; None casts nothing.
    """
    history, began_all = [], perf_counter()
    allowed = math.inf if seconds is None else positive("seconds", seconds)
    model.train()
    last = count("first", first, at_least=0) + count("steps", steps, at_least=0) - 1
    for number in range(first, last + 1):
        began = perf_counter()
        if history and began - began_all > allowed:
            break
        x, y = _next(batches, number, last)
        value = one_step(model, optimizer, x, y, loss_fn, number, precision)
        step = Step(number, value, perf_counter() - began, y.numel())
        history.append(step)
        for callback in callbacks:
            callback(step)
    return History(tuple(history))


@torch.no_grad()
def evaluate(
    model: nn.Module,
    batches: Iterator[tuple[Tensor, Tensor]],
    loss_fn: LossFn,
    *,
    steps: int,
    precision: Precision | None = None,
) -> float:
    """The mean loss over `steps` batches, in evaluation mode; the model's mode is restored.

    `precision` is the recipe that the model was trained with: see `train`. Raises ValueError when
    the batches end early.
    """
    training, steps, recipe = model.training, count("steps", steps), known(precision)
    model.eval()
    try:
        pairs = (_next(batches, number, steps) for number in range(1, steps + 1))
        return sum(recipe.forward(model, x, y, loss_fn).item() for x, y in pairs) / steps
    finally:
        model.train(training)


def _next(
    batches: Iterator[tuple[Tensor, Tensor]], number: int, last: int
) -> tuple[Tensor, Tensor]:
    """The next batch; ValueError when there is none."""
    try:
        return next(batches)
    except StopIteration:
        raise ValueError(f"the batches ended before step {number} of {last}") from None
