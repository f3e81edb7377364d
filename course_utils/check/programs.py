"""How a learner's function is tried: on inputs drawn anew, which it must only read."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isclose

import torch

from course_utils.arguments import shown
from course_utils.check.exercise import Wrong

PAST = "your strides read past the end of x's storage: how far do two neighbours lie apart?"
PRIMES = (2, 3, 5, 7, 11, 13)


def different(count: int, low: int, high: int) -> list[int]:
    """`count` different whole numbers from `low` to `high`, drawn anew in a random order."""
    return random.Random().sample(range(low, high + 1), count)


def sizes(count: int) -> list[int]:
    """`count` different primes, drawn anew: no two products of some of them are equal."""
    return random.Random().sample(PRIMES[: max(count, 5)], count)


def settings(count: int) -> Iterator[list[int]]:
    """Lists of `count` sizes: two of different primes, then one for each place with a 1 there."""
    yield sizes(count)
    yield sizes(count)
    for place in range(count):
        small = sizes(count)
        small[place] = 1
        yield small


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Normal random numbers, drawn anew on the processor; the global generator does not move."""
    source = torch.Generator("cpu")
    source.seed()
    return torch.randn(shape, generator=source, dtype=dtype, device="cpu")


def called(program: Callable, **inputs: object) -> object:
    """What `program` returns for the values of `inputs`, in this order.

    Raises `Wrong` if a tensor among them is afterwards another than before.
    """
    tensors = {name: x for name, x in inputs.items() if isinstance(x, torch.Tensor)}
    before = {name: (x.untyped_storage().nbytes(), x.clone()) for name, x in tensors.items()}
    try:
        got = program(*inputs.values())
    except RuntimeError:
        if _works_on_more(program, inputs):
            raise Wrong(PAST) from None
        raise
    for name, x in tensors.items():
        stored, values = before[name]
        if x.untyped_storage().nbytes() != stored or not equal(x, values):
            raise Wrong(f"your function changed {name}; it must only read it.")
    return got


def _works_on_more(program: Callable, inputs: Mapping[str, object]) -> bool:
    """Whether the program, which failed, works if each tensor's storage goes on behind its end."""
    longer = {}
    for name, x in inputs.items():
        if isinstance(x, torch.Tensor):
            size = x.untyped_storage().nbytes() // x.element_size()
            stored = x.detach().as_strided((size,), (1,), 0)
            x = stored.repeat(64).as_strided(x.shape, x.stride(), x.storage_offset())
        longer[name] = x
    try:
        program(*longer.values())
    except Exception:
        return False
    return True


def named_in_all(tries: Sequence[tuple[float, Sequence[tuple[float, str]]]]) -> None:
    """Raise `Wrong` with the sentence of a slip that explains what was given in every try.

    Each try pairs the number given with the numbers that the slips lead to there, each with its
    sentence, in the same order.
    """
    given = [number for number, _ in tries]
    for slip in zip(*(slips for _, slips in tries), strict=True):
        pairs = zip(given, slip, strict=True)
        if all(isclose(number, value, rel_tol=1e-6) for number, (value, _) in pairs):
            raise Wrong(slip[0][1])


def equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors have the same dtype, shape and values."""
    return one.dtype == other.dtype and one.shape == other.shape and one.equal(other)


def values(got: object) -> torch.Tensor:
    """`got` in the processor's memory, where it can be compared; `Wrong` if it has no values."""
    if not isinstance(got, torch.Tensor):
        raise Wrong(f"a tensor is expected, got {shown(got)}.")
    if got.is_meta:
        raise Wrong("a tensor on the meta device has a shape but no values to check.")
    return got.detach().cpu()


def same(got: object, wanted: torch.Tensor, mistakes: Mapping[str, torch.Tensor]) -> None:
    """Accept the real numbers `wanted`; else say which known mistake `got` is, or what differs.

    `mistakes` maps the sentence about each mistake to what it gives.
    """
    found = values(got)
    if _close(found, wanted):
        return
    for reason, mistaken in mistakes.items():
        if _close(found, mistaken):
            raise Wrong(reason)
    if found.shape != wanted.shape:
        raise Wrong(f"the shape must be {tuple(wanted.shape)}, got {tuple(found.shape)}.")
    raise Wrong("the shape is right, the values are not: follow each name through the pattern.")


def _close(got: torch.Tensor, wanted: torch.Tensor) -> bool:
    if got.shape != wanted.shape or not got.is_floating_point():
        return False
    doubles = got.double(), wanted.double()
    return torch.allclose(*doubles, rtol=1e-4, atol=1e-5, equal_nan=True)
