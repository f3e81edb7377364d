"""What torch's optimizers keep between steps, and allocate in one; the bytes of a step."""

from collections.abc import Mapping
from dataclasses import dataclass

from course_utils.arguments import one_of
from course_utils.predict.counts import Recipe

FP32 = 4  # bytes

# Numbers kept for each parameter between steps.
OPTIMIZER_STATE = {"SGD": 0, "momentum": 1, "AdaGrad": 1, "RMSProp": 1, "Adam": 2, "AdamW": 2}
# For each parameter tensor these also keep a step counter: one number of 4 bytes.
COUNTS_STEPS = ("AdaGrad", "RMSProp", "Adam", "AdamW")
# Temporary tensors of torch.optim's step. In the for-loop form, each has the size of the current
# parameter (the square root, and for Adam the root divided by the bias correction); in the foreach
# form, the size of all parameters together.
FOR_LOOP_SCRATCH = {"SGD": 0, "momentum": 0, "AdaGrad": 1, "RMSProp": 1, "Adam": 2, "AdamW": 2}
FOREACH_SCRATCH = {"SGD": 0, "momentum": 0, "AdaGrad": 2, "RMSProp": 1, "Adam": 1, "AdamW": 1}
FORMS = ("for-loop", "foreach", "fused")
# Bytes of a parameter, a gradient, a master copy, a number of state and one of scratch. 8-bit
# states come as one byte per number; their scales, 4 bytes for each block of 2048 (Dettmers et al.
# 2022), are left out, and their kernels need no scratch.
OPTIMIZER_FORMATS = {
    "all fp32": (4, 4, 0, 4, 4),
    "bf16 + fp32 master": (2, 2, 4, 4, 4),
    "all bf16": (2, 2, 0, 2, 2),
    "fp32, 8-bit state": (4, 4, 0, 1, 0),
}


@dataclass(frozen=True)
class StepMemory:
    """Bytes of a training step: four categories, and all that is held at each moment."""

    parameters: int
    gradients: int
    optimizer: int
    activations: int
    moments: Mapping[str, int]

    @property
    def peak(self) -> int:
        """The most bytes held at once."""
        return max(self.moments.values())

    @property
    def peak_at(self) -> str:
        """The name of the first moment that reaches the peak."""
        return max(self.moments, key=lambda moment: self.moments[moment])


def optimizer_recipe(optimizer: str, formats: str = "all fp32") -> Recipe:
    """Bytes per parameter that training with `optimizer` keeps, by what they are for.

    `formats` is 'all fp32', 'bf16 + fp32 master', 'all bf16' (torch.optim on parameters in bf16,
    whose state has their format) or 'fp32, 8-bit state'. Step counters, 4 bytes for each parameter
    tensor, are left out.
    """
    parameter, gradient, master, each, _ = OPTIMIZER_FORMATS[
        one_of("formats", formats, OPTIMIZER_FORMATS)
    ]
    many = OPTIMIZER_STATE[one_of("optimizer", optimizer, OPTIMIZER_STATE)]
    return Recipe(parameter, gradient, master, many * each)


def scratch_copies(optimizer: str, form: str) -> int:
    """How many temporary tensors the optimizer's step holds at once, at most.

    In the for-loop form each has the size of one parameter tensor: the last one is the denominator
    of the tensor before. In the foreach form each is as large as all parameters together; the fused
    form has none. Raises ValueError for a fused RMSProp, which torch lacks.
    """
    one_of("optimizer", optimizer, OPTIMIZER_STATE)
    if one_of("form", form, FORMS) == "fused" and optimizer == "RMSProp":
        raise ValueError("form must be 'for-loop' or 'foreach' for RMSProp: torch has no fused one")
    if form == "for-loop":
        copies = FOR_LOOP_SCRATCH[optimizer]
        return copies and copies + 1
    return FOREACH_SCRATCH[optimizer] if form == "foreach" else 0


def foreach_scratch(optimizer: str, formats: str = "all fp32") -> int:
    """Bytes per parameter of the foreach form's temporary tensors, in the format of the step."""
    *_, each = OPTIMIZER_FORMATS[one_of("formats", formats, OPTIMIZER_FORMATS)]
    return each * scratch_copies(optimizer, "foreach")
