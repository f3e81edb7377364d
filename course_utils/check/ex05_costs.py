"""Checks of chapter 05's costs: gradient accumulation within a budget, and LoRA's FLOPs."""

import torch
from torch import nn

from course_utils import hardware, measure, units
from course_utils.check.exercise import Wrong, exercise, finite, number

ROWS, WIDTH, LAYERS = 4096, 256, 8  # of the training step in exercise 05.5
BUDGET = 8e6  # bytes
RUN = 16  # parts that are run at most: every part after the first one has the same peak
D, R = 4096, 16  # LoRA's width and rank in exercise 05.7


@exercise(
    "05.5",
    "Parameters and their gradients take the same bytes, however many parts there are.",
    "What is left of the budget is for the rows of one part: which tensors wait for backward?",
    "For each of its rows a part holds 8 kept inputs and about 2 gradients in flight, each of 256 "
    "fp32 numbers. Double the parts until all of it fits.",
    measured=True,
)
def ex05_5(answer: object) -> str:
    """The fewest parts that stay within a memory budget, predicted and measured here."""
    parts = finite(answer)
    if parts != int(parts) or not 1 <= parts <= ROWS or ROWS % parts:
        raise Wrong(f"equal parts need a divisor of {ROWS}, from 1 on; got {units.digits(parts)}.")
    parts = int(parts)
    peak = _peak(parts)
    words = f"{parts} part{'s' * (parts > 1)} peak{'s' * (parts == 1)} at {units.size(peak)}"
    budget = f"the budget of {units.size(BUDGET)}"
    if peak >= BUDGET:
        raise Wrong(f"{words}, above {budget}. {_forgotten(parts)}")
    fewer = _peak(parts // 2) if parts > 1 else BUDGET
    if fewer < BUDGET:
        raise Wrong(f"{words}, but half as many fit into {budget} too, at {units.size(fewer)}.")
    return (
        f"{words}, and half as many at {units.size(fewer)}, above {budget}. More parts shrink the "
        "activations, never the parameters and their gradients."
    )


def _forgotten(parts: int) -> str:
    """What may be missing in arithmetic by which so few parts fit: the gradients, or layers."""
    one = WIDTH * WIDTH * 4  # bytes of a weight
    rows = (LAYERS + 2) * ROWS // parts * WIDTH * 4
    if LAYERS * one + rows < BUDGET:
        return "Did you count the gradients of the parameters?"
    return "Did you count what all 8 layers keep?"


def _peak(parts: int) -> int:
    """Bytes that a step in `parts` parts holds at its peak, on this machine's own device.

    The rows of a part are drawn when its turn comes, as a loader would read them: of the batch, no
    more than one part is ever held. (`measure.memory` would count a batch that exists before, whole
    and whatever the parts.)
    """
    where = {"device": hardware.backend(), "dtype": torch.float32}
    layers = (nn.Linear(WIDTH, WIDTH, bias=False, **where) for _ in range(LAYERS))
    model = nn.Sequential(*layers)

    def step() -> None:
        model.zero_grad()
        for _ in range(min(parts, RUN)):
            _pass(model, torch.randn(ROWS // parts, WIDTH, **where), parts)

    with torch.enable_grad():
        return measure.memory(step).peak


def _pass(model: nn.Module, x: torch.Tensor, parts: int) -> None:
    """Forward and backward for one of `parts` parts; its tensors are gone when this returns."""
    (model(x).square().mean() / parts).backward()


@exercise(
    "05.7",
    "Count per weight of a layer: forward 2, its own gradient 2, the gradient of its input 2.",
    "Which of the three does a frozen W not need? The layers below still wait for their gradient.",
    "A and B are trained, so they cost all three: how many numbers do they have together?",
)
def ex05_7(answer: object) -> str:
    """What LoRA leaves of the training FLOPs."""
    full, adapters = 6 * D**2, 6 * 2 * D * R
    right = (4 * D**2 + adapters) / full
    if finite(answer) == 0.67:
        raise Wrong("two digits do not show whether you counted the adapters: give four.")
    number(answer, right, within=1e-3, mistakes=_lora_slips(right, full, adapters))
    memory, flops = 1 - 2 * D * R / D**2, 1 - right
    return (
        f"right: LoRA saves {100 * memory:.0f} % of the optimizer's memory, but only "
        f"{100 * flops:.0f} % of the FLOPs."
    )


def _lora_slips(right: float, full: int, adapters: int) -> list[tuple[float, str]]:
    """What each likely mistake gives, and its sentence."""
    through = "the gradient must pass through the frozen W to reach the layers below."
    beside = "that is the adapters alone: the frozen W takes part in both passes."
    return [
        (4 / 6, "the adapters' own FLOPs are missing."),
        (100 * right, "that is a percentage: a share of 1 is meant."),
        (1 / right, "the ratio is upside down: LoRA over training in full."),
        (adapters / full, beside),
        (0.0078, beside),
        (100 * adapters / full, beside),
        (0.78, beside),
        (adapters / (full + adapters), beside),
        ((2 * D**2 + adapters) / full, through),
        (2 / 6, through),
        ((2 * D**2 + adapters / 3) / full, "that is the forward pass of LoRA alone."),
        (1 + adapters / full, "a frozen W needs no gradient of its own, and backward counts too."),
        (1.0, "a frozen W needs no gradient of its own."),
        ((4 * D**2 + adapters / 2) / full, "there are two adapters: A and B."),
        ((4 * D**2 + adapters / 3) / full, "that is the adapters' forward pass alone."),
        ((4 * D**2 + adapters * 2 / 3) / full, "A and B are trained: each needs both gradients."),
        (1 - right, "that is the share that is saved: the share that is left is asked."),
        (right / 2, "a multiply-add is two FLOPs, in W as in the adapters."),
        (right * full, "those are FLOPs per token and layer: divide by those of training W."),
    ]
