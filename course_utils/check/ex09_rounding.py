"""Check of chapter 09's stochastic rounding: what chance and neighbours must be, tried often."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from course_utils.check.exercise import Wrong, exercise, function
from course_utils.check.programs import called, different, equal, values
from course_utils.train.random_states import random_states

TRIES, SIDE = 4096, 64
EACH = 4  # numbers of a region
# The upper 16 bits between which the numbers of each region begin, and what fails there alone.
REGIONS = (
    (0x3F81, 0x3FFE, ""),  # from 1 to 2, where every program is tried first
    (0xBF81, 0xBFFE, "for a negative number, up is towards zero."),
    (0x4980, 0x49FE, "the spacing grows with x; noise of a fixed size does not."),
    (0x3580, 0x35FE, "the spacing shrinks with x; noise of a fixed size does not."),
    (0x3F7F, 0x3F7F, "just below 1 the spacing is half as wide as above it."),
    (0x0000, 0x007E, "below 2⁻¹²⁶ bf16's numbers lie evenly, 2⁻¹³³ apart."),
)
# Hoeffding's inequality: one of the 24 shares of a right program is off by more than this in fewer
# than one check of a million.
BOUND = math.sqrt(math.log(2 * EACH * len(REGIONS) * 1e6) / (2 * TRIES))
QUIET = "it draws, and still rounds to nearest: the noise is far smaller than bf16's spacing."
SHAPES = ((), (3,), (2, 3, 4))
Program = Callable[[torch.Tensor, torch.Generator], torch.Tensor]


@dataclass(frozen=True)
class Outcome:
    """What came of numbers that were tried often.

    `away` is the share of a step that each lies away from its neighbour towards zero, and `went`
    the share of tries that ended at the other neighbour, NaN where some ended at neither.
    """

    away: Sequence[float]
    went: Sequence[float]

    def is_like(self, shares: Sequence[float]) -> bool:
        """Whether x went away from zero as often as `shares` say."""
        return all(abs(a - b) < BOUND for a, b in zip(self.went, shares, strict=True))


@exercise(
    "09.6",
    "bf16 is the upper half of fp32: the lower 16 bits of x say how far the next number is.",
    "A random whole number, added to the bits, carries into the upper half just often enough.",
    "x.view(torch.int32) shows the bits of x, and torch.randint takes generator=source.",
)
def ex09_6(answer: object) -> str:
    """Stochastic rounding to bf16."""
    program = function(answer, "a function round_to_bf16(x, source)")
    for shape in SHAPES:
        _once(program, _near_one(shape), 1)
    _once(program, _near_one((4, 3)).T, 1)
    _must_follow_the_source(program)
    _must_toss_for_each(program)
    _must_be_fair(program)
    _must_keep(program)
    return "right: each number is one of its two neighbours, and the mean of many is x."


def _once(program: Program, x: torch.Tensor, seed: int | torch.Generator) -> torch.Tensor:
    """What `program` makes of `x`, in fp32; `Wrong` if it is no bf16 or other chance was used."""
    own = isinstance(seed, torch.Generator)
    source = seed if own else torch.Generator("cpu").manual_seed(seed)
    before = _plain(random_states())
    got = values(called(program, x=x, source=source))
    if _plain(random_states()) != before:
        raise Wrong("it drew from a global generator: hand source on, as generator=source.")
    if got.dtype != torch.bfloat16:
        raise Wrong(f"the result must be a tensor of torch.bfloat16, got {got.dtype}.")
    if got.isnan().any():
        raise Wrong("a number became NaN: is something divided by 0?")
    if got.shape != x.shape:
        raise Wrong(f"the result must have x's shape, {tuple(x.shape)}, got {tuple(got.shape)}.")
    return got.float()


def _plain(states: object) -> object:
    """States of generators in lists and numbers, which can be compared."""
    if isinstance(states, dict):
        return {name: _plain(state) for name, state in states.items()}
    if isinstance(states, list):
        return [_plain(state) for state in states]
    return states.tolist() if isinstance(states, torch.Tensor) else states


def _numbers(upper: Sequence[int], lower: Sequence[int]) -> torch.Tensor:
    """The fp32 numbers of these bits."""
    patterns = [(high << 16) + low for high, low in zip(upper, lower, strict=True)]
    signed = [pattern - (1 << 32) if pattern >> 31 else pattern for pattern in patterns]
    return torch.tensor(signed, dtype=torch.int32, device="cpu").view(torch.float32)


def _near_one(shape: Sequence[int]) -> torch.Tensor:
    """Numbers from 1 to 2 that bf16 does not have, none of them halfway."""
    drawn, count = random.Random(), math.prod(shape)
    upper = [drawn.randrange(0x3F80, 0x3FFF) for _ in range(count)]
    lower = [drawn.choice((drawn.randrange(9000, 30_000), drawn.randrange(36_000, 56_000)))
             for _ in range(count)]  # fmt: skip
    return _numbers(upper, lower).reshape(shape)


def _ends(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The two bf16 neighbours of each x: the one towards zero, and the one away from it."""
    inner = x.view(torch.int32) & -(1 << 16)
    return inner.view(torch.float32), (inner + (1 << 16)).view(torch.float32)


def _must_follow_the_source(program: Program) -> None:
    """Raise `Wrong` unless chance comes from the source alone, and moves it."""
    x, (seed, *others) = _near_one((16, 16)), different(9, 0, 10**6)
    first, again, *different_ones = (_once(program, x, one) for one in (seed, seed, *others))
    source = torch.Generator("cpu").manual_seed(seed)
    before = source.get_state()
    in_a_row = [_once(program, x, source) for _ in range(9)]
    if not equal(first, again):
        raise Wrong("the same state of source gave two results: all chance must come from it.")
    if all(equal(first, one) for one in different_ones):
        drew = not torch.equal(source.get_state(), before)
        raise Wrong(_certain(x, first, _once(program, -x, 1), drew))
    if all(equal(first, one) for one in in_a_row):
        raise Wrong("calls in a row drew the same numbers: let source move on.")


def _certain(x: torch.Tensor, of_x: torch.Tensor, of_minus_x: torch.Tensor, drew: bool) -> str:
    """The sentence about a program in whose results there is no chance."""
    (inner, outer), near = _ends(x), _nearest(x)
    known = [
        (near, -near, "it rounds to nearest, as a cast does: small updates are lost"),
        (inner, -inner, "it always goes towards zero: that cuts the lower bits off"),
        (outer, -outer, "it always goes away from zero"),
        (inner, -outer, "it always goes down"),
        (outer, -inner, "it always goes up"),
    ]
    words = [why for up, down, why in known if equal(of_x, up) and equal(of_minus_x, down)]
    if words and words[0] == known[0][2] and drew:
        return QUIET
    if words:
        return f"{words[0]}. Each number should be rounded at random."
    return "another state of source gave the same result: draw the chance from it."


def _nearest(x: torch.Tensor) -> torch.Tensor:
    """For numbers that are not halfway."""
    inner, outer = _ends(x)
    return torch.where((x - inner).abs() < (outer - x).abs(), inner, outer)


def _must_toss_for_each(program: Program) -> None:
    """Raise `Wrong` if numbers that lie halfway share a coin: all, a row's or a column's."""
    halfway = _numbers([0x3F80], [0x8000]).expand(SIDE, SIDE).clone()
    tries = [_once(program, halfway, seed) for seed in different(20, 0, 10**6)]
    same = [(one == one[0, 0]).all().item() for one in tries]
    if all(same):
        if len({one[0, 0].item() for one in tries}) > 1:
            raise Wrong("one coin decides for the whole tensor: each number needs its own.")
        return
    for dim, what in ((1, "row"), (0, "column")):
        if any((one.amin(dim) == one.amax(dim)).any() for one in tries):
            raise Wrong(f"all numbers of a {what} share a coin: each number needs its own.")


def _must_be_fair(program: Program) -> None:
    """Raise `Wrong` unless each neighbour comes as often as it should, everywhere."""
    drawn = random.Random()
    upper = [drawn.randint(low, high) for low, high, _ in REGIONS for _ in range(EACH)]
    sides = ((0.1, 0.35), (0.65, 0.9)) * (len(upper) // 2)
    lower = [round(drawn.uniform(*side) * 2**16) for side in sides]
    x = _numbers(upper, lower)
    came = _once(program, x.repeat(TRIES, 1), different(1, 0, 10**6)[0])
    inner, outer = _ends(x)
    went = (came == outer).double().mean(0)
    went[((came != inner) & (came != outer)).any(0)] = torch.nan
    for region, (_, _, alone) in enumerate(REGIONS):
        its = slice(EACH * region, EACH * (region + 1))
        outcome = Outcome([low / 2**16 for low in lower[its]], went[its].tolist())
        if not outcome.is_like(outcome.away):
            raise Wrong(f"right near 1, and wrong elsewhere: {alone}" if alone else _named(outcome))


def _named(near_one: Outcome) -> str:
    """The sentence about a program that is wrong from 1 to 2 already."""
    if any(map(math.isnan, near_one.went)):
        return "a number became neither of its neighbours: the noise is larger than their distance."
    away = near_one.away
    if near_one.is_like([0.5] * EACH):
        return "it is a coin of 1/2: the chance must be larger for the nearer neighbour."
    if near_one.is_like([1 - share for share in away]):
        return "the two chances are exchanged: the nearer neighbour must come more often."
    if list(near_one.went) == [round(share) for share in away]:
        return QUIET
    worst = max(range(EACH), key=lambda i: abs(near_one.went[i] - away[i]))
    return (
        f"a number {away[worst]:.0%} of the way from its lower neighbour to the upper one went up "
        f"in {near_one.went[worst]:.0%} of {TRIES} tries, so that the mean is not x."
    )


def _must_keep(program: Program) -> None:
    """Raise `Wrong` if a number that bf16 has does not stay, the ends and zero among them."""
    special = [0x0000, 0x8000, 0x0001, 0x8001, 0x007F, 0x0080, 0x3F80, 0xBF80, 0x7F7F, 0xFF7F]
    upper = [*special, *different(200, 0x0080, 0x7F7F), *different(200, 0x8080, 0xFF7F)]
    x = _numbers(upper, [0] * len(upper))
    for seed in different(8, 0, 10**6):
        came = _once(program, x, seed)
        for number, got in zip(x.tolist(), came.tolist(), strict=True):
            if number != got:
                raise Wrong(f"bf16 has the number {number:.6g}, which must stay; got {got:.6g}.")
