"""What one training step of the deep linear model costs: layers D → D, a head D → 1, one loss.

Every count is exact for `train.models.DeepLinear` on the processor with torch's mse_loss, from its
second step on. Gradients are set to None before each step. The loss stays alive until the step
ends; it is one number, but its storage has room for B, since mse_loss computed the squares in it.
"""

from course_utils.arguments import count, number, one_of
from course_utils.predict.optimizers import (
    COUNTS_STEPS,
    FP32,
    OPTIMIZER_STATE,
    StepMemory,
    scratch_copies,
)

MOST_LAYERS = 100_000


def deep_linear_parameters(D: int, L: int) -> int:
    """Parameters of L layers D×D and a head D×1: D·D·L + D."""
    D, L = count("D", D), count("L", L, at_least=0)
    return D * D * L + D


def deep_linear_flops(B: int, D: int, L: int) -> int:
    """FLOPs of one training step for B rows of data: 6·B·P, less 2·B·D·D for the first layer.

    The first layer's input is data, whose gradient is not computed.
    """
    B, D, L = count("B", B), count("D", D), count("L", L, at_least=0)
    return 6 * B * deep_linear_parameters(D, L) - 2 * B * D * (D if L else 1)


def deep_linear_memory(
    B: int, D: int, L: int, *, optimizer: str = "Adam", form: str = "for-loop"
) -> StepMemory:
    """Bytes of one step in fp32 with one of torch's optimizers, in one of its forms.

    `form` is 'for-loop' (torch's default on the processor), 'foreach' (its default on CUDA) or
    'fused', which RMSProp lacks: a ValueError. `activations` is what autograd keeps at the end of
    the forward pass: the input of every layer, and the loss's two inputs. Each layer is a moment,
    of which there may be 100 000.
    """
    one_of("optimizer", optimizer, OPTIMIZER_STATE)
    B, D = count("B", B), count("D", D)
    L = int(number("L", L, at_least=1, at_most=MOST_LAYERS, whole=True))
    P, rows = deep_linear_parameters(D, L), B * D
    steps = L + 1 if optimizer in COUNTS_STEPS else 0
    state = OPTIMIZER_STATE[optimizer] * P + steps
    kept = (L + 1) * rows + 2 * B  # layers' inputs, predictions, targets
    held = {"end of the forward pass": P + state + kept + B}
    held["backward, head"] = P + state + D + (L + 2) * rows + 3 * B + 1
    for layer in range(L, 0, -1):
        held[f"backward, layer {layer}"] = P + state + _backward(B, D, L, layer)
    held["optimizer"] = 2 * P + state + rows + 2 * B + _scratch(D, L, optimizer, form)
    moments = {moment: FP32 * numbers for moment, numbers in held.items()}
    return StepMemory(FP32 * P, FP32 * P, FP32 * state, FP32 * kept, moments)


def _backward(B: int, D: int, L: int, layer: int) -> int:
    """Numbers held beside parameters and state while `layer`'s gradients are computed.

    They are: the weights' gradients so far; the layers' inputs that are not yet released; the
    gradient that comes in and, except in the first layer, the one that goes out; the targets, the
    loss, and the gradient of the loss.
    """
    weights = D + (L - layer + 1) * D * D
    inputs = layer * B * D
    flowing = (1 if layer == 1 else 2) * B * D
    return weights + inputs + flowing + 2 * B + 1


def _scratch(D: int, L: int, optimizer: str, form: str) -> int:
    """Numbers in the temporary tensors of the optimizer's step, at their most.

    In the for-loop form the previous parameter's denominator stays alive until its variable is
    reassigned: one copy more, of that parameter's size.
    """
    many = scratch_copies(optimizer, form)
    if form != "for-loop" or not many:
        return many * deep_linear_parameters(D, L)
    copies = many - 1
    return max(copies * D * D, copies * (D * D if L > 1 else D) + D * D)
