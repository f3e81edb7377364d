"""The check of chapter 08's batcher, on tokens drawn anew."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from course_utils.arguments import shown
from course_utils.check.exercise import Wrong, exercise, function

VOCABULARY = 65_536  # all of uint16: no two tokens of a try are equal
Windows = tuple[np.ndarray, int, object]


@exercise(
    "08.2",
    "Which tokens do inputs and targets need together, and how many are they for one start?",
    "Broadcasting a column of starts and a row of offsets gives the positions of all windows.",
    "NumPy gathers with an array of positions; convert what it returns before torch gets it.",
)
def ex08_2(answer: object) -> str:
    """Write the batcher."""
    cut = function(answer, "a function of tokens, T and starts")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        tries = list(_tries(Path(folder) / "tokens.bin"))
        for tokens, T, starts in tries:
            _judge(cut, tokens, T, starts)
        del tokens, tries  # some systems remove no file that is mapped
    return "right, up to the last start. One gather serves all windows."


def _tries(path: Path) -> Iterator[Windows]:
    """Tokens in memory and in a file, starts as a list and as an array, the last one included."""
    rng = np.random.default_rng()
    plain = _tokens(rng, 60)
    yield plain, 7, rng.integers(0, 40, size=5)
    yield plain, 7, [52, 0, 52, 31]
    yield plain, 1, np.array([58, 3, 20], dtype=np.int32)
    yield plain, 59, [0]
    _tokens(rng, 3000).tofile(path)
    mapped = np.memmap(path, dtype=np.uint16, mode="r")
    yield mapped, 64, rng.permutation(3000 - 64)[:9].tolist()
    yield mapped, 13, np.array([3000 - 14, 1500])


def _tokens(rng: np.random.Generator, length: int) -> np.ndarray:
    """Different tokens, every other one beyond what int16 holds, none next to its successor."""
    drawn = rng.permutation(VOCABULARY // 4)[:length] * 2
    return (drawn + VOCABULARY // 2 * (np.arange(length) % 2)).astype(np.uint16)


def _judge(cut: Callable, tokens: np.ndarray, T: int, starts: object) -> None:
    """Raise `Wrong` unless `cut` returns the windows at `starts`, and leaves its inputs alone."""
    before, at = tokens.copy(), list(map(int, starts))
    got = cut(tokens, T, starts)
    if not np.array_equal(tokens, before):
        raise Wrong("your function changed tokens; it must only read them.")
    if list(map(int, starts)) != at:
        raise Wrong("your function changed starts; it must only read them.")
    if not isinstance(got, (tuple, list)) or len(got) != 2:
        raise Wrong(f"a pair of inputs and targets is expected, got {shown(got)}.")
    row = torch.tensor(before.tolist(), dtype=torch.int64, device="cpu")
    x, y = (torch.stack([row[s + by : s + by + T] for s in at]) for by in (0, 1))
    for name, part, wanted in zip(("inputs", "targets"), got, (x, y), strict=True):
        _must_be_a_batch(name, part, wanted)
    if got[0].equal(y) and got[1].equal(x):
        raise Wrong("inputs and targets are swapped: the targets are one token further on.")
    _must_be_inputs(got[0], row, T, at)
    _must_be_targets(got[1], x, y)


def _must_be_a_batch(name: str, part: object, wanted: torch.Tensor) -> None:
    if not isinstance(part, torch.Tensor):
        raise Wrong(f"the {name} must be a tensor, got {shown(part)}.")
    if part.dtype != torch.int64:
        raise Wrong(f"the {name} must be int64, as embeddings and losses want, got {part.dtype}.")
    if part.shape != wanted.shape:
        raise Wrong(f"the {name} must have shape {tuple(wanted.shape)}, got {tuple(part.shape)}.")
    if (part < 0).any():
        raise Wrong(f"some {name} are negative: tokens from 32 768 on do not fit int16.")
    if wanted.max() > 255 and part.equal(wanted % 256):
        raise Wrong(f"the {name} are cut to one byte: these tokens need two.")


def _must_be_inputs(x: torch.Tensor, row: torch.Tensor, T: int, starts: list[int]) -> None:
    """Raise `Wrong` unless `x` has the tokens that begin at each start."""
    by_start = sorted(zip(starts, x, strict=True), key=lambda pair: pair[0], reverse=True)
    for start, got in by_start:  # far from 0, one too early is not the first token
        if got.equal(row[start : start + T]):
            continue
        if start and got.equal(row[start - 1 : start - 1 + T]):
            end = " It is the last one that has room." if start + T + 1 == len(row) else ""
            raise Wrong(f"the window of start {start} begins one token too early.{end}")
        if got.equal(row[start + 1 : start + 1 + T]):
            raise Wrong(f"the window of start {start} begins one token too late.")
        if got.equal(row[:T]):
            raise Wrong(f"the window of start {start} begins at the first token.")
        raise Wrong(f"the inputs of start {start} are not the tokens from there on.")


def _must_be_targets(got: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> None:
    """Raise `Wrong` unless `got` are the targets `y` of the inputs `x`."""
    if got.equal(y):
        return
    if got.equal(x):
        raise Wrong("the targets are the inputs: they must be one token further on.")
    if got.equal(x + 1):
        raise Wrong("the targets are the inputs plus 1: the next token in the text is asked for.")
    if got.equal(x.roll(-1, 1)):
        raise Wrong("the last target is the first input: the text goes on behind the inputs.")
    if got[:, :-1].equal(y[:, 1:]) and got.shape[1] > 1:
        raise Wrong("the targets are two tokens further on: the next one is asked for.")
    raise Wrong("the inputs are right, the targets are not the tokens one further on.")
