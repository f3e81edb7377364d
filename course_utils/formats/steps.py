"""Rounding in fp32 arithmetic that is exact: the step between a format's numbers is a power of two.

Divided by the step, a number is a count of steps; whole counts are what the format holds. So no
result depends on what a cast does.
"""

import torch
from jaxtyping import Float, Float32
from torch import Tensor

from course_utils.arguments import shown
from course_utils.formats.bits import Format


def floats(x: object) -> Float32[Tensor, "..."]:
    """`x` in fp32; raises TypeError if it is no tensor of floats."""
    if not isinstance(x, Tensor) or not x.is_floating_point():
        raise TypeError(f"x must be a tensor of floats, got {shown(x)}")
    return x.float()


def step(x: Float32[Tensor, "..."], form: Format) -> Float32[Tensor, "..."]:
    """The distance between two numbers of the format at each of x, which must be finite."""
    exponent = floor_log2(x).clamp(min=form.smallest_exponent)
    return power(exponent - form.mantissa_bits)


def nearest(x: Float32[Tensor, "..."], form: Format) -> Float32[Tensor, "..."]:
    """The nearest number of the format to each of x; ties go to the even one, and it saturates."""
    by, largest = step(x, form), float(form.largest)
    return (torch.round(x / by) * by).clamp(-largest, largest)


def floor_log2(x: Float[Tensor, "..."]) -> Tensor:
    """The exponent of the largest power of two up to |x|; −150, below all of fp32, for 0."""
    return torch.where(x == 0, -150, torch.frexp(x).exponent - 1)


def power(exponent: Tensor) -> Float32[Tensor, "..."]:
    """2 to the `exponent`, looked up among exact ones: fp32 holds those from −149 to 127."""
    exact = [2.0**e for e in range(-149, 128)]
    return torch.tensor(exact, device=exponent.device, dtype=torch.float32)[exponent.long() + 149]
