"""Two roundings beside a plain cast: at random, so that small updates survive, and to TF32."""

import torch
from jaxtyping import Float, Float32
from torch import Tensor

from course_utils.arguments import one_of, shown
from course_utils.formats.bits import FORMATS
from course_utils.formats.steps import floats, step

NAMES = {torch.bfloat16: "bfloat16", torch.float16: "float16"}
DROPPED = 13  # of fp32's 23 mantissa bits TF32 has 10


@torch.no_grad()
def round_stochastic(
    x: Float[Tensor, "..."], dtype: torch.dtype, source: torch.Generator
) -> Float[Tensor, "..."]:
    """`x` in bf16 or fp16, each number rounded up or down at random, so that the mean is x.

    The chance of each neighbour is as large as the other one is far away: a number of the format
    stays, and one a tenth of a step above it goes up once in ten times. `source` gives the random
    numbers, one for each element. Beyond the largest number the result is infinite; infinities and
    NaN stay. The result has no gradient. Source: Gupta et al. 2015, Deep Learning with Limited
    Numerical Precision.

    Raises ValueError for another dtype, TypeError for an x without floats or another source.
    """
    form = FORMATS[NAMES[one_of("dtype", dtype, NAMES)]]
    if not isinstance(source, torch.Generator):
        raise TypeError(f"source must be a torch.Generator, got {shown(source)}")
    x = floats(x)
    finite = torch.where(x.isfinite(), x, 0.0)
    by = step(finite, form)
    steps = finite / by  # exact: by is a power of two
    drawn = torch.rand(x.shape, generator=source, device=source.device, dtype=torch.float32)
    up = drawn.to(x.device) < steps - steps.floor()
    rounded = torch.where(steps == steps.floor(), finite, (steps.floor() + up) * by)
    return torch.where(x.isfinite(), rounded, x).to(dtype)


@torch.no_grad()
def round_tf32(x: Float[Tensor, "..."]) -> Float32[Tensor, "..."]:
    """`x` as TF32 holds it: the sign and exponent of fp32, 10 bits of mantissa; in fp32.

    To nearest, ties to even. Beyond the largest number the result is infinite; infinities and NaN
    stay. The result has no gradient. TF32 is what a GPU's tensor cores may make of the two inputs
    of an fp32 matmul; their sums stay in fp32. Source: NVIDIA A100 Tensor Core GPU Architecture
    (2020) for the bits. How a GPU breaks ties depends on the conversion that a library uses.

    Raises TypeError for an x without floats.
    """
    x = floats(x)
    bits = x.view(torch.int32)
    last = (bits >> DROPPED) & 1  # of those that stay: a tie goes to where it is 0
    rounded = (bits + (1 << DROPPED - 1) - 1 + last) & -(1 << DROPPED)
    return torch.where(x.isfinite(), rounded.view(torch.float32), x)
