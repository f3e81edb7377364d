"""Whole tensors rounded to fp8, with one scale for each: what a cast to E4M3 or E5M2 keeps."""

import torch
from jaxtyping import Float, Float32
from torch import Tensor

from course_utils.arguments import one_of, positive
from course_utils.formats.steps import floats

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


@torch.no_grad()
def round_fp8(
    x: Float[Tensor, "..."], dtype: torch.dtype, scale: float | None = None
) -> Float32[Tensor, "..."]:
    """`x` as E4M3 or E5M2 would hold it: divided by `scale`, rounded, multiplied again; in fp32.

    Without a `scale` the largest |x| becomes the format's largest number. Numbers beyond that
    saturate, whatever a cast of this torch and device does. NaN stays NaN, and without a `scale`
    one value that is not finite makes all NaN. The result has no gradient. Raises ValueError for
    another dtype or an empty x, TypeError for an x that is no tensor of floats.
    """
    largest = torch.finfo(one_of("dtype", dtype, (E4M3, E5M2))).max
    x = floats(x)
    if x.numel() == 0:
        raise ValueError(f"x must have at least one element, got the shape {tuple(x.shape)}")
    if scale is None:
        smallest = torch.finfo(x.dtype).tiny  # x may be all zeros
        by = (x.abs().amax() / largest).clamp(min=smallest)
    else:
        by = positive("scale", scale)
    return (x / by).clamp(-largest, largest).to(dtype).float() * by
