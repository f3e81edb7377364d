"""Random networks for the explorer of initial scales: their signals and gradients, in float64.

One row of numbers goes through each. Then no weights need to be drawn: x @ W, for W of independent
normal numbers, is itself |x| times independent normal numbers, and where x @ W is known, W @ u is
known in the direction of x and is |u| times normal numbers in all others. So a layer costs D
numbers in place of D·D, and has the distribution of the whole.
"""

from collections.abc import Callable
from functools import cache

import numpy as np

DRAWS, DEEPEST, WIDEST = 5, 60, 512
SEED = 6
TINY = 1e-300  # in place of a norm of 0, of which nothing but 0 is divided

Array = np.ndarray
# Each activation and its slope, both as functions of what enters it.
FUNCTIONS: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "none": (lambda z: z, np.ones_like),
    "relu": (lambda z: np.maximum(z, 0), lambda z: (z > 0).astype(float)),
    "tanh": (np.tanh, lambda z: 4 * np.exp(-2 * abs(z)) / (1 + np.exp(-2 * abs(z))) ** 2),
}


def scales(activation: str, depth: int, width: int, s: float) -> tuple[Array, Array]:
    """RMS of every layer's output, and of its gradient: two arrays of (DRAWS, depth + 1).

    Layer 0 is the input, of RMS 1; the last layer's gradient is random, of RMS 1. Weights are
    normal with a standard deviation of `s`. The draws are the same in every call.
    """
    forth, back = noise()[..., :width]
    apply, slope = FUNCTIONS[activation]
    outputs, entered = [_unit(forth[0])], []
    for drawn in forth[1 : depth + 1]:
        entered.append(s * _norm(outputs[-1]) * drawn)
        outputs.append(apply(entered[-1]))
    gradients = [_unit(back[0])]
    for layer in range(depth, 0, -1):
        x, z = outputs[layer - 1], entered[layer - 1]
        gradients.append(_through(x, z, slope(z) * gradients[-1], s, back[layer]))
    return _rms(outputs), _rms(gradients[::-1])


def _through(x: Array, z: Array, u: Array, s: float, drawn: Array) -> Array:
    """W @ u for a W that has x @ W = z, and is random with a standard deviation of `s` beside."""
    along = x / np.maximum(_norm(x), TINY)
    across = drawn - along * (along * drawn).sum(-1, keepdims=True)
    known = (z * u).sum(-1, keepdims=True) / np.maximum(_norm(x), TINY)
    return along * known + s * _norm(u) * across


@cache
def noise() -> Array:
    """Normal numbers for the way forth and the way back, (2, DEEPEST + 1, DRAWS, WIDEST)."""
    drawn = np.random.default_rng(SEED).standard_normal((2, DEEPEST + 1, DRAWS, WIDEST))
    drawn.flags.writeable = False
    return drawn


def _norm(x: Array) -> Array:
    return np.sqrt((x * x).sum(-1, keepdims=True))


def _unit(x: Array) -> Array:
    return x / _norm(x) * x.shape[-1] ** 0.5


def _rms(layers: list[Array]) -> Array:
    return np.stack([np.sqrt((x * x).mean(-1)) for x in layers], axis=-1)
