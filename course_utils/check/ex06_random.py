"""Check of exercise 06.4: random numbers that repeat, judged by statistics over many seeds."""

import random
from collections.abc import Callable
from itertools import combinations

import numpy as np
import torch

from course_utils.arguments import shown
from course_utils.check.exercise import Wrong, exercise, function

# A right program is refused less than once in a million checks. The mean and the standard deviation
# of 4 · SEEDS numbers and 6 correlations of SEEDS pairs may each be off by SIGMAS of their own
# deviations (4e-8 each), the permutation's 64 counts by one more (1e-9 each, as they are binomial).
# The share of numbers below x is farther than FARTHEST from the normal one with 1e-7, whatever x
# (Massart's form of the Dvoretzky-Kiefer-Wolfowitz inequality).
SEEDS = 1500
SIGMAS = 5.5
FARTHEST = (np.log(2 / 1e-7) / (2 * 4 * SEEDS)) ** 0.5
FEWEST = 1000  # different permutations: 1473 of 8! are expected, with a deviation of 5

Pair = tuple[list[float], list[int]]


@exercise(
    "06.4",
    "Make two generators inside the function, one of torch and one of NumPy, both from the seed.",
    "Functions of torch that draw take generator=...; torch.manual_seed moves the global one.",
    "torch.Generator() has a method manual_seed. NumPy's generator, which np.random.default_rng "
    "makes, has a method for each kind of draw.",
)
def ex06_4(answer: object) -> str:
    """Make a run reproducible."""
    draw = function(answer, "a function of a seed")
    _repeats(draw)
    seeds = random.Random().sample(range(2**31), SEEDS)
    pairs = [_pair(draw(seed)) for seed in seeds]
    numbers, orders = (np.array(part) for part in zip(*pairs, strict=True))
    _all_different(numbers, orders)
    _normal(numbers)
    _independent(numbers)
    _shuffled(orders)
    if any(_pair(draw(seed)) != pair for seed, pair in zip(seeds[:40], pairs, strict=False)):
        raise Wrong("an earlier seed gives another pair later: something is carried along.")
    return "right: it repeats, and nobody else's numbers change."


def _repeats(draw: Callable) -> None:
    """Raise `Wrong` unless the seed alone decides, and no global generator is touched."""
    before = _global_states()
    first, other, again = _pair(draw(1)), _pair(draw(2)), _pair(draw(1))
    touched = [name for name, state in _global_states().items() if state != before[name]]
    if first != again:
        raise Wrong("two calls with the same seed differ: something draws from elsewhere.")
    if first[0] == other[0] or first[1] == other[1]:
        part = "numbers stay" if first[0] == other[0] else "permutation stays"
        raise Wrong(f"with another seed the {part} the same: seed both generators.")
    if touched:
        raise Wrong(f"the global generator of {touched[0]} was touched: make one of your own.")


def _pair(value: object) -> Pair:
    """The two parts as lists, or what is wrong with them."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise Wrong(f"a pair of numbers and a permutation is expected, got {shown(value)}.")
    numbers, order = value
    if isinstance(numbers, np.ndarray) and isinstance(order, torch.Tensor):
        raise Wrong("the numbers come from torch and the permutation from NumPy, in this order.")
    if not isinstance(numbers, torch.Tensor) or numbers.shape != (4,):
        raise Wrong(f"the first part must be a tensor of 4 numbers, got {shown(numbers)}.")
    if isinstance(order, torch.Tensor):
        raise Wrong("the permutation comes from torch: it is to come from NumPy, a second seed.")
    if not isinstance(order, np.ndarray) or sorted(order.ravel().tolist()) != list(range(8)):
        raise Wrong(f"the second part must be a permutation of 0 to 7, got {shown(order)}.")
    if not numbers.is_floating_point() or not numbers.isfinite().all():
        raise Wrong(f"finite real numbers are expected, got {shown(numbers.tolist())}.")
    return numbers.tolist(), order.ravel().tolist()


def _global_states() -> dict[str, object]:
    kind, keys, *rest = np.random.get_state()
    return {
        "torch": torch.get_rng_state().tolist(),
        "NumPy": (kind, keys.tolist(), rest),
        "Python": random.getstate(),
    }


def _all_different(numbers: np.ndarray, orders: np.ndarray) -> None:
    """Raise `Wrong` if many seeds share their numbers, or share their permutation."""
    for part, found, least in (("numbers", numbers, SEEDS), ("permutation", orders, FEWEST)):
        different = len(np.unique(found, axis=0))
        if different < least:
            raise Wrong(
                f"{SEEDS:,} seeds give only {different:,} different results for the {part}: the "
                "whole seed must reach the generator."
            )


def _normal(numbers: np.ndarray) -> None:
    """Raise `Wrong` unless they are standard normal numbers, as far as so many can tell."""
    found = np.sort(numbers.ravel())
    count, mean, deviation = len(found), found.mean(), found.std()
    low, high = found[0], found[-1]
    if low >= -1 and high <= 1:
        ends = "0 and 1" if low >= 0 else "-1 and 1"
        raise Wrong(f"the numbers are all between {ends}: normal ones come from torch.randn.")
    if abs(mean) > SIGMAS * count**-0.5:
        raise Wrong(f"the mean of many numbers is {mean:.2f}: standard normal ones have 0.")
    if abs(deviation - 1) > SIGMAS * (2 * count) ** -0.5:
        raise Wrong(f"their standard deviation is {deviation:.2f}: standard normal ones have 1.")
    if _distance(found) > FARTHEST:
        raise Wrong(
            f"mean and standard deviation are right, but the numbers are not normal: of {count:,} "
            f"the smallest is {low:.2f} and the largest {high:.2f}."
        )


def _distance(found: np.ndarray) -> float:
    """Kolmogorov and Smirnov's: the farthest that the sorted numbers' share is from normal."""
    expected = torch.special.ndtr(torch.from_numpy(found).double()).numpy()
    steps = np.arange(len(found) + 1) / len(found)
    return max((steps[1:] - expected).max(), (expected - steps[:-1]).max())


def _independent(numbers: np.ndarray) -> None:
    """Raise `Wrong` if one of the four numbers says something about another."""
    for i, j in combinations(range(4), 2):
        one, other = numbers[:, i], numbers[:, j]
        if (one == other).all():
            raise Wrong("the four numbers are not four draws: two of them are always equal.")
        if abs(np.corrcoef(one, other)[0, 1]) > SIGMAS * SEEDS**-0.5:
            raise Wrong("the four numbers depend on each other: draw all four, and leave them so.")


def _shuffled(orders: np.ndarray) -> None:
    """Raise `Wrong` unless each of 0 to 7 stands at each position about equally often."""
    usual, deviation = SEEDS / 8, (SEEDS * 7 / 64) ** 0.5
    for position in range(8):
        counts = np.bincount(orders[:, position], minlength=8)
        if abs(counts - usual).max() > (SIGMAS + 1) * deviation:
            often = int(abs(counts - usual).argmax())
            raise Wrong(
                f"{often} stands at position {position} in {counts[often]:,} of {SEEDS:,} "
                "permutations: shuffle all eight."
            )
