"""The course's optimizers, written to be read: each `update` is the rule and nothing else.

They agree with torch.optim step by step and bit by bit (for-loop form, on the processor), with
torch's conventions as defaults; where textbooks choose otherwise, a parameter switches.
"""

from collections.abc import Callable
from inspect import signature

import torch
from torch import Tensor

from course_utils.arguments import choice, number, shown


class Optimizer(torch.optim.Optimizer):
    """Calls `update` for each parameter that has a gradient; the others stay as they are."""

    def __init__(self, params: object, *, lr: float, **settings: object) -> None:
        super().__init__(params, {"lr": number("lr", lr, at_least=0), **settings})

    @torch.no_grad()
    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor | None:
        """Update every parameter once; returns what `closure` returns, if one is given."""
        with torch.enable_grad():
            loss = closure() if closure else None
        names = self._asked_for()
        for group in self.param_groups:
            settings = {name: group[name] for name in names}
            for p in group["params"]:
                if p.grad is not None:
                    self.update(p, p.grad, self.state[p], **settings)
        return loss

    def _asked_for(self) -> list[str]:
        """The settings that `update` names after p, g and state; all of them if it takes `**`."""
        asked = list(signature(self.update).parameters.values())[3:]
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in asked):
            # loading a state adds a default of torch's own that no group has
            return [name for name in self.defaults if name in self.param_groups[0]]
        names = [parameter.name for parameter in asked]
        missing = [name for name in names if name not in self.defaults]
        if missing:
            known = ", ".join(self.defaults)
            raise TypeError(f"update asks for {missing[0]}, the optimizer was made with {known}")
        return names

    def update(self, p: Tensor, g: Tensor, state: dict, lr: float) -> None:
        """Change `p` in place, given its gradient `g` and the optimizer's `state` for it.

        The arguments that a rule names after `state` are settings of the parameter's group.
        """
        raise NotImplementedError


class SGD(Optimizer):
    """p ← p − lr·g. Keeps no state."""

    def __init__(self, params: object, lr: float = 1e-3) -> None:
        super().__init__(params, lr=lr)

    def update(self, p: Tensor, g: Tensor, state: dict, lr: float) -> None:
        """One step against the gradient."""
        p.add_(g, alpha=-lr)


class Momentum(Optimizer):
    """v ← momentum·v + (1 − dampening)·g; p ← p − lr·v. The first v is g.

    `dampening` 0 adds gradients up, as torch does; `dampening` = `momentum` averages them.
    """

    def __init__(
        self, params: object, lr: float = 1e-3, momentum: float = 0.9, dampening: float = 0.0
    ) -> None:
        rates = {
            "momentum": _rate("momentum", momentum),
            "dampening": _rate("dampening", dampening),
        }
        super().__init__(params, lr=lr, **rates)

    def update(
        self, p: Tensor, g: Tensor, state: dict, lr: float, momentum: float, dampening: float
    ) -> None:
        """One step against the velocity."""
        if "v" not in state:
            state["v"] = g.clone()
        else:
            state["v"].mul_(momentum).add_(g, alpha=1 - dampening)
        p.add_(state["v"], alpha=-lr)


class AdaGrad(Optimizer):
    """s ← s + g²; p ← p − lr·g / (√s + eps). A sum, not an average: steps only shrink.

    `eps_inside` puts eps under the root, as some texts do: g / √(s + eps).
    Source: Duchi, Hazan, Singer 2011.
    """

    def __init__(
        self, params: object, lr: float = 1e-2, eps: float = 1e-10, eps_inside: bool = False
    ) -> None:
        settings = {
            "eps": number("eps", eps, at_least=0),
            "eps_inside": choice("eps_inside", eps_inside),
        }
        super().__init__(params, lr=lr, **settings)

    def update(
        self, p: Tensor, g: Tensor, state: dict, lr: float, eps: float, eps_inside: bool
    ) -> None:
        """One step, scaled by all gradients so far."""
        s = _kept(state, "s", p)
        s.addcmul_(g, g)
        p.addcdiv_(g, _root(s, eps, eps_inside), value=-lr)


class RMSProp(Optimizer):
    """s ← alpha·s + (1 − alpha)·g²; p ← p − lr·g / (√s + eps). AdaGrad with a running average.

    `eps_inside` as in AdaGrad. Source: Tieleman, Hinton 2012, lecture 6.5.
    """

    def __init__(
        self,
        params: object,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        eps_inside: bool = False,
    ) -> None:
        rates = {"alpha": _rate("alpha", alpha), "eps": number("eps", eps, at_least=0)}
        super().__init__(params, lr=lr, **rates, eps_inside=choice("eps_inside", eps_inside))

    def update(
        self, p: Tensor, g: Tensor, state: dict, lr: float, alpha: float, eps: float,
        eps_inside: bool,
    ) -> None:  # fmt: skip
        """One step, scaled by the recent gradients."""
        s = _kept(state, "s", p)
        s.mul_(alpha).addcmul_(g, g, value=1 - alpha)
        p.addcdiv_(g, _root(s, eps, eps_inside), value=-lr)


class Adam(Optimizer):
    """RMSProp with momentum: m averages g, s averages g²; p ← p − lr·m̂ / (√ŝ + eps).

    m̂ and ŝ are m / (1 − beta1ᵗ) and s / (1 − beta2ᵗ): both averages begin at 0, and
    `bias_correction` makes up for it. `weight_decay` adds weight_decay·p to the gradient, so that
    it is scaled like one. Source: Kingma, Ba 2015.
    """

    decoupled = False

    def __init__(
        self,
        params: object,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        bias_correction: bool = True,
    ) -> None:
        settings = {
            "betas": _pair(betas),
            "eps": number("eps", eps, at_least=0),
            "weight_decay": number("weight_decay", weight_decay, at_least=0),
            "bias_correction": choice("bias_correction", bias_correction),
        }
        super().__init__(params, lr=lr, **settings)

    def update(
        self, p: Tensor, g: Tensor, state: dict, lr: float, betas: tuple[float, float],
        eps: float, weight_decay: float, bias_correction: bool,
    ) -> None:  # fmt: skip
        """One step against the average gradient, scaled by the average square."""
        if weight_decay and self.decoupled:
            p.mul_(1 - lr * weight_decay)
        elif weight_decay:
            g = g.add(p, alpha=weight_decay)
        m = _kept(state, "m", p)
        s = _kept(state, "s", p)
        t = state["t"] = state.get("t", 0) + 1
        m.lerp_(g, 1 - betas[0])
        s.mul_(betas[1]).addcmul_(g, g, value=1 - betas[1])
        first, second = (1 - beta**t if bias_correction else 1.0 for beta in betas)
        p.addcdiv_(m, (s.sqrt() / second**0.5).add_(eps), value=-lr / first)


class AdamW(Adam):
    """Adam, but weight decay shrinks p directly: p ← (1 − lr·weight_decay)·p first.

    Source: Loshchilov, Hutter 2019.
    """

    decoupled = True

    def __init__(self, params: object, lr: float = 1e-3, **settings: object) -> None:
        super().__init__(params, lr=lr, **{"weight_decay": 1e-2, **settings})


def _rate(name: str, value: object) -> float:
    """`value` if it is in [0, 1), as the weight of the old value in an average must be."""
    rate = number(name, value, at_least=0, at_most=1)
    if rate == 1:
        raise ValueError(f"{name} must be below 1, got 1: nothing would ever be forgotten")
    return rate


def _pair(betas: object) -> tuple[float, float]:
    """The two weights of Adam's averages, checked."""
    if not isinstance(betas, (tuple, list)) or len(betas) != 2:
        raise TypeError(f"betas must be two numbers, as in (0.9, 0.999), got {shown(betas)}")
    return _rate("betas[0]", betas[0]), _rate("betas[1]", betas[1])


def _kept(state: dict, name: str, p: Tensor) -> Tensor:
    """The tensor of p's shape that `state` keeps as `name`; zeros before the first step."""
    if name not in state:
        state[name] = torch.zeros_like(p)
    return state[name]


def _root(s: Tensor, eps: float, inside: bool) -> Tensor:
    return s.add(eps).sqrt_() if inside else s.sqrt().add_(eps)
