"""Whole tensors rounded to fp8, with one scale for each: what a cast to E4M3 or E5M2 keeps."""

from collections.abc import Sequence
from itertools import islice

import torch
from jaxtyping import Float, Float32
from torch import Tensor

from course_utils.arguments import count, number, one_of, positive
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


def delayed_scale(
    maxima: Sequence[float], dtype: torch.dtype, *, history: int = 16, margin: int = 0
) -> float:
    """The `scale` for `round_fp8` that the largest |x| of the last `history` steps foretell.

    `maxima` has the largest |x| of every step so far, the newest last. The largest of them becomes
    the format's largest number, divided by 2**margin: room for a step that is larger than all
    before, which would saturate. Without steps, or if all were 0, it is 1. So a tensor is read
    once: to scale it by its own largest value, that must be found first.

    Source: NVIDIA Transformer Engine, DelayedScaling (amax_history_len, margin, and "max" for
    amax_compute_algo); its scaling factor multiplies, and so is one over this scale. Raises
    ValueError for another dtype, a history below 1, or a maximum that is negative or not finite.
    """
    largest = torch.finfo(one_of("dtype", dtype, (E4M3, E5M2))).max
    margin = number("margin", margin, whole=True, at_least=0)
    newest = islice(reversed(maxima), count("history", history))
    top = max((number("each of maxima", value, at_least=0) for value in newest), default=0)
    smallest = torch.finfo(torch.float32).tiny
    return max(top * 2**margin / largest, smallest) if top else 1.0
