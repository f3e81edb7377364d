"""Exercises whose answer is a size: the learner predicts a time, and the clock judges."""

from collections.abc import Callable

import torch

from course_utils import hardware, measure, units
from course_utils.check.exercise import Unsure, Wrong, finite

LONGEST = 0.5  # seconds; what would take longer is not run

Timing = Callable[[int, int, float], measure.Time]


def takes(
    answer: object,
    seconds: float,
    timing: Timing,
    *,
    nbytes: Callable[[int], float],
    grows: int,
    piece: Callable[[int], int],
    within: float,
    share: float = 0.25,
) -> str:
    """Accept a size n whose work takes `seconds` here; returns the words about its time.

    `timing(n, part, budget)` times `part` of the n parts of the work; `piece(n)` is a part small
    enough to foretell the whole by. `nbytes(n)` is the memory that it needs, of which it may have
    a `share` of this machine's, and the time grows as n to the power `grows`; it may miss `seconds`
    by a factor of `within`. Raises `Wrong` for another size, and `Unsure` for a doubtful timing.
    """
    n = _size(answer)
    _refuse_the_large(n, timing, nbytes(n), share, min(n, max(1, piece(n))))
    took = timing(n, n, 0.5)
    words = f"n = {n:,} took {units.duration(took.value, significant=3)}"
    if took.doubt:
        raise Unsure(f"{words}, and {took.doubt}")
    off = took.value / seconds
    if not 1 / within <= off <= within:
        way = f"{units.ratio(max(off, 1 / off))} too {'long' if off > 1 else 'short'}"
        power = "in proportion to n" if grows == 1 else f"as n to the power {grows}"
        raise Wrong(f"{words}, which is {way}. Mind that the time grows {power}.")
    return f"{words}. You predicted a time, and the clock agrees."


def _size(answer: object) -> int:
    n = finite(answer)
    if n != int(n) or n < 2:
        raise Wrong(f"n is a whole number from 2 on, got {units.digits(n)}.")
    return int(n)


def _refuse_the_large(n: int, timing: Timing, needed: float, share: float, part: int) -> None:
    """Raise `Wrong` for work that does not fit or would take long, as a part of it foretells."""
    if needed > share * hardware.machine().memory:
        raise Wrong(f"too large to try: it needs {units.size(needed)}.")
    foretold = timing(n, part, 0.05).value * n / part
    if foretold > LONGEST:
        seconds = units.duration(foretold, significant=2)
        raise Wrong(f"too large to try: a part of it foretells {seconds}.")


def matmul_takes(answer: object, seconds: float) -> str:
    """`takes`, for n in an n × n fp32 matmul where this machine computes best."""
    return takes(
        answer,
        seconds,
        matmul_time,
        nbytes=lambda n: 3 * 4 * n * n,
        grows=3,
        piece=lambda n: 10**9 // (2 * n * n),
        within=1.6,
    )


def matmul_time(n: int, rows: int, budget: float) -> measure.Time:
    """Of `rows` rows times an n × n matrix."""
    x = torch.randn(rows, n, device=hardware.backend())
    w = torch.randn(n, n, device=hardware.backend())
    return measure.time(lambda: x @ w, budget=budget)


def copy_takes(answer: object, seconds: float, dtype: torch.dtype) -> str:
    """`takes`, for n fp32 numbers that are copied, and cast, into existing memory of `dtype`."""
    return takes(
        answer,
        seconds,
        lambda n, part, budget: copy_time(part, dtype, budget),
        nbytes=lambda n: (4 + dtype.itemsize) * n,
        grows=1,
        piece=lambda _: 10**6,
        within=2.0,
    )


def copy_time(count: int, dtype: torch.dtype, budget: float) -> measure.Time:
    """Of `count` fp32 numbers into memory of `dtype` that exists already."""
    source = torch.ones(count, device=hardware.backend())
    target = torch.zeros_like(source, dtype=dtype)
    return measure.time(lambda: target.copy_(source), budget=budget)
