"""What torch's optimizers keep between steps and hold during one; the bytes of a step."""

from collections.abc import Mapping
from dataclasses import dataclass

FP32 = 4  # bytes

# Numbers kept for each parameter between steps.
OPTIMIZER_STATE = {"SGD": 0, "momentum": 1, "AdaGrad": 1, "RMSProp": 1, "Adam": 2, "AdamW": 2}
# PyTorch counts the steps of these in one number of 4 bytes a parameter tensor.
COUNTS_STEPS = ("AdaGrad", "RMSProp", "Adam", "AdamW")
# Scratch of torch.optim's step. In a for-loop: copies of the parameter at hand (the root, and for
# Adam the root divided by the bias correction). In foreach: copies of all parameters.
FOR_LOOP_SCRATCH = {"SGD": 0, "momentum": 0, "AdaGrad": 1, "RMSProp": 1, "Adam": 2, "AdamW": 2}
FOREACH_SCRATCH = {"SGD": 0, "momentum": 0, "AdaGrad": 2, "RMSProp": 1, "Adam": 1, "AdamW": 1}
FORMS = ("for-loop", "foreach", "fused")


@dataclass(frozen=True)
class StepMemory:
    """Bytes of a training step: four categories, and what is held at each of its moments."""

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
        """The first moment at which most is held."""
        return max(self.moments, key=lambda moment: self.moments[moment])
