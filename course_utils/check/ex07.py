"""Checks of chapter 07: optimizers and their memory."""

from collections.abc import Callable, Mapping

import torch

from course_utils import hardware
from course_utils.arguments import shown
from course_utils.check.exercise import Wrong, exercise, number
from course_utils.train import optimizers

STEPS = 50
EARLY = 5  # where likely mistakes are told apart, before rounding differences grow
NUMBERS = {"SGD": 2, "momentum": 3, "AdaGrad": 3, "AdamW": 4}


@exercise(
    "07.1",
    "state is a dictionary that the optimizer keeps for this parameter from step to step.",
    "In the first step state is empty: let v be g. Later, v is momentum times the old v, plus g.",
    "Change p in place: p -= lr * v. Store v, not a name for g: g.clone().",
)
def ex07_1(answer: object) -> str:
    """Momentum, step by step with torch's."""
    settings = {"lr": 0.05, "momentum": 0.9}
    averaged = _path(lambda p: torch.optim.SGD(p, **settings, dampening=0.9))
    from_zero = _path(lambda p: optimizers.Momentum(p, lr=0.05 * 0.1))
    plain = _path(lambda p: torch.optim.SGD(p, lr=0.05))
    uphill = _path(lambda p: torch.optim.SGD(p, **settings, maximize=True))
    _agree(
        answer,
        settings,
        _path(lambda p: torch.optim.SGD(p, **settings)),
        [
            (plain, "that is SGD: nothing is carried from step to step."),
            (averaged, "v is an average here: add g as it is, not (1 − momentum)·g."),
            (from_zero, "v is an average here: add g as it is, not (1 − momentum)·g."),
            (uphill, "that climbs: p -= lr * v, not p += lr * v."),
        ],
    )
    return "right: every step agrees with torch.optim.SGD(momentum=0.9)."


@exercise(
    "07.2",
    "s begins as zeros. It is a running average of g·g with the weight alpha for the old value.",
    "state.setdefault('s', torch.zeros_like(p)) gives s, and stores it the first time.",
    "p -= lr * g / (s.sqrt() + eps): eps stands beside the root.",
)
def ex07_2(answer: object) -> str:
    """RMSProp, step by step with torch's."""
    settings = {"lr": 0.05, "alpha": 0.9, "eps": 1e-3}
    summed = _path(lambda p: torch.optim.Adagrad(p, lr=0.05, eps=1e-3))
    swapped = _path(lambda p: torch.optim.RMSprop(p, lr=0.05, alpha=0.1, eps=1e-3))
    forgetful = _path(lambda p: _Stateless(p, **settings))
    inside = _path(lambda p: optimizers.RMSProp(p, **settings, eps_inside=True))
    _agree(
        answer,
        settings,
        _path(lambda p: torch.optim.RMSprop(p, **settings)),
        [
            (summed, "s is a sum here: that is AdaGrad. Average: alpha·s + (1 − alpha)·g²."),
            (inside, "eps stands under the root here: it belongs beside it."),
            (swapped, "alpha is the weight of the old s, 1 − alpha that of g²: they are swapped."),
            (forgetful, "s is forgotten between steps: store it in state."),
        ],
    )
    return "right: every step agrees with torch.optim.RMSprop."


@exercise(
    "07.3",
    "Three things live in state: m, s and the number of steps t, which begins at 1.",
    "Divide m by 1 − beta1**t and s by 1 − beta2**t before they are used; store them undivided.",
    "p -= lr * m_hat / (s_hat.sqrt() + eps).",
)
def ex07_3(answer: object) -> str:
    """Adam, step by step with torch's."""
    settings = {"lr": 0.05, "betas": (0.9, 0.99), "eps": 1e-3}
    biased = _path(lambda p: optimizers.Adam(p, **settings, bias_correction=False))
    swapped = _path(lambda p: torch.optim.Adam(p, lr=0.05, betas=(0.99, 0.9), eps=1e-3))
    half = {way: _path(lambda p, way=way: _HalfCorrected(p, **settings, only=way)) for way in "ms"}
    _agree(
        answer,
        settings,
        _path(lambda p: torch.optim.Adam(p, **settings)),
        [
            (biased, "the bias correction is missing: divide by 1 − beta**t."),
            (swapped, "the betas are swapped: the first is m's, the second s's."),
            (half["m"], "s is not corrected: divide it by 1 − beta2**t, too."),
            (half["s"], "m is not corrected: divide it by 1 − beta1**t, too."),
        ],
    )
    return "right: every step agrees with torch.optim.Adam."


@exercise(
    "07.4",
    "Each parameter, each gradient and each number of state takes 4 bytes.",
    "SGD keeps no state, momentum and AdaGrad one number a parameter, AdamW two.",
    "8, 12, 12 and 16 bytes per parameter.",
)
def ex07_4(answer: object) -> str:
    """Bytes of four optimizers."""
    if not isinstance(answer, Mapping):
        raise Wrong(f"a dict from each optimizer to its bytes is expected, got {shown(answer)}.")
    for name, many in NUMBERS.items():
        if answer.get(name) is None:
            raise Wrong(f"{name} is still open.")
        right = 4 * many * 1.5e9
        mistakes = [
            (many * 1.5e9, "each number takes 4 bytes in fp32."),
            (right - 6e9, "one of parameters, gradients and state is missing."),
            (4 * many, "that is for one parameter: the model has 1.5e9."),
            (right + 6e9, "one number a parameter too many."),
            (right / 2, "fp32 takes 4 bytes, not 2."),
        ]
        try:
            number(answer[name], right, within=1e-6, mistakes=mistakes, unit="bytes")
        except Wrong as reason:
            raise Wrong(f"{name}: {reason}") from None
    return "all four. State is what tells optimizers apart in memory."


@exercise(
    "07.5",
    "AdamW in fp32 needs parameter, gradient and two numbers of state.",
    "That is 16 bytes per parameter.",
    "Divide hardware.machine().memory by 16.",
)
def ex07_5(answer: object) -> str:
    """The largest model on this machine."""
    memory = hardware.machine().memory
    number(
        answer,
        memory / 16,
        within=0.02,
        unit="parameters",
        mistakes=[
            (memory / 4, "that holds the parameters alone: gradients and state come on top."),
            (memory / 8, "that is SGD: AdamW keeps two more numbers per parameter."),
            (memory / 12, "AdamW keeps two numbers per parameter, not one."),
            (memory, "that is the number of bytes: a parameter takes several."),
            (memory / 2, "even the parameters alone take 4 bytes each in fp32."),
        ],
    )
    return "right, as an upper bound: activations and everything else need room, too."


@exercise(
    "07.6",
    "AdamW shrinks p itself, once a step, by a factor near 1.",
    "The factor is 1 − lr·decay, and with a gradient of 0 nothing else happens.",
    "2 × (1 − 0.001)¹⁰⁰.",
)
def ex07_6(answer: object) -> str:
    """Decay in AdamW."""
    number(
        answer,
        2 * 0.999**100,
        within=4e-4,
        exact_mistakes=True,
        mistakes=[
            (2.0, "the gradient is 0, but AdamW shrinks p all the same."),
            (2 * 0.9**100, "the factor is 1 − lr·decay: lr belongs to it."),
            (2 * 0.99**100, "the factor is 1 − lr·decay: the decay belongs to it."),
            (2 * 0.999, "that is after one step: it happens a hundred times."),
            (0.999**100, "it starts from 2."),
            (2 - 0.1 * 2, "each step shrinks what is left: factors multiply."),
            (1.0, "that is Adam's way: lr a step, whatever the decay. AdamW shrinks p itself."),
        ],
    )
    return "right. The gradient's size plays no part in it: that is the point of AdamW."


class _Stateless(torch.optim.Optimizer):
    """RMSProp that begins with s = 0 in each step: a likely mistake."""

    def __init__(self, params: list[torch.Tensor], **settings: float) -> None:
        super().__init__(params, settings)

    @torch.no_grad()
    def step(self) -> None:
        """One step."""
        lr, alpha, eps = (self.defaults[name] for name in ("lr", "alpha", "eps"))
        for p in self.param_groups[0]["params"]:
            p -= lr * p.grad / ((1 - alpha) ** 0.5 * p.grad.abs() + eps)


class _HalfCorrected(torch.optim.Optimizer):
    """Adam with bias correction of m or of s alone: a likely mistake."""

    def __init__(self, params: list[torch.Tensor], only: str, **settings: object) -> None:
        super().__init__(params, settings)
        self.only, self.t, self.m, self.s = only, 0, 0.0, 0.0

    @torch.no_grad()
    def step(self) -> None:
        """One step."""
        self.t += 1
        (b1, b2), lr, eps = (self.defaults[name] for name in ("betas", "lr", "eps"))
        for p in self.param_groups[0]["params"]:
            self.m = b1 * self.m + (1 - b1) * p.grad
            self.s = b2 * self.s + (1 - b2) * p.grad**2
            m = self.m / (1 - b1**self.t) if self.only == "m" else self.m
            s = self.s / (1 - b2**self.t) if self.only == "s" else self.s
            p -= lr * m / (s.sqrt() + eps)


def _path(make: Callable) -> list[torch.Tensor]:
    """The parameter after each of `STEPS` steps on a fixed problem, in float64."""
    source = torch.Generator().manual_seed(0)
    p = torch.randn(5, 3, generator=source, dtype=torch.float64).requires_grad_()
    optimizer, path = make([p]), []
    for _ in range(STEPS):
        x = torch.randn(7, 5, generator=source, dtype=torch.float64)
        optimizer.zero_grad()
        (x @ p).square().mean().backward()
        optimizer.step()
        path.append(p.detach().clone())
    return path


def _agree(
    answer: object,
    settings: dict,
    wanted: list[torch.Tensor],
    mistakes: list[tuple[list[torch.Tensor], str]],
) -> None:
    """Raise `Wrong` at the first step that differs, with the mistake it looks like, if any."""
    if not isinstance(answer, type) or not issubclass(answer, torch.optim.Optimizer):
        raise Wrong(f"a class on optimizers.Optimizer is expected, got {shown(answer)}.")
    if answer.__module__.startswith("torch.optim"):
        raise Wrong(f"{answer.__name__} is PyTorch's own: write the rule yourself.")
    got = _path(lambda p: answer(p, **settings))
    if all(torch.equal(a, got[0]) for a in got):
        raise Wrong("the parameter does not move: change p in place, as in p -= ...")
    for path, reason in mistakes:
        if _same(got[EARLY], path[EARLY]):
            raise Wrong(reason)
    for step, (mine, theirs) in enumerate(zip(got, wanted, strict=True), start=1):
        if not mine.isfinite().all():
            raise Wrong(f"step {step} is not a number: is something 0 that divides?")
        if not _same(mine, theirs):
            off = (mine - theirs).abs().max().item()
            raise Wrong(f"step {step} of {STEPS} differs from torch's, by {off:.1e} at most.")


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.allclose(a, b, rtol=1e-9, atol=1e-12)
