"""Check of chapter 07's stretch: a learner's predictor of a step's peak, beside the instrument."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from math import isclose

import torch

from course_utils import measure
from course_utils.check.exercise import Wrong, exercise, finite, function
from course_utils.check.peak_slips import SLIPS, Plan, peak
from course_utils.predict import scratch_copies
from course_utils.train import models

CLOSE = 0.01  # the share by which a prediction may be off
KINDS = {
    "SGD": (torch.optim.SGD, {}),
    "momentum": (torch.optim.SGD, {"momentum": 0.9}),
    "AdaGrad": (torch.optim.Adagrad, {}),
    "RMSProp": (torch.optim.RMSprop, {}),
    "Adam": (torch.optim.Adam, {}),
    "AdamW": (torch.optim.AdamW, {}),
}
FORMS = {"for-loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
PAIRS = [(kind, form) for kind in KINDS for form in FORMS if (kind, form) != ("RMSProp", "fused")]
SHARES = 0.3, 0.75, 2.5  # of rows in D: the peak lies at the first layer, the second, the last


@dataclass(frozen=True)
class Try:
    """A plan, what the instrument measured there, and what was predicted."""

    plan: Plan
    measured: int
    predicted: float

    @property
    def right(self) -> bool:
        """Whether the two are close."""
        return isclose(self.predicted, self.measured, rel_tol=CLOSE)


@exercise(
    "07.9",
    "Write down what lives at each moment: in the backward pass at layer l, and in the optimizer's "
    "step. The peak is the largest of these sums.",
    "At layer l some gradients are there already and some inputs are there still: how many of each?"
    " And the gradients that flow from layer to layer?",
    "The scratch: in the for-loop form some tensors of D × D, in foreach some as large as all P "
    "parameters together, in the fused form none.",
)
def ex07_9(answer: object) -> str:
    """A predictor of a step's peak, graded by the instrument."""
    predict = function(answer, "a function peak(D, L, B, optimizer, form)")
    plans = list(_plans(random.Random()))
    given = [finite(predict(*plan)) for plan in plans]
    pairs = zip(plans, measured_peaks(plans), given, strict=True)
    tries = [Try(plan, found, value) for plan, found, value in pairs]
    if not all(one.right for one in tries):
        raise Wrong(_what_is_off(tries))
    if all(one.predicted == one.measured for one in tries):
        return f"right, and to the byte, in all {len(tries)} settings that were drawn and measured."
    return f"right within 1 % in all {len(tries)} settings that were drawn and measured."


def _plans(drawn: random.Random) -> Iterator[Plan]:
    """Every optimizer in each of its forms, each with sizes of its own.

    Where there is scratch, few rows let it make the peak; elsewhere, and in three further plans,
    the rows make it, at the first layer, the second or the last.
    """
    lean = [pair for pair in PAIRS if not scratch_copies(*pair)]
    rest = [pair for pair in PAIRS if pair not in lean]
    asked = list(zip(drawn.sample(lean, len(lean)), cycle(SHARES), strict=False))
    asked += [(pair, drawn.choice(SHARES[:2])) for pair in rest]
    asked += [(pair, SHARES[-1]) for pair in drawn.sample(rest, 3)]
    for pair, share in asked:
        D = drawn.randrange(64, 144)
        yield Plan(D, drawn.randrange(2, 7), round(share * D * drawn.uniform(0.9, 1.2)), *pair)


def measured_peaks(plans: Sequence[Plan]) -> list[int]:
    """The peak of a step of each plan in bytes, on the processor, where the count is exact.

    One thread is enough for tensors so small, and it waits for no other.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.device("cpu"), torch.enable_grad():
            return [measure.memory(_step(*plan)).peak for plan in plans]
    finally:
        torch.set_num_threads(threads)


def _step(D: int, L: int, B: int, optimizer: str, form: str) -> Callable[[], None]:
    """A training step of the deep linear model, as in the chapter."""
    model = models.DeepLinear(D, L).float()
    kind, settings = KINDS[optimizer]
    made = kind(model.parameters(), lr=1e-3, **settings, **FORMS[form])
    x, y = torch.randn(B, D, dtype=torch.float32), torch.randn(B, dtype=torch.float32)

    def step() -> None:
        made.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        made.step()

    return step


def _what_is_off(tries: Sequence[Try]) -> str:
    """The slip that explains every prediction, else what the wrong ones have in common."""
    found = []
    for switches, reason in SLIPS:
        off = max(abs(one.predicted / peak(one.plan, **switches) - 1) for one in tries)
        found.append((off, reason))
    off, reason = min(found, key=lambda pair: pair[0])
    return reason if off < CLOSE else _where(tries)


def _where(tries: Sequence[Try]) -> str:
    """How many predictions are right, what the others share, and one of them."""
    wrong = [one for one in tries if not one.right]
    worst = max(wrong, key=lambda one: abs(one.predicted - one.measured) / one.measured)
    D, L, B, kind, form = worst.plan
    way = "too large" if worst.predicted > worst.measured else "too small"
    words = f"{len(tries) - len(wrong)} of {len(tries)} are right{_common(tries)}. "
    example = f"For D = {D}, L = {L}, B = {B}, {kind}, {form} it gives {worst.predicted:,.0f} bytes"
    return f"{words}{example}: {way}."


def _common(tries: Sequence[Try]) -> str:
    """What all wrong predictions have in common and no right one has; '' if nothing."""
    traits: dict[str, Callable[[Plan], bool]] = {
        f"in the {form} form": lambda plan, form=form: plan.form == form for form in FORMS
    }
    traits |= {f"with {kind}": lambda plan, kind=kind: plan.optimizer == kind for kind in KINDS}
    traits["with state"] = lambda plan: plan.optimizer != "SGD"
    traits["where the peak lies in the optimizer's step"] = lambda plan: not plan.in_backward
    traits["where the peak lies in the backward pass"] = lambda plan: plan.in_backward
    for words, has in traits.items():
        if all(has(one.plan) != one.right for one in tries):
            return f"; all that are off are those {words}"
    return ""
