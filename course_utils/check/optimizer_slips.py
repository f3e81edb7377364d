"""Rules of optimizers with a switch for each likely mistake: what a wrong program does.

Each rule changes p in place, as an optimizer's `update` does; without a switch it is right.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from course_utils.train import optimizers

NOT_SQUARED = "g is not squared: s is made of g·g, which is never negative."
NO_ROOT = "the root is missing: g is divided by √s, not by s."
INSIDE = "eps stands under the root here: it belongs beside it."
UPHILL = "that climbs: the step is subtracted from p, not added."
FORGOTTEN = "s is forgotten between steps: store it in state."


class Told(optimizers.Optimizer):
    """An optimizer whose rule is a function of p, g, the state and the settings."""

    def __init__(self, params: object, rule: Callable, **settings: object) -> None:
        super().__init__(params, **settings)
        self.rule = rule

    def update(self, p: Tensor, g: Tensor, state: dict, **settings: object) -> None:
        """As the function says."""
        self.rule(p, g, state, **settings)


def sgd(p: Tensor, g: Tensor, _: dict, lr: float, *, sign: int = 1, over: bool = False) -> None:
    """The rule p ← p − lr·g; `over` forgets what p was."""
    p.copy_((0 if over else p) - sign * lr * g)


SGD = [
    (dict(sign=-1), UPHILL),
    (dict(over=True), "p is overwritten by the step: subtract the step from what p was."),
]


def momentum(
    p: Tensor, g: Tensor, state: dict, lr: float, momentum: float, *, carried: bool = True,
    keep: float | None = None, damped: bool = False, from_zero: bool = False, ahead: bool = False,
    late: bool = False, twice: bool = False, sign: int = 1,
) -> None:  # fmt: skip
    """The rule v ← momentum·v + g, the first v is g; p ← p − lr·v."""
    share = (1 - momentum) if damped else 1
    keep = momentum if keep is None else keep
    old = state.get("v", torch.zeros_like(p))
    first = "v" not in state and not from_zero
    state["v"] = g.clone() if first or not carried else keep * old + share * g
    step = old if late else state["v"]
    step = g + momentum * step if ahead else step
    p -= sign * lr * step * (lr if twice else 1)


AVERAGED = "v is an average here: add g as it is, not (1 − momentum)·g."
MOMENTUM = [
    (dict(carried=False), "that is SGD: nothing is carried from step to step."),
    (dict(damped=True), AVERAGED),
    (dict(damped=True, from_zero=True), AVERAGED),
    (dict(sign=-1), UPHILL),
    (dict(ahead=True), "that is Nesterov's momentum: the step is lr·v, without another g."),
    (dict(late=True), "p moves by the old v: bring v up to date first."),
    (dict(keep=1.0), "the old v is added whole: momentum times the old v, plus g."),
    (dict(twice=True), "lr is there twice: in v and in the step."),
]


def scaled(
    p: Tensor, g: Tensor, state: dict, lr: float, eps: float, alpha: float | None = None, *,
    keep: float = 1.0, share: float = 1.0, mean: bool = False, square: bool = True,
    root: bool = True, inside: bool = False, late: bool = False, sign: int = 1,
) -> None:  # fmt: skip
    """The rule s ← keep·s + share·g²; p ← p − lr·g / (√s + eps).

    `alpha` sets the two weights to alpha and 1 − alpha.
    """
    keep, share = (keep, share) if alpha is None else (alpha, 1 - alpha)
    t = state["t"] = state.get("t", 0) + 1
    old = state.get("s", torch.zeros_like(p))
    state["s"] = keep * old + share * (g * g if square else g)
    s = (old if late else state["s"]) / (t if mean else 1)
    s = s + eps if inside else s
    p -= sign * lr * g / ((s.sqrt() if root else s) + (0 if inside else eps))


RUNNING = "s is an average here: AdaGrad adds the squares up and forgets none."
EITHER = [
    (dict(square=False), NOT_SQUARED),
    (dict(root=False), NO_ROOT),
    (dict(inside=True), INSIDE),
    (dict(sign=-1), UPHILL),
    (dict(late=True), "g is divided by the old s: bring s up to date first."),
]
ADAGRAD = [
    *EITHER,
    (dict(mean=True), RUNNING),
    *((dict(alpha=alpha), RUNNING) for alpha in (0.9, 0.99, 0.999)),
    (dict(keep=0.0), FORGOTTEN),
]


def rmsprop(p: Tensor, g: Tensor, state: dict, lr: float, alpha: float, eps: float,
            way: str = "", **switches: object) -> None:  # fmt: skip
    """The rule s ← alpha·s + (1 − alpha)·g²; `way` names another pair of weights."""
    other = {"swapped": (1 - alpha, alpha), "forgotten": (0, 1 - alpha), "whole": (alpha, 1),
             "summed": (1, 1), "last": (0, 1)}  # fmt: skip
    keep, share = other.get(way, (alpha, 1 - alpha))
    scaled(p, g, state, lr, eps, keep=keep, share=share, **switches)


SUMMED = "s is a sum here: that is AdaGrad. RMSProp averages, with the weights alpha and 1 − alpha."
RMSPROP = [
    *EITHER,
    (dict(way="summed"), SUMMED),
    (dict(way="summed", mean=True), "every step counts alike here: the old ones are to fade."),
    (dict(way="whole"), "g² is added whole: in an average its weight is 1 − alpha."),
    (dict(way="swapped"), "alpha is the weight of the old s: the two weights are swapped."),
    (dict(way="forgotten"), FORGOTTEN),
    (dict(way="last"), FORGOTTEN),
]


def adam(
    p: Tensor, g: Tensor, state: dict, lr: float, betas: tuple[float, float], eps: float,
    weight_decay: float = 0.0, *, correct: str = "ms", stored: bool = False, swapped: bool = False,
    inside: bool = False, root: bool = True, square: bool = True, early: bool = False,
    whole: bool = False, one: bool = False, sign: int = 1, decay: str = "apart",
    shared: dict | None = None,
) -> None:  # fmt: skip
    """The rule p ← p − lr·m̂ / (√ŝ + eps), after p ← (1 − lr·weight_decay)·p."""
    b1, b2 = reversed(betas) if swapped else betas
    before, g = _decayed(p, g, lr, weight_decay, decay)
    counter = state if shared is None else shared
    t = counter["t"] = 1 if one else counter.get("t", 0) + 1
    m = b1 * state.get("m", 0) + (1 if whole else 1 - b1) * g
    s = b2 * state.get("s", 0) + (1 - b2) * (g * g if square else g)
    first, second = 1 - b1**t if "m" in correct else 1, 1 - b2**t if "s" in correct else 1
    state["m"], state["s"] = (m / first, s / second) if stored else (m, s)
    under = s / (1 if early else second) + (eps if inside else 0)
    below = (under.sqrt() if root else under) + (0 if inside else eps)
    p.copy_(before - sign * lr * m / first / (below / second**0.5 if early else below))
    p *= 1 - lr * weight_decay if decay == "after" else 1


def _decayed(
    p: Tensor, g: Tensor, lr: float, weight_decay: float, decay: str
) -> tuple[Tensor, Tensor]:
    """What the decay leaves of p, and the gradient, which the decay may be added to."""
    if decay == "Adam's":
        return p, g + weight_decay * p
    factors = {"apart": 1 - lr * weight_decay, "without lr": 1 - weight_decay,
               "grows": 1 + lr * weight_decay}  # fmt: skip
    return p * factors.get(decay, 1), g


ADAM = [
    (dict(correct=""), "the bias correction is missing: divide by 1 − beta**t."),
    (dict(correct="m"), "s is not corrected: divide it by 1 − beta2**t, too."),
    (dict(correct="s"), "m is not corrected: divide it by 1 − beta1**t, too."),
    (dict(stored=True), "the corrected averages are stored, and corrected again in the next step."),
    (dict(one=True), "t stays 1: count the steps of each parameter in its state."),
    (dict(swapped=True), "the betas are swapped: the first is m's, the second is s's."),
    (dict(whole=True), "m is no average: the weight of g in it is 1 − beta1."),
    (dict(square=False), NOT_SQUARED),
    (dict(root=False), NO_ROOT),
    (dict(inside=True), INSIDE),
    (dict(early=True), "eps is corrected, too: it is added after √s is divided."),
    (dict(sign=-1), UPHILL),
]
ADAMW = [
    *ADAM,
    (dict(decay="Adam's"), "that is Adam's way: the decay is added to g. AdamW shrinks p itself."),
    (dict(decay="without lr"), "lr is missing in the decay: p shrinks by lr·weight_decay."),
    (dict(decay="after"), "p shrinks after the step here: let it shrink before."),
    (dict(decay="grows"), "the decay makes p grow: its factor is below 1."),
    (dict(decay="none"), "that is Adam: p is not decayed."),
    (dict(sign=0), "only the decay reaches p: is the step made on a new tensor? Write p -= ..."),
]
