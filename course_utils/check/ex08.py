"""Checks of chapter 08: data, the loop, checkpoints."""

import copy
from collections.abc import Mapping

import numpy as np
import torch
from torch import nn

from course_utils.arguments import shown
from course_utils.check.exercise import Wrong, exercise, function, number

NEEDS = {"A": "zero_grad", "B": "use lr", "C": "same device", "D": "train mode"}


@exercise(
    "08.1",
    "A window has T + 1 tokens: the inputs are all but the last, the targets all but the first.",
    "starts[:, None] + np.arange(T + 1) gives the positions of all windows at once.",
    "Convert with astype(np.int64) before torch.from_numpy.",
)
def ex08_1(answer: object) -> str:
    """Write the batcher."""
    cut = function(answer, "a function of tokens, T and starts")
    tokens = np.arange(100, 120, dtype=np.uint16)
    for T, starts in ((4, [0, 7]), (19, [0]), (4, [15]), (1, [3, 3, 18])):
        got = cut(tokens, T, np.array(starts))
        if not isinstance(got, (tuple, list)) or len(got) != 2:
            raise Wrong(f"a pair of inputs and targets is expected, got {shown(got)}.")
        wanted = torch.tensor([[100 + s + i for i in range(T)] for s in starts])
        if _equal(got[0], wanted + 1) and _equal(got[1], wanted):
            raise Wrong("inputs and targets are swapped: the targets are one token further on.")
        for name, part, right in zip(("inputs", "targets"), got, (wanted, wanted + 1), strict=True):
            _same_rows(name, part, right)
    return "right, up to the last start. One gather serves all windows."


@exercise(
    "08.2",
    "First the number of tokens: each takes 2 bytes.",
    "A window needs T + 1 tokens. Where may it start at the latest?",
    "From 0 to len − T − 1: that is len − T places.",
)
def ex08_2(answer: object) -> str:
    """Count the windows."""
    length = 500_000
    number(
        answer,
        length - 1024,
        within=1e-9,
        exact_mistakes=True,
        mistakes=[
            (length - 1025, "the last start is forgotten: from 0 to len − T − 1 are len − T."),
            (length - 1023, "a window has T + 1 tokens: the target of the last input counts."),
            (1_000_000 - 1025, "a token takes 2 bytes: the file has 500 000."),
            (1_000_000, "a token takes 2 bytes, and near the end there is no room."),
            (length / 1025, "windows may overlap: they start at any token."),
            (1_000_000 - 1024, "a token takes 2 bytes: the file has 500 000."),
            (length // 1024, "windows may overlap: they start at any token."),
            (length // 1025, "windows may overlap: they start at any token."),
            (length, "near the end there is no room for T + 1 tokens."),
        ],
    )
    return "right: len − T places."


@exercise(
    "08.3",
    "Ask of each loop: what does it forget, compared with the four things that a step does?",
    "A: gradients add up. B: an argument that nobody reads. C: where is the data?",
    "D: after a test the model is still in evaluation mode, so dropout is off.",
)
def ex08_3(answer: object) -> str:
    """Four broken loops."""
    if not isinstance(answer, Mapping):
        raise Wrong(f"a dict from each letter to a remedy is expected, got {shown(answer)}.")
    for letter, right in NEEDS.items():
        got = answer.get(letter)
        if got is None:
            raise Wrong(f"{letter} is still open.")
        word = got.strip().lower() if isinstance(got, str) else got
        if word not in NEEDS.values():
            raise Wrong(f"{letter}: {shown(got)} is none of the four remedies.")
        if word != right:
            raise Wrong(f"{letter}: {word!r} does not mend this loop. Go through it line by line.")
    return "all four. Only C raises an error; the others train, badly."


@exercise(
    "08.4",
    "What changes from step to step? The model, the optimizer's state, and two generators.",
    "model.state_dict(), optimizer.state_dict(), source.get_state(), torch.get_rng_state().",
    "unpack is the mirror: load_state_dict twice, source.set_state, torch.set_rng_state.",
)
def ex08_4(answer: object) -> str:
    """Resume exactly."""
    if not isinstance(answer, (tuple, list)) or len(answer) != 2:
        raise Wrong(f"the pair (pack, unpack) is expected, got {shown(answer)}.")
    pack, unpack = (function(part, "a function") for part in answer)
    before = torch.get_rng_state()
    try:
        _resume(pack, unpack)
    finally:
        torch.set_rng_state(before)
    return "right: the resumed run is the uninterrupted one, bit for bit."


class _Run:
    """A small run with dropout, Adam, and data from a generator of its own."""

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5), nn.Linear(6, 1))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.1)
        self.source = torch.Generator().manual_seed(seed)

    def steps(self, many: int) -> tuple[list[float], list[float]]:
        """The first input and the loss of each step."""
        inputs, losses = [], []
        for _ in range(many):
            x = torch.randn(8, 6, generator=self.source)
            self.optimizer.zero_grad()
            loss = self.model(x).square().mean()
            loss.backward()
            self.optimizer.step()
            inputs.append(x[0, 0].item())
            losses.append(loss.item())
        return inputs, losses

    @property
    def parts(self) -> tuple[nn.Module, torch.optim.Optimizer, torch.Generator]:
        return self.model, self.optimizer, self.source


def _resume(pack: object, unpack: object) -> None:
    """Pack after four steps, go on for four, and do these again from what was packed."""
    first = _Run(0)
    first.steps(4)
    state = copy.deepcopy(pack(*first.parts))
    wanted_inputs, wanted = first.steps(4)
    second = _Run(1)
    untouched = [p.detach().clone() for p in second.model.parameters()]
    unpack(state, *second.parts)
    same = all(map(torch.equal, untouched, second.model.parameters()))
    if same and not second.optimizer.state_dict()["state"]:
        raise Wrong("neither model nor optimizer was restored: unpack must load what pack kept.")
    if not second.optimizer.state_dict()["state"]:
        raise Wrong("the optimizer's state is lost: Adam begins anew.")
    inputs, losses = second.steps(4)
    if inputs != wanted_inputs:
        raise Wrong("the data differ after resuming: source must be restored.")
    if losses[0] != wanted[0]:
        raise Wrong("the first loss differs: the model, or torch's generator (dropout), is lost.")
    if losses != wanted:
        raise Wrong("the first loss agrees, later ones differ: is the optimizer's state whole?")


def _same_rows(name: str, part: object, right: torch.Tensor) -> None:
    if not isinstance(part, torch.Tensor):
        raise Wrong(f"the {name} must be a tensor, got {shown(part)}.")
    if part.dtype != torch.int64:
        raise Wrong(f"the {name} must be int64, as embeddings and losses want, got {part.dtype}.")
    if part.shape != right.shape:
        raise Wrong(f"the {name} must have shape {tuple(right.shape)}, got {tuple(part.shape)}.")
    if part.equal(right):
        return
    if name == "targets" and part.equal(right - 1):
        raise Wrong("the targets are the inputs: they must be one token further on.")
    if part[:, 0].equal(right[:, 0] - 1):
        raise Wrong(f"the {name} begin one token too early: every start up to len − T − 1 counts.")
    raise Wrong(f"the {name} are not the tokens at the starts.")


def _equal(part: object, right: torch.Tensor) -> bool:
    return (
        isinstance(part, torch.Tensor) and part.shape == right.shape and bool((part == right).all())
    )
