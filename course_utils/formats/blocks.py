"""Block formats by simulation: small elements that share a scale, as MXFP8, MXFP4 and NVFP4 do.

Elements are rounded in fp32 arithmetic that is exact for these widths. Sources: OCP Microscaling
Formats (MX) Specification 1.0 (2023) for MXFP8 and MXFP4; NVIDIA, Pretraining Large Language Models
with NVFP4 (2025) for NVFP4.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Float32
from torch import Tensor

from course_utils.arguments import one_of
from course_utils.formats.bits import E2M1, E4M3, Format
from course_utils.formats.steps import floats, floor_log2, nearest, power


@dataclass(frozen=True)
class Blocks:
    """`size` elements in a row share a scale of 8 bits: a power of two (E8M0) or an E4M3 number.

    With E4M3 scales the whole tensor has one more scale, in fp32.
    """

    element: Format
    size: int
    power_of_two: bool


KINDS = {
    "MXFP8": Blocks(E4M3, 32, power_of_two=True),
    "MXFP4": Blocks(E2M1, 32, power_of_two=True),
    "NVFP4": Blocks(E2M1, 16, power_of_two=False),
}
_SMALLEST_E8M0 = -127  # the exponent; the largest, 127, is out of reach from fp32


def bytes_per_element(kind: str) -> float:
    """Bytes of one element and its part of the block's scale: 1.03125, 0.53125 or 0.5625.

    NVFP4's scale of the whole tensor, 4 bytes, is left out.
    """
    blocks = KINDS[one_of("kind", kind, KINDS)]
    return (blocks.element.bits + 8 / blocks.size) / 8


@torch.no_grad()
def round_blocks(x: Float[Tensor, "... n"], kind: str) -> Float32[Tensor, "... n"]:
    """`x` as blocks along its last dimension would hold it; in fp32, without a gradient.

    Every element is rounded to the nearest, ties to even, and saturates. MXFP8 and MXFP4: a block's
    scale is 2^(floor(log2(largest |x|)) − the element's largest exponent), which brings the largest
    to 256 … 512 or 4 … 8: above 448 or 6 it is cut. NVFP4: the tensor's scale makes its largest |x|
    448 · 6; a block's scale is its own largest |x| / 6, rounded to E4M3, and 0 if far smaller.

    Raises ValueError for another kind, a last dimension that is not a multiple of the block's size,
    an empty x, or a value that is not finite in fp32; TypeError for an x without floats.
    """
    blocks = KINDS[one_of("kind", kind, KINDS)]
    rows = _checked(x, kind, blocks.size).unflatten(-1, (-1, blocks.size))
    largest = rows.abs().amax(-1, keepdim=True)
    scale = _power_of_two(largest, blocks) if blocks.power_of_two else _e4m3(largest, blocks)
    scaled = torch.where(scale > 0, rows / scale, 0.0)  # a scale that was rounded to 0
    return (nearest(scaled, blocks.element) * scale).flatten(-2)


def _power_of_two(largest: Float32[Tensor, "... 1"], blocks: Blocks) -> Float32[Tensor, "... 1"]:
    """The scale of each block, a power of two (E8M0); a block of zeros has the smallest."""
    exponent = floor_log2(largest) - blocks.element.largest_exponent
    return power(exponent.clamp(min=_SMALLEST_E8M0))


def _e4m3(largest: Float32[Tensor, "... 1"], blocks: Blocks) -> Float32[Tensor, "... 1"]:
    """The scale of each block: one E4M3 number times the fp32 scale of the whole tensor."""
    of_tensor = largest.amax() / float(E4M3.largest * blocks.element.largest)
    relative = torch.where(of_tensor > 0, largest / float(blocks.element.largest) / of_tensor, 0.0)
    return nearest(relative, E4M3) * of_tensor


def _checked(x: object, kind: str, size: int) -> Float32[Tensor, "... n"]:
    x = floats(x)
    if x.ndim == 0 or x.shape[-1] % size or x.numel() == 0:
        raise ValueError(
            f"{kind} needs a last dimension that is a multiple of {size}, "
            f"got the shape {tuple(x.shape)}"
        )
    if not x.isfinite().all():
        raise ValueError(f"{kind} needs finite numbers, got NaN, an infinity or one beyond fp32")
    return x
