"""Check of chapter 09's batch: from which size on autocast saves memory, counted byte by byte."""

import torch
from torch.nn import functional as F

from course_utils import measure
from course_utils.arguments import shown
from course_utils.check.exercise import Wrong, exercise, finite
from course_utils.compare import slips
from course_utils.train import models

D, L = 384, 8  # width and depth
MOST = 65_536  # rows
COPIES = (L - 1) * D * D + D  # numbers: the first layer's weight needs none


@exercise(
    "09.5",
    "What does fp32 keep for the backward pass, and what does autocast keep in its place?",
    "Autocast keeps the same inputs in 2 bytes per number, and a bf16 copy of most weights.",
    "Inputs grow with B, copies do not. At which B has the one saved what the other costs?",
    measured=True,
)
def ex09_5(answer: object) -> str:
    """From which batch on autocast saves memory."""
    batch = finite(answer)
    if batch != int(batch) and abs(batch - _last_loss(COPIES)) < 1:
        raise Wrong("rows come whole, and this batch is no whole number: which one saves first?")
    if batch != int(batch) or not 1 <= batch <= MOST:
        raise Wrong(f"a whole number of rows from 1 to {MOST:,} is expected, got {shown(batch)}.")
    batch = int(batch)
    plain, cast = kept(batch)
    words = f"at B = {batch:,} fp32 keeps {plain:,} bytes and autocast {cast:,}"
    if slip := slips.named(batch, _slips(), within=1e-9):
        raise Wrong(f"{slip} ({words[0].upper()}{words[1:]}.)")
    if cast >= plain:
        raise Wrong(f"{words}: nothing is saved yet.")
    if batch > 1 and _saves(batch - 1):
        raise Wrong(f"{words}, but one row less is enough to save, too.")
    return f"{words}; with one row less autocast keeps more. Counted on fake tensors."


def kept(batch: int) -> tuple[int, int]:
    """Bytes that autograd keeps for the backward pass, in fp32 and under bf16 autocast.

    Counted by `measure.memory` on the processor, with fake tensors: no number is computed.
    """
    with measure.fake(), torch.device("cpu"), torch.enable_grad():
        x, y = torch.empty(batch, D, dtype=torch.float32), torch.empty(batch, dtype=torch.float32)
        model = models.DeepLinear(D, L)
        for weight in model.parameters():
            weight.data = weight.data.float()  # whatever the kernel's default is

        def step(short: bool) -> None:
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=short):
                loss = F.mse_loss(model(x), y)
            loss.backward()

        found = [measure.memory(lambda short=short: step(short)) for short in (False, True)]
    plain, cast = (memory.largest["activations"] for memory in found)
    return plain, cast


def _saves(batch: int) -> bool:
    plain, cast = kept(batch)
    return cast < plain


def _last_loss(copies: int, inputs: int = L + 1, saved: int = 2, each: int = 2) -> int:
    """The largest batch at which the `copies`, `each` bytes, cost at least what the inputs save."""
    return each * copies // (saved * inputs * D)


def _slips() -> list[tuple[int, str]]:
    """The batch that each likely mistake leads to, rounded up or down, and its sentence."""
    every, inputs = L * D * D + D, "one input is missing: each layer keeps its own, and the head."
    mistakes = [
        (_last_loss(every), "the first layer's weight needs no copy, since x gets no gradient."),
        (_last_loss(COPIES, each=4), "a copy in bf16 takes 2 bytes per number, not 4."),
        (_last_loss(COPIES, saved=4), "autocast keeps the inputs, too, in 2 bytes per number."),
        (_last_loss(COPIES, inputs=L), inputs),
        (_last_loss(COPIES, inputs=L - 1), "that counts too few inputs, or too many copies."),
        (_last_loss(COPIES, inputs=1), "every layer keeps an input, not one of them alone."),
        (307, "that is the chapter's own model: here D is 384 and L is 8."),
    ]
    found = [(last + up, why) for last, why in mistakes for up in (1, 0)]
    found.append((_last_loss(COPIES), "the two meet between two whole numbers: this is the lower."))
    found.append((1, "the bf16 copies of the weights, which the backward pass needs, are missing."))
    return found
