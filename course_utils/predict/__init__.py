"""Closed-form arithmetic only: no torch, no device, no clock.

Every function takes plain numbers and returns one, or a small record of them. Counts (bytes, FLOPs,
strides) are exact ints; times and days are floats.
"""

from course_utils.predict.counts import (
    ELEMENT_BYTES,
    RECIPES,
    SECONDS_PER_DAY,
    Recipe,
    ceil_to_whole,
    contiguous_stride,
    einsum_flops,
    elements,
    intensity,
    largest_model,
    matmul_flops,
    position,
    roofline_seconds,
    seconds,
    tensor_bytes,
    training_days,
    training_flops,
)
from course_utils.predict.deep_linear import (
    OPTIMIZER_STATE,
    StepMemory,
    deep_linear_flops,
    deep_linear_memory,
    deep_linear_parameters,
)

__all__ = [
    "ELEMENT_BYTES",
    "OPTIMIZER_STATE",
    "RECIPES",
    "SECONDS_PER_DAY",
    "Recipe",
    "StepMemory",
    "ceil_to_whole",
    "contiguous_stride",
    "deep_linear_flops",
    "deep_linear_memory",
    "deep_linear_parameters",
    "einsum_flops",
    "elements",
    "intensity",
    "largest_model",
    "matmul_flops",
    "position",
    "roofline_seconds",
    "seconds",
    "tensor_bytes",
    "training_days",
    "training_flops",
]
