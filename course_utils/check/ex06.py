"""Checks of chapter 06: parameters, scales, randomness."""

import random

import numpy as np
import torch

from course_utils.arguments import shown
from course_utils.check.exercise import Wrong, exercise, function, names, number

ATTRIBUTES = {"first", "middle", "scale", "shift", "last"}
UNREGISTERED = {"middle", "scale"}


@exercise(
    "06.1",
    "An nn.Linear from a to b has a weight of a·b numbers and a bias of b.",
    "Three layers: 784 → 256, 256 → 128, 128 → 10. A ReLU has no parameters.",
    "The weights are 784·256 + 256·128 + 128·10; the biases are one for each output.",
)
def ex06_1(answer: object) -> str:
    """Parameters of an MLP."""
    weights, biases = 784 * 256 + 256 * 128 + 128 * 10, 256 + 128 + 10
    number(
        answer,
        weights + biases,
        within=1e-9,
        unit="parameters",
        exact_mistakes=True,
        mistakes=[
            (weights, "that is the weights alone: each nn.Linear has a bias, too."),
            (weights + 784 + 256 + 128, "a bias has one number for each output, not each input."),
            (4 * (weights + biases), "parameters are asked for, not bytes."),
            (weights + biases + 784, "the inputs need no bias."),
            (784 * 256 * 128 * 10, "layers add up; they do not multiply."),
        ],
    )
    return "right. Most of them sit in the first layer."


@exercise(
    "06.2",
    "A module registers what is assigned to it as a Parameter or as a Module. Nothing else.",
    "A Python list is neither. Is a tensor with requires_grad=True a Parameter?",
    "Two of the five are missed: one holds layers, the other asks for gradients.",
)
def ex06_2(answer: object) -> str:
    """Find what is not registered."""
    found = names(answer, ATTRIBUTES, "the model has no attribute {}: give names of attributes.")
    if "last" in found:
        raise Wrong("nn.Sequential is a module: it is registered, and so is what is in it.")
    if "shift" in found:
        raise Wrong("shift is an nn.Parameter, so it is registered.")
    if "first" in found:
        raise Wrong("nn.Linear is a module: it is registered.")
    if found != UNREGISTERED:
        raise Wrong(f"{len(found)} of 2 found.")
    return "both. The list needs nn.ModuleList, the tensor nn.Parameter."


@exercise(
    "06.3",
    "Mean square of an output before the ReLU: fan_in × variance of the weights × mean square in.",
    "A ReLU keeps half of the mean square. So fan_in × variance must be 2.",
    "variance = 2 / 512. The standard deviation is its root.",
)
def ex06_3(answer: object) -> str:
    """Scale for a ReLU network."""
    number(
        answer,
        (2 / 512) ** 0.5,
        within=0.002,
        mistakes=[
            (512**-0.5, "that keeps a linear layer's signal: a ReLU throws half of it away."),
            (2 / 512, "that is the variance: the standard deviation is its root."),
            (2 * 512**-0.5, "the factor 2 belongs to the variance, under the root."),
            ((2 / 2560) ** 0.5, "that is Xavier's compromise: keep the signal alone."),
            ((2 / 2048) ** 0.5, "that is for the gradient: a signal sums over the inputs."),
            (1 / 512, "that is a variance, and a ReLU's layer needs twice as much."),
            ((1 / 2048) ** 0.5, "the sum runs over the inputs, and the ReLU takes half."),
        ],
    )
    return "right: √(2/fan_in), Kaiming's recipe. The number of outputs does not matter."


@exercise(
    "06.4",
    "Make a generator inside the function: torch.Generator() and np.random.default_rng(seed).",
    "Most torch functions that draw take generator=...: torch.randn(4, generator=own).",
    "np.random.default_rng(seed).permutation(8) is the NumPy half.",
)
def ex06_4(answer: object) -> str:
    """Make a run reproducible."""
    draw = function(answer, "a function of a seed")
    before = _global_states()
    first, again, other = _pair(draw(1)), _pair(draw(1)), _pair(draw(2))
    touched = [name for name, state in _global_states().items() if state != before[name]]
    if first != again:
        raise Wrong("two calls with the same seed differ: something draws from elsewhere.")
    if first[0] == other[0] or first[1] == other[1]:
        part = "numbers stay" if first[0] == other[0] else "permutation stays"
        raise Wrong(f"with another seed the {part} the same: seed both generators.")
    if all(0 <= x < 1 for seed in range(3, 9) for x in _pair(draw(seed))[0]):
        raise Wrong("the numbers are all between 0 and 1: normal ones come from torch.randn.")
    if touched:
        raise Wrong(f"the global generator of {touched[0]} was touched: make one of your own.")
    return "right: it repeats, and nobody else's numbers change."


def _pair(value: object) -> tuple[list[float], list[int]]:
    """The two parts as lists, or what is wrong with them."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise Wrong(f"a pair of numbers and a permutation is expected, got {shown(value)}.")
    if isinstance(value[1], torch.Tensor):
        raise Wrong("the permutation comes from torch: it is to come from NumPy, a second seed.")
    normal, order = (torch.as_tensor(np.asarray(part)).tolist() for part in value)
    if not isinstance(normal, list) or len(normal) != 4:
        raise Wrong(f"the first part must be 4 numbers, got {shown(value[0])}.")
    if not isinstance(order, list) or sorted(order) != list(range(8)):
        raise Wrong(f"the second part must be a permutation of 0 to 7, got {shown(value[1])}.")
    return normal, order


def _global_states() -> dict[str, object]:
    kind, keys, *rest = np.random.get_state()
    return {
        "torch": torch.get_rng_state().tolist(),
        "NumPy": (kind, keys.tolist(), rest),
        "random": random.getstate(),
    }
