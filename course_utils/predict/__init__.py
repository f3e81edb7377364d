"""Closed-form arithmetic only: no torch, no device, no clock.

Every function takes plain numbers and returns one, or a small record of them. Counts (bytes, FLOPs,
strides) are exact ints; times and days are floats.
"""

from course_utils.predict.configs import PRESETS, TransformerConfig, preset
from course_utils.predict.counts import (
    ELEMENT_BYTES,
    RECIPES,
    SECONDS_PER_DAY,
    Recipe,
    ceil_to_whole,
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
    deep_linear_flops,
    deep_linear_memory,
    deep_linear_parameters,
)
from course_utils.predict.devices import (
    checkpoint_interval,
    collective_bytes,
    link_seconds,
    lost_share,
    pipeline_bubble,
    sharded_recipe,
    step_traffic,
    tensor_parallel_bytes,
)
from course_utils.predict.einsum import einsum_flops
from course_utils.predict.optimizers import (
    OPTIMIZER_FORMATS,
    OPTIMIZER_STATE,
    StepMemory,
    foreach_scratch,
    optimizer_recipe,
    scratch_copies,
)
from course_utils.predict.signals import LayerScale, layer_scale
from course_utils.predict.step_memory import transformer_memory
from course_utils.predict.transformer import (
    StepFlops,
    activations,
    kv_cache,
    transformer_flops,
    transformer_parameters,
    transformer_products,
)

__all__ = [
    "ELEMENT_BYTES",
    "OPTIMIZER_FORMATS",
    "OPTIMIZER_STATE",
    "PRESETS",
    "RECIPES",
    "SECONDS_PER_DAY",
    "LayerScale",
    "Recipe",
    "StepFlops",
    "StepMemory",
    "TransformerConfig",
    "activations",
    "ceil_to_whole",
    "checkpoint_interval",
    "collective_bytes",
    "deep_linear_flops",
    "deep_linear_memory",
    "deep_linear_parameters",
    "einsum_flops",
    "elements",
    "foreach_scratch",
    "intensity",
    "kv_cache",
    "largest_model",
    "layer_scale",
    "link_seconds",
    "lost_share",
    "matmul_flops",
    "optimizer_recipe",
    "pipeline_bubble",
    "position",
    "preset",
    "roofline_seconds",
    "scratch_copies",
    "seconds",
    "sharded_recipe",
    "step_traffic",
    "tensor_bytes",
    "tensor_parallel_bytes",
    "training_days",
    "training_flops",
    "transformer_flops",
    "transformer_memory",
    "transformer_parameters",
    "transformer_products",
]
