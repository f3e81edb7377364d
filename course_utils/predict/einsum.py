"""FLOPs of an einsum, as torch writes it ('bd,dk->bk') or as einops does ('b d, d k -> b k')."""

from collections.abc import Iterable, Mapping
from itertools import combinations
from math import prod

from course_utils.arguments import count, text

MOST = 6  # operands: their orders grow as the square of a factorial

Operand = frozenset[str]


def einsum_flops(equation: str, **sizes: int) -> int:
    """FLOPs of an einsum: 2 × the sizes of all its indices, each counted once, for two operands.

    `sizes` gives each index its size, as in einsum_flops("bd,dk->bk", b=2, d=3, k=4). Three
    operands and more are contracted in pairs along the cheapest path; what one operand alone sums
    over is added up first, which is no matmul and counts 0, as in `measure.flops`.

    Raises ValueError for one operand or more than six, an ellipsis, an index without a size, a size
    without an index, a result that is no part of the operands, and an equation that multiplies
    element by element, whose products `measure.flops` does not count either.
    """
    operands, out = _read(text("equation", equation), sizes)
    numbers = {name: count(name, size) for name, size in sizes.items()}
    flops = _cheapest(_alone(operands, out), out, numbers)[1]
    if not flops:
        raise ValueError(
            f"equation must be a matmul or an outer product, got {equation!r}: it multiplies "
            "element by element, which measure.flops counts as 0"
        )
    return flops


def _read(equation: str, sizes: Mapping[str, int]) -> tuple[list[Operand], Operand]:
    """The indices of each operand and of the result."""
    inputs, arrow, result = equation.partition("->")
    parts = [*inputs.split(","), *([result] if arrow else [])]
    if "." in equation:
        raise ValueError(f"equation must name every index instead of '...', got {equation!r}")
    if not 2 <= len(inputs.split(",")) <= MOST:
        raise ValueError(f"equation must have 2 to {MOST} operands, got {equation!r}")
    spelled = [part.split() for part in parts]
    if any(name not in sizes for names in spelled for name in names):  # torch's: letter by letter
        spelled = [list("".join(names)) for names in spelled]
    known = {name for names in spelled for name in names}
    if unknown := sorted(known - set(sizes)):
        raise ValueError(f"sizes must name every index of {equation!r}, {unknown[0]} is missing")
    if unused := sorted(set(sizes) - known):
        raise ValueError(f"sizes must be of indices in {equation!r}, {unused[0]} is none")
    inside = spelled[:-1] if arrow else spelled
    operands = [frozenset(names) for names in inside]
    every = [name for names in inside for name in names]
    out = frozenset(spelled[-1] if arrow else (n for n in every if every.count(n) == 1))
    if strange := sorted(out - set(every)):
        raise ValueError(f"equation must take its result from operands, {strange[0]} is in none")
    return operands, out


def _alone(operands: Iterable[Operand], out: Operand) -> list[Operand]:
    """Each operand without the indices that are in it only: it can be summed over them first."""
    operands = list(operands)
    return [
        names & out.union(*operands[:at], *operands[at + 1 :]) for at, names in enumerate(operands)
    ]


def _cheapest(operands: list[Operand], out: Operand, sizes: Mapping[str, int]) -> tuple[int, int]:
    """Multiplications and additions of the cheapest order of pairs, and its FLOPs in matmuls."""
    if len(operands) == 1:
        return 0, 0
    found = []
    for a, b in combinations(range(len(operands)), 2):
        rest = [names for at, names in enumerate(operands) if at not in (a, b)]
        left, right = operands[a], operands[b]
        made = (left | right) & out.union(*rest)
        products = prod(sizes[name] for name in left | right)
        summed, outer = (left & right) - made, made - left and made - right
        work, flops = (2 * products, 2 * products) if summed or outer else (products, 0)
        later = _cheapest(_alone([*rest, made], out), out, sizes)
        found.append((work + later[0], flops + later[1]))
    return min(found)
