"""fp8 by simulation: numbers rounded to it, and a linear layer whose products take them."""

import torch
from jaxtyping import Float, Float32
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

from course_utils.arguments import one_of, positive, shown

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


@torch.no_grad()
def round_fp8(
    x: Float[Tensor, "..."], dtype: torch.dtype, scale: float | None = None
) -> Float32[Tensor, "..."]:
    """`x` as E4M3 or E5M2 would hold it: divided by `scale`, rounded, multiplied again; in fp32.

    Without a `scale` the largest |x| becomes the format's largest number. Beyond that numbers
    saturate, whatever a cast of this torch and device does. NaN stays NaN, and without a `scale`
    one value that is not finite makes all NaN. The result has no gradient. Raises ValueError for
    another dtype or an empty x, TypeError for an x that is no tensor of floats.
    """
    largest = torch.finfo(one_of("dtype", dtype, (E4M3, E5M2))).max
    if not isinstance(x, Tensor) or not x.is_floating_point():
        raise TypeError(f"x must be a tensor of floats, got {shown(x)}")
    if x.numel() == 0:
        raise ValueError(f"x must have at least one element, got the shape {tuple(x.shape)}")
    x = x.float()
    if scale is None:
        smallest = torch.finfo(x.dtype).tiny  # x may be all zeros
        by = (x.abs().amax() / largest).clamp(min=smallest)
    else:
        by = positive("scale", scale)
    return (x / by).clamp(-largest, largest).to(dtype).float() * by


class Fp8Linear(nn.Linear):
    """nn.Linear whose products take numbers rounded to fp8; the bias is added in fp32."""

    def forward(self, x: Float[Tensor, "... inputs"]) -> Float32[Tensor, "... outputs"]:
        """The layer's values for the rows of `x`."""
        product = _Fp8Product.apply(x, self.weight)
        return product if self.bias is None else product + self.bias


class _Fp8Product(torch.autograd.Function):
    """x @ weight.T and its two gradients: three products, each of two rounded factors."""

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
