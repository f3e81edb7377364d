"""Broken training loops: what each does in another way than `loops.Loop`, and how that is told."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from course_utils.check.loops import Batches, Loop, LossFn

Optimizer = torch.optim.Optimizer


@dataclass(frozen=True)
class Flaw:
    """A broken loop: the `kind` follows 'one that', and `told` is the sentence for its author.

    Without one, the author is told by what such a loop does with batches, optimizer and errors.
    """

    loop: type[Loop]
    kind: str
    told: str = ""

    def __call__(self, *run: object) -> list[float]:
        """Run the broken loop, a new one each time."""
        return self.loop()(*run)


class _NeverClears(Loop):
    def clear(self, optimizer: Optimizer) -> None:
        pass


class _ClearsOnlyAfterwards(Loop):
    def clear(self, optimizer: Optimizer) -> None:
        pass

    def update(self, loss: Tensor, optimizer: Optimizer) -> None:
        super().update(loss, optimizer)
        optimizer.zero_grad()


class _ClearsTooLate(Loop):
    def update(self, loss: Tensor, optimizer: Optimizer) -> None:
        loss.backward()
        optimizer.zero_grad()
        optimizer.step()


class _LeavesTheMode(Loop):
    def begin(self, model: nn.Module, optimizer: Optimizer) -> None:
        pass


class _Evaluates(Loop):
    def begin(self, model: nn.Module, optimizer: Optimizer) -> None:
        model.eval()


class _OwnOptimizer(Loop):
    def begin(self, model: nn.Module, optimizer: Optimizer) -> None:
        super().begin(model, optimizer)
        self.own = torch.optim.SGD(model.parameters(), lr=0.01)

    def update(self, loss: Tensor, optimizer: Optimizer) -> None:
        super().update(loss, self.own)


class _StepsFirst(Loop):
    def step(self, optimizer: Optimizer, ask: Callable[[], Tensor]) -> float:
        loss = ask()
        value = self.look(loss)
        optimizer.step()
        self.clear(optimizer)
        loss.backward()
        return value


class _SkipsBatches(Loop):
    def draw(self, batches: Batches) -> tuple[Tensor, Tensor]:
        next(batches)
        return next(batches)


class _OneBatch(Loop):
    batch = None

    def draw(self, batches: Batches) -> tuple[Tensor, Tensor]:
        self.batch = self.batch or next(batches)
        return self.batch


class _LossAfterwards(Loop):
    def step(self, optimizer: Optimizer, ask: Callable[[], Tensor]) -> float:
        super().step(optimizer, ask)
        return ask().item()


class _NeverSteps(Loop):
    def update(self, loss: Tensor, optimizer: Optimizer) -> None:
        loss.backward()


class _Clips(Loop):
    def update(self, loss: Tensor, optimizer: Optimizer) -> None:
        loss.backward()
        every = [p for group in optimizer.param_groups for p in group["params"]]
        nn.utils.clip_grad_norm_(every, 1e-3)
        optimizer.step()


class _GoesOn(Loop):
    def look(self, loss: Tensor) -> float:
        return loss.item()


class _StopsTooLate(Loop):
    def step(self, optimizer: Optimizer, ask: Callable[[], Tensor]) -> float:
        self.clear(optimizer)
        loss = ask()
        self.update(loss, optimizer)
        return self.look(loss)


class _OneStepShort(Loop):
    def __call__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        batches: Batches,
        loss_fn: LossFn,
        steps: int,
    ) -> list[float]:
        """One step fewer than asked for."""
        return super().__call__(model, optimizer, batches, loss_fn, steps - 1)


FLAWED = (
    Flaw(
        _NeverClears,
        "lets gradients add up from step to step",
        "the gradients add up from step to step: clear them in each.",
    ),
    Flaw(
        _ClearsOnlyAfterwards,
        "lets gradients from before into its first step",
        "gradients that were there before enter the first step: clear them before its backward.",
    ),
    Flaw(
        _ClearsTooLate,
        "clears the gradients at the wrong moment",
        "the optimizer acts when no gradients are there: backward comes between clear and step.",
    ),
    Flaw(
        _LeavesTheMode,
        "trains a model in the mode in which it came",
        "the model came in evaluation mode and stays there, with dropout off.",
    ),
    Flaw(
        _Evaluates,
        "puts the model into the wrong mode",
        "the model is in evaluation mode while it trains, with dropout off.",
    ),
    Flaw(_OwnOptimizer, "does not use the optimizer that it is given"),
    Flaw(_StepsFirst, "steps with the gradients of another batch"),
    Flaw(_SkipsBatches, "draws more batches than it uses"),
    Flaw(_OneBatch, "uses fewer batches than it takes steps"),
    Flaw(
        _LossAfterwards,
        "returns other losses than those that were asked for",
        "each loss is computed after the step: the one from before the step is asked for.",
    ),
    Flaw(_NeverSteps, "never changes the model"),
    Flaw(
        _Clips,
        "changes the gradients before the step",
        "the gradients are made smaller before the step.",
    ),
    Flaw(_GoesOn, "goes on after a loss that is not finite"),
    Flaw(_StopsTooLate, "stops too late at a loss that is not finite"),
    Flaw(_OneStepShort, "takes another number of steps"),
)
