"""Checks of chapter 07: six rules, each written by the learner and compared with torch's."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch

from course_utils.check import optimizer_slips as slips
from course_utils.check.exercise import Wrong, exercise
from course_utils.check.optimizer_runs import (
    SHAPES,
    STEPS,
    Make,
    Problem,
    Run,
    drawn,
    must_be_written_by_hand,
    reusing,
    run,
    runs_again_as_before,
)

STILL = (
    "the parameter does not move: nothing is written into it. "
    "p = p - ... makes a new tensor, p -= ... changes p in place."
)
CHANGED = "your update changes g in place: it must only read it, as others may need it."
REPLACED = "p.data gets new memory, which the model's views do not see: write in place, as p -= ..."
AGAIN = (
    "a second optimizer over the same parameters goes on where the first one stopped: keep what "
    "you remember in state, not on the class."
)
UNDEFINED = "p is no number any more: is something 0 that divides, or below 0 under a root?"
TOO_EARLY = "p is no number any more: t is 1 in the first step, as 1 − beta**0 is 0, which divides."
ALIAS = (
    "what you store is g itself, and the next gradient is written over it: store a copy, as "
    "g.clone()."
)
COUNTER = "the parameters share one step counter: each counts its own steps, in its state."
SHARED = (
    "right for one parameter, wrong for several: what you remember of each belongs into its own "
    "state."
)
SKIPPED = (
    "right while each parameter has a gradient in every step, wrong after a step without one: "
    "keep and count everything per parameter, in its state."
)


@dataclass(frozen=True)
class Rule:
    """A rule of torch's, two settings unlike its defaults, the rule with switches, its slips."""

    torchs: Callable
    settings: tuple[dict, dict]
    told: Callable
    slips: list[tuple[dict, str]]


@exercise(
    "07.1",
    "The rule is one line. Which way does the gradient point, uphill or downhill?",
    "p must change in place: p = ... would only give a new tensor that name.",
    "In place is p -= ..., or p.sub_(...), with lr times g behind it.",
)
def ex07_1(answer: object) -> str:
    """SGD, step by step with torch's."""
    rule = Rule(torch.optim.SGD, ({"lr": 0.07}, {"lr": 0.3}), slips.sgd, slips.SGD)
    _agree(answer, rule)
    return "right: every step agrees with torch.optim.SGD."


@exercise(
    "07.2",
    "state is a dictionary that the optimizer keeps for this parameter from step to step.",
    "In the first step state is empty. What is v then?",
    "Store a tensor of your own: g belongs to autograd, which may write into it again.",
)
def ex07_2(answer: object) -> str:
    """Momentum, step by step with torch's."""
    settings = {"lr": 0.07, "momentum": 0.8}, {"lr": 0.2, "momentum": 0.35}
    _agree(answer, Rule(torch.optim.SGD, settings, slips.momentum, slips.MOMENTUM))
    return "right: every step agrees with torch.optim.SGD and its momentum."


@exercise(
    "07.3",
    "s begins as zeros of p's shape, and each step makes it larger, never smaller.",
    "state.setdefault('s', torch.zeros_like(p)) gives s, and stores it the first time.",
    "The root is taken of s alone; eps is added to the root.",
)
def ex07_3(answer: object) -> str:
    """AdaGrad, step by step with torch's."""
    settings = {"lr": 0.07, "eps": 1e-3}, {"lr": 0.4, "eps": 2e-5}
    _agree(answer, Rule(torch.optim.Adagrad, settings, slips.scaled, slips.ADAGRAD))
    return "right: every step agrees with torch.optim.Adagrad."


@exercise(
    "07.4",
    "It is AdaGrad with another s: one that forgets.",
    "In an average the two weights add up to 1. Which of them does the old s get?",
    "The new s must be stored in state, or change there in place.",
)
def ex07_4(answer: object) -> str:
    """RMSProp, step by step with torch's."""
    settings = {"lr": 0.07, "alpha": 0.8, "eps": 1e-3}, {"lr": 0.01, "alpha": 0.95, "eps": 2e-5}
    _agree(answer, Rule(torch.optim.RMSprop, settings, slips.rmsprop, slips.RMSPROP))
    return "right: every step agrees with torch.optim.RMSprop."


@exercise(
    "07.5",
    "Three things live in state: m, s and the number of steps t, which is 1 in the first step.",
    "Divide m and s for use only: what is stored stays undivided.",
    "Each average has a beta of its own, and is divided by 1 minus the t-th power of that beta.",
)
def ex07_5(answer: object) -> str:
    """Adam, step by step with torch's."""
    settings = (
        {"lr": 0.07, "betas": (0.8, 0.95), "eps": 1e-3},
        {"lr": 0.01, "betas": (0.6, 0.98), "eps": 2e-5},
    )
    _agree(answer, Rule(torch.optim.Adam, settings, slips.adam, slips.ADAM))
    return "right: every step agrees with torch.optim.Adam."


@exercise(
    "07.6",
    "It is Adam with one line more, and that line touches neither g nor the state.",
    "The line comes first, before the step: p shrinks by a small share.",
    "The share is the product of two settings, and p keeps the rest of itself.",
)
def ex07_6(answer: object) -> str:
    """AdamW, step by step with torch's."""
    settings = (
        {"lr": 0.07, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.1},
        {"lr": 0.02, "betas": (0.6, 0.98), "eps": 2e-5, "weight_decay": 0.3},
    )
    _agree(answer, Rule(torch.optim.AdamW, settings, slips.adam, slips.ADAMW))
    return "right: every step agrees with torch.optim.AdamW."


def _agree(answer: object, rule: Rule) -> None:
    """Raise `Wrong` with what is wrong in the optimizer `answer`, looked for from small to large.

    First one parameter alone, then one whose gradients share a tensor, then several parameters,
    then several of which one is sometimes without a gradient.
    """
    must_be_written_by_hand(answer)
    alone = drawn(SHAPES[0])
    if not runs_again_as_before(partial(answer, **rule.settings[0]), alone):
        raise Wrong(AGAIN)
    for settings in rule.settings:
        _alone(answer, rule, settings, alone)
    for settings in rule.settings:
        _reused(partial(answer, **settings), rule, settings, reusing(alone))
        _several(answer, rule, settings, drawn(*SHAPES), SHARED)
        _several(answer, rule, settings, drawn(*SHAPES, skipping=True), SKIPPED)


def _alone(answer: type, rule: Rule, settings: dict, problem: Problem) -> None:
    """One parameter: what differs is a mistake in the rule itself."""
    got, wanted = run(partial(answer, **settings), problem), _wanted(rule, settings, problem)
    if got.changed:
        raise Wrong(CHANGED)
    if got.replaced:
        raise Wrong(REPLACED)
    if got.like(wanted):
        return
    for switches, reason in rule.slips:
        if got.like(run(_told(rule, settings, **switches), problem)):
            raise Wrong(reason)
    if not got.finite:
        raise Wrong(TOO_EARLY if rule.told is slips.adam else UNDEFINED)
    if got.still:
        raise Wrong(STILL)
    for name, other in _others(settings, rule.settings):
        if got.like(run(partial(answer, **other), problem)):
            raise Wrong(f"{name} changes nothing in your rule: use what comes as an argument.")
    raise Wrong(_first_difference(got, wanted))


def _others(settings: dict, pair: tuple[dict, dict]) -> Iterator[tuple[str, dict]]:
    """The settings with one number of them changed, and the name of that one."""
    other = pair[1] if settings == pair[0] else pair[0]
    for name, value in other.items():
        if name != "betas":
            yield name, {**settings, name: value}
            continue
        first, second = settings[name]
        yield "betas[0]", {**settings, name: (value[0], second)}
        yield "betas[1]", {**settings, name: (first, value[1])}


def _first_difference(got: Run, wanted: Run) -> str:
    for step, ((mine,), (theirs,)) in enumerate(zip(got.path, wanted.path, strict=True), start=1):
        off = (mine - theirs).abs().max().item()
        if not torch.allclose(mine, theirs, rtol=1e-9, atol=1e-12):
            before = "the first step is right; " if step > 1 else ""
            return f"{before}step {step} of {STEPS} differs from torch's, by {off:.1e} at most."
    raise AssertionError("the runs were found to differ")


def _reused(make: Make, rule: Rule, settings: dict, problem: Problem) -> None:
    """Gradients that come in one tensor: what is remembered of them must be a copy."""
    got = run(make, problem)
    if got.changed or not got.like(_wanted(rule, settings, problem)):
        raise Wrong(ALIAS)


def _several(answer: type, rule: Rule, settings: dict, problem: Problem, reason: str) -> None:
    """Several parameters: what differs is a mistake in what is remembered of each."""
    try:
        got = run(partial(answer, **settings), problem)
    except Wrong:
        raise
    except Exception as error:  # whatever shapes that do not fit, or keys that are missing, raise
        raise Wrong(reason) from error
    if got.like(_wanted(rule, settings, problem)):
        return
    if rule.told is slips.adam and got.like(run(_told(rule, settings, shared={}), problem)):
        raise Wrong(COUNTER)
    raise Wrong(reason)


def _wanted(rule: Rule, settings: dict, problem: Problem) -> Run:
    return run(partial(rule.torchs, **settings), problem)


def _told(rule: Rule, settings: dict, **switches: object) -> Make:
    """An optimizer that makes the mistake of the switches."""
    return partial(slips.Told, rule=partial(rule.told, **switches), **settings)
