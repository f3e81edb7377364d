"""One training step: forward, loss, backward, update; in fp32 or by another precision recipe."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float32
from torch import Tensor, nn

from course_utils.arguments import shown
from course_utils.train.fp8 import Fp8Linear

LossFn = Callable[[Tensor, Tensor], Tensor]


class Diverged(FloatingPointError, RuntimeError):
    """Training cannot go on: the loss, the gradients or a parameter are not finite.

    A loss that is not finite is noticed before the backward pass, so that the model is still as the
    last step left it.
    """


class Precision:
    """A recipe: which number format each part of a training step has. This one: fp32 throughout.

    The other recipes derive from it and override what they change. `dtype` is the number format of
    the matmuls' inputs, `skipped` the number of steps that were not taken because gradients were
    not finite.
    """

    def __init__(self, name: str, device: torch.device, dtype: torch.dtype) -> None:
        self.name, self.device, self.dtype = name, device, dtype
        self.skipped = 0

    @property
    def scale(self) -> float:
        """What the loss is multiplied by before the backward pass; 1.0 without a scaler."""
        return 1.0

    def state_dict(self) -> dict:
        """What a checkpoint must hold of this recipe: its name, and what it remembers."""
        return {"name": self.name, "skipped": self.skipped}

    def load_state_dict(self, state: dict) -> None:
        """Continue from what `state_dict()` of a recipe of the same name returned."""
        self.skipped = state.get("skipped", 0)  # a run without a recipe skips no step

    def prepare(self, model: nn.Module) -> nn.Module:
        """Convert `model`, which is in fp32, in place and return it; then make the optimizer.

        Raises ValueError for a model on another kind of device, whose operations would not be cast,
        and for one that is in another number format or that was already prepared for one.
        """
        for parameter in model.parameters():
            self._must_fit(parameter)
        if any(isinstance(layer, Fp8Linear) for layer in model.modules()):
            raise ValueError("the model was prepared for fp8: start from a new one")
        self._convert(model)
        return model

    def forward(self, model: nn.Module, x: Tensor, y: Tensor, loss_fn: LossFn) -> Tensor:
        """The loss, a tensor with the graph that `update` runs backward through."""
        return loss_fn(model(x), y)

    def update(self, loss: Tensor, optimizer: torch.optim.Optimizer) -> None:
        """Backward from `loss`, then the optimizer's step."""
        loss.backward()
        optimizer.step()

    def _must_fit(self, parameter: Tensor) -> None:
        there, here = parameter.device.type, self.device.type
        if there != here:
            remedy = f"precision.choose({self.name!r}, device={there!r})"
            raise ValueError(f"the model is on {there}, the recipe for {here}: {remedy}")
        if parameter.is_floating_point() and parameter.dtype is not torch.float32:
            raise ValueError(f"the model is in {parameter.dtype}: start from one in torch.float32")

    def _convert(self, model: nn.Module) -> None:
        """What `prepare` changes in the model: in fp32, nothing."""

    def _matmul(self, a: Float32[Tensor, "2 2"]) -> Tensor:
        """A matmul as this recipe computes it, to find out whether the device can."""
        return a @ a

    def advice(self) -> str:
        """What to try when the loss became infinite or NaN, for the error message."""
        if self.dtype is torch.float16:
            return "fp16 ends at 65504: bf16, or a smaller lr, may help"
        return "a smaller lr may help"


FP32 = Precision("fp32", torch.device("cpu"), torch.float32)


def one_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    x: Tensor,
    y: Tensor,
    loss_fn: LossFn,
    number: int = 1,
    precision: Precision | None = None,
) -> float:
    """Forward, backward, update; returns the loss, that of the batch before the step.

    `precision` comes from `precision.choose` and has prepared the model; None computes in the
    format that the model has. Raises `Diverged` with the step's `number` before the backward pass
    if the loss is not finite.
    """
    recipe = known(precision)
    optimizer.zero_grad()
    loss = recipe.forward(model, x, y, loss_fn)
    value = finite(loss, number, recipe.advice())
    recipe.update(loss, optimizer)
    return value


def known(precision: object) -> Precision:
    """`precision` itself, or fp32's recipe for None; TypeError for anything else."""
    if precision is not None and not isinstance(precision, Precision):
        raise TypeError(f"precision must come from precision.choose(name), got {shown(precision)}")
    return precision or FP32


def finite(loss: Tensor, number: int, advice: str) -> float:
    """The loss as a number; raises `Diverged` with `advice` if it is not finite.

    Reading the number makes the processor wait until an accelerator has computed it.
    """
    value = loss.item()
    if not math.isfinite(value):
        raise Diverged(f"the loss is {value} at step {number}: {advice}")
    return value
