"""Checks of chapter 07: bytes that an optimizer needs, and the time that it takes to move them."""

from collections.abc import Mapping, Sequence
from math import isclose

import torch

from course_utils import hardware, measure
from course_utils.arguments import shown
from course_utils.check import timed
from course_utils.check.exercise import Wrong, exercise, finite, number

NUMBERS = {"SGD": 2, "momentum": 3, "AdaGrad": 3, "AdamW": 4}  # of 4 bytes, for each parameter
PARAMETERS = 1.5e9
SECONDS = 0.010
HELD = 16  # bytes per parameter: p, g, m, s
FROZEN, TRAINED = 70e9, 0.2e9
# What a slip makes of each optimizer's numbers, where it is made in all four.
EVERYWHERE = [
    ([n / 2 for n in NUMBERS.values()], "fp32 takes 4 bytes per number, not 2."),
    ([2, 2, 2, 2], "the state is missing, and that is what tells optimizers apart."),
    ([n - 1 for n in NUMBERS.values()], "of parameters and gradients, one is missing."),
    ([n - 2 for n in NUMBERS.values()], "that is the state alone: add parameters and gradients."),
    ([n / 1e9 for n in NUMBERS.values()], "those are gigabytes: bytes are expected."),
    ([n / 2**30 for n in NUMBERS.values()], "those are GiB: bytes are expected."),
]


@exercise(
    "07.7",
    "Each parameter, each gradient and each number of state takes 4 bytes.",
    "Two of the four remember one number per parameter, one remembers two, one nothing.",
    "For each optimizer: how many numbers per parameter in all, times 4 bytes, times 1.5e9?",
)
def ex07_7(answer: object) -> str:
    """Bytes of four optimizers."""
    if not isinstance(answer, Mapping):
        raise Wrong(f"a dict from each optimizer to its bytes is expected, got {shown(answer)}.")
    for name in NUMBERS:
        if answer.get(name) is None:
            raise Wrong(f"{name} is still open.")
    given = [_number(name, answer[name]) for name in NUMBERS]
    _same_slip_in_all(given)
    for (name, many), value in zip(NUMBERS.items(), given, strict=True):
        try:
            number(value, 4 * PARAMETERS * many, within=1e-6, mistakes=_slips(many), unit="bytes")
        except Wrong as reason:
            raise Wrong(f"{name}: {reason}") from None
    return "all four. State is what tells optimizers apart in memory."


def _number(name: str, value: object) -> float:
    try:
        return finite(value)
    except Wrong as reason:
        raise Wrong(f"{name}: {reason}") from None


def _same_slip_in_all(given: Sequence[float]) -> None:
    """Raise `Wrong` where one slip explains all four numbers."""
    for numbers, reason in EVERYWHERE:
        wanted = [4 * PARAMETERS * many for many in numbers]
        if all(isclose(a, b, rel_tol=1e-3) for a, b in zip(given, wanted, strict=True)):
            raise Wrong(reason)


def _slips(many: int) -> list[tuple[float, str]]:
    """What likely mistakes give for an optimizer of so many numbers per parameter."""
    one = 4 * PARAMETERS
    return [
        (PARAMETERS * many, "each number takes 4 bytes in fp32."),
        (4 * many, "that is for one parameter: the model has 1.5e9."),
        *([(one * 2, "its state is missing.")] if many > 2 else []),
        (one * (many - 1), "one number per parameter is missing."),
        (one * (many + 1), "that is one number per parameter too many."),
        (one * many / 2, "fp32 takes 4 bytes, not 2."),
    ]


@exercise(
    "07.8",
    "A fused step reads p, g, m and s, and writes three of them: how many bytes per parameter?",
    "measure.reference_bandwidth() says how many bytes per second your machine moves.",
    "Bytes per second times seconds is bytes; from there it is one division.",
    measured=True,
)
def ex07_8(answer: object) -> str:
    """Parameters that a fused AdamW step updates in 10 ms, predicted and measured here."""
    return timed.takes(
        answer,
        SECONDS,
        lambda _, part, budget: fused_time(part, budget),
        nbytes=lambda n: HELD * n,
        grows=1,
        piece=lambda _: 10**6,
        within=1.6,
        share=0.2,
    )


def fused_time(count: int, budget: float) -> measure.Time:
    """Of a fused AdamW step on `count` parameters in fp32, where this machine computes best."""
    made = {"device": hardware.backend(), "dtype": torch.float32}
    p = torch.nn.Parameter(torch.ones(count, **made))
    p.grad = torch.ones_like(p)
    adamw = torch.optim.AdamW([p], fused=True)
    return measure.time(adamw.step, device=p.device.type, budget=budget)


@exercise(
    "07.10",
    "Frozen means: no gradient, so no state. Which bytes does a frozen parameter still need?",
    "A byte has 8 bits. What of the adapter's parameters is the same as without QLoRA?",
    "Add two products: frozen parameters times their bytes, adapter parameters times theirs.",
)
def ex07_10(answer: object) -> str:
    """QLoRA: bytes of a model that is frozen in 4.5 bits, and of its adapter."""
    frozen, adapter = FROZEN * 4.5 / 8, TRAINED * 16
    right, value = frozen + adapter, finite(answer)
    if not isclose(value, right, rel_tol=0.01):
        number(value, right, within=0.004, unit="bytes", mistakes=_qlora_slips(frozen, adapter))
    full = FROZEN * 16 / 1e9
    return (
        "right, and activations come on top. To train all 70e9 parameters with AdamW in fp32 "
        f"would need {full:.0f} GB."
    )


def _qlora_slips(frozen: float, adapter: float) -> list[tuple[float, str]]:
    """What likely mistakes give."""
    right = frozen + adapter
    return [
        (frozen + FROZEN * 12 + adapter, "what is frozen has neither gradients nor state."),
        (frozen + FROZEN * 8 + adapter, "what is frozen keeps no state."),
        (frozen + FROZEN * 4 + adapter, "what is frozen gets no gradients."),
        (FROZEN * 16, "that is full training: what is frozen needs its weights alone."),
        (FROZEN * 4.5 + adapter, "a byte has eight bits."),
        (FROZEN / 2 + adapter, "the scales take half a bit per parameter, too."),
        (frozen, "the adapter is missing: it is trained, with gradients and state."),
        (frozen + TRAINED * 4, "the adapter's gradients and state are missing."),
        (frozen + TRAINED * 8, "of the adapter, the state is missing."),
        (frozen + TRAINED * 12, "of the adapter, one of gradients and AdamW's two is missing."),
        (FROZEN * 4 + adapter, "the frozen parameters are not in fp32."),
        (FROZEN * 2 + adapter, "the frozen parameters are not in bf16."),
        (adapter, "the frozen parameters are missing: they do not train, but they are there."),
        *((right / 2**30 * unit, "those are GiB: bytes are expected.") for unit in (1, 1e9)),
        (right / 1e9, "those are gigabytes: bytes are expected."),
    ]
