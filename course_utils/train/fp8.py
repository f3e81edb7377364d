"""A linear layer whose matmuls take numbers rounded to fp8: fp8 training by simulation."""

import torch
from jaxtyping import Float, Float32
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

from course_utils.formats.fp8 import E4M3, E5M2, round_fp8


class Fp8Linear(nn.Linear):
    """nn.Linear whose matmuls take numbers rounded to fp8; the bias is added in fp32."""

    def forward(self, x: Float[Tensor, "... inputs"]) -> Float32[Tensor, "... outputs"]:
        """`x` @ weight.T + bias, as nn.Linear computes it, from rounded `x` and weight."""
        result = _Fp8Matmul.apply(x, self.weight)
        return result if self.bias is None else result + self.bias


class _Fp8Matmul(torch.autograd.Function):
    """x @ weight.T and its two gradients: three matmuls, each of two rounded tensors."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, x: Float[Tensor, "... inputs"], weight: Float[Tensor, "outputs inputs"]
    ) -> Float32[Tensor, "... outputs"]:
        x, weight = round_fp8(x, E4M3), round_fp8(weight, E4M3)
        ctx.save_for_backward(x, weight)
        return x @ weight.T

    @staticmethod
    @once_differentiable
    def backward(
        ctx: FunctionCtx, grad: Float[Tensor, "... outputs"]
    ) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        grad = round_fp8(grad, E5M2)
        of_x = grad @ weight if ctx.needs_input_grad[0] else None
        rows, inputs = (t.reshape(-1, t.shape[-1]) for t in (grad, x))
        of_weight = rows.T @ inputs if ctx.needs_input_grad[1] else None
        return of_x, of_weight
