"""Precision recipes for the training loop: what a step casts, and what stays in fp32.

In this order: `choose` a recipe, `prepare` the model with it, make the optimizer, and pass the
recipe to `train`.
"""

from contextlib import AbstractContextManager

import torch
from jaxtyping import Float32
from torch import Tensor, nn

from course_utils.arguments import cause, one_of
from course_utils.formats.fp8 import E4M3, E5M2, round_fp8
from course_utils.train.fp8 import Fp8Linear
from course_utils.train.step import Diverged, LossFn, Precision

__all__ = ["NAMES", "Precision", "choose"]


class Narrow(Precision):
    """Everything in one narrow format: parameters, gradients, optimizer state, activations, loss.

    With Adam this takes 8 bytes per parameter. The price: an update of less than half a unit in the
    parameter's last place is rounded away.
    """

    def forward(self, model: nn.Module, x: Tensor, y: Tensor, loss_fn: LossFn) -> Tensor:
        """The loss in the narrow format; inputs and targets that are floats are cast to it."""
        return loss_fn(model(self._cast(x)), self._cast(y))

    def _convert(self, model: nn.Module) -> None:
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.data = self._cast(tensor.data)  # as model.to does, but on fake tensors too

    def _matmul(self, a: Float32[Tensor, "2 2"]) -> Tensor:
        return a.to(self.dtype) @ a.to(self.dtype)

    def _cast(self, values: Tensor) -> Tensor:
        return values.to(self.dtype) if values.is_floating_point() else values


class Autocast(Precision):
    """Parameters, gradients and optimizer state in fp32; torch.autocast casts for each operation.

    In fp16, gradients below 2⁻²⁵ underflow to 0 in the backward pass, and those above 65504 become
    infinite, which the optimizer then writes into the parameters.
    """

    def forward(self, model: nn.Module, x: Tensor, y: Tensor, loss_fn: LossFn) -> Tensor:
        """The loss, computed under autocast; the backward pass follows the same formats."""
        with self._casting():
            return loss_fn(model(x), y)

    def _matmul(self, a: Float32[Tensor, "2 2"]) -> Tensor:
        with self._casting():
            result = a @ a
        if result.dtype is not self.dtype:  # autocast may do nothing without an error
            raise RuntimeError(f"autocast left a product in {result.dtype}")
        return result

    def _casting(self) -> AbstractContextManager:
        return torch.autocast(self.device.type, self.dtype)


class Scaled(Autocast):
    """Autocast with a loss scale, so that small gradients do not underflow on their way back.

    torch.amp.GradScaler multiplies the loss by `scale` (65536 at first) and divides the fp32
    gradients by it. If one is not finite the step is skipped and the scale halved; after 2000 good
    steps it is doubled. Source: Micikevicius et al. 2018, Mixed Precision Training.
    """

    def __init__(self, name: str, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(name, device, dtype)
        self.scaler = torch.amp.GradScaler(device.type)

    @property
    def scale(self) -> float:
        """The loss scale of the next step."""
        return self.scaler.get_scale()

    def state_dict(self) -> dict:
        """The name, the skipped steps, the scale, and the good steps since it last changed."""
        return super().state_dict() | {"scaler": self.scaler.state_dict()}

    def load_state_dict(self, state: dict) -> None:
        """Go on with the loss scale that was saved."""
        super().load_state_dict(state)
        self.scaler.load_state_dict(state["scaler"])

    def update(self, loss: Tensor, optimizer: torch.optim.Optimizer) -> None:
        """Backward from the scaled loss, then the optimizer's step unless gradients overflowed.

        Raises `Diverged` once no scale is left to try: gradients that are NaN at every scale.
        """
        before = self.scale
        self.scaler.scale(loss).backward()
        self.scaler.step(optimizer)
        self.scaler.update()
        self.skipped += self.scale < before
        if self.scale == 0:
            raise Diverged(f"gradients are not finite at any loss scale; {self.skipped} skipped")


class Fp8(Precision):
    """The matmuls of every nn.Linear take numbers rounded to fp8; all else is fp32. A simulation.

    Inputs and weights are rounded to E4M3 forward, the incoming gradient to E5M2 backward, each
    tensor with one scale of its own, taken from its own largest value. The rounding is fp8's; the
    matmuls run in fp32 on the rounded numbers, so that nothing gets faster or smaller. Matmuls
    outside of nn.Linear, and those of classes derived from it, stay in fp32. Source: Micikevicius
    et al. 2022, FP8 Formats for Deep Learning.

    Where the hardware has fp8 units, Transformer Engine hands them the fp8 numbers themselves and
    takes a scale, as one recipe, from the largest values of earlier steps, so that a tensor is read
    once. FP8-LM (Peng et al. 2023) also keeps gradients and Adam's first average in fp8.
    """

    def _convert(self, model: nn.Module) -> None:
        layers = [layer for layer in model.modules() if type(layer) is nn.Linear]
        if not layers:
            raise ValueError("the model has no nn.Linear: nothing in it would be rounded to fp8")
        for layer in layers:
            layer.__class__ = Fp8Linear  # keeps its parameters, names and hooks

    def _matmul(self, a: Float32[Tensor, "2 2"]) -> Tensor:
        return round_fp8(a, E4M3) @ round_fp8(a, E5M2)


RECIPES = {
    "fp32": (Precision, torch.float32),
    "bf16": (Narrow, torch.bfloat16),
    "autocast bf16": (Autocast, torch.bfloat16),
    "fp16": (Autocast, torch.float16),
    "fp16 scaled": (Scaled, torch.float16),
    "fp8 simulated": (Fp8, E4M3),
}
NAMES = tuple(RECIPES)


def choose(name: str, device: str | torch.device = "cpu") -> Precision:
    """The recipe called `name`, one of `NAMES`, for models on `device`.

    Raises ValueError for another name, and for a device that cannot compute in the recipe's format:
    a small matmul is tried on it.
    """
    kind, dtype = RECIPES[one_of("name", name, NAMES)]
    try:
        tiny = torch.ones(2, 2, device=device)
        recipe = kind(name, tiny.device, dtype)
        recipe._matmul(tiny)
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = cause(error) or type(error).__name__
        raise ValueError(f"{str(device)!r} cannot compute in {dtype} here: {reason}") from error
    return recipe
