"""Number formats: bit by bit, in blocks that share a scale, and tensors rounded to fp8 and TF32."""

from course_utils.formats.bits import (
    FORMATS,
    Format,
    decode,
    encode,
    exact,
    fields,
    format_named,
    neighbours,
    spacing,
)
from course_utils.formats.blocks import KINDS, bytes_per_element, round_blocks
from course_utils.formats.fp8 import round_fp8
from course_utils.formats.rounding import round_stochastic, round_tf32

__all__ = [
    "FORMATS",
    "KINDS",
    "Format",
    "bytes_per_element",
    "decode",
    "encode",
    "exact",
    "fields",
    "format_named",
    "neighbours",
    "round_blocks",
    "round_fp8",
    "round_stochastic",
    "round_tf32",
    "spacing",
]
