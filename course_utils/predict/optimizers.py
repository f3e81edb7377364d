"""What torch's optimizers keep between steps, and allocate in one; the bytes of a step."""

from collections.abc import Mapping
from dataclasses import dataclass

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
