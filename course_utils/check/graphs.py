"""Graphs of sums and products that an autograd engine is tried on, drawn anew, beside torch's."""

import random
from dataclasses import dataclass
from math import isclose
from operator import add, mul

import torch

OPERATORS = {"+": add, "*": mul}
NUMBERS = (-1.5, -1.25, -0.75, 0.5, 0.75, 1.25, 1.5)  # a leaf's; two leaves may hold the same
VISITS = 400  # at most, for an engine that follows every path from the result to a leaf
LARGE = 1e4


@dataclass(frozen=True)
class Graph:
    """Numbers at the leaves, and steps: the sign, and which two earlier nodes it takes.

    Nodes are counted from the first leaf on, and each step adds one; the last node is the result.
    """

    leaves: tuple[float, ...]
    steps: tuple[tuple[str, int, int], ...]

    def by_torch(self) -> tuple[float, list[float]]:
        """The result, and its slope for each leaf (0 for one that it does not depend on)."""
        with torch.enable_grad():
            leaves = [_scalar(number) for number in self.leaves]
            nodes = list(leaves)
            for sign, one, other in self.steps:
                nodes.append(OPERATORS[sign](nodes[one], nodes[other]))
            slopes = torch.autograd.grad(nodes[-1], leaves, allow_unused=True)
        return nodes[-1].item(), [0.0 if slope is None else slope.item() for slope in slopes]

    def visits(self) -> int:
        """How many nodes all paths from the result downwards meet, each as often as it is met."""
        met = [1] * len(self.leaves)
        for _, one, other in self.steps:
            met.append(1 + met[one] + met[other])
        return met[-1]


def _scalar(number: float) -> torch.Tensor:
    return torch.tensor(number, dtype=torch.float64, device="cpu", requires_grad=True)


def drawn(operations: int) -> Graph:
    """A random graph in which nodes are used often, and whose numbers are neither huge nor many."""
    while True:
        graph = _draw(random.Random(), operations)
        if graph.visits() > VISITS:
            continue
        result, slopes = graph.by_torch()
        if max(abs(number) for number in (result, *slopes)) < LARGE:
            return graph


def _draw(source: random.Random, operations: int) -> Graph:
    """Each step takes one of the last three nodes, and any node, maybe the same."""
    leaves = tuple(source.choice(NUMBERS) for _ in range(source.randint(2, 5)))
    steps = []
    for nodes in range(len(leaves), len(leaves) + operations):
        one = nodes - source.randint(1, min(3, nodes))
        pair = [one, source.randrange(nodes)]
        source.shuffle(pair)
        steps.append((source.choice("+*"), *pair))
    return Graph(leaves, tuple(steps))


def close(found: float, wanted: float) -> bool:
    """Whether two numbers agree as closely as sums of float64 in another order do."""
    return isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-9)


class Counted(float):
    """A number that counts, in `Counted.products`, how often it or what it gave is multiplied."""

    products = 0

    def __mul__(self, other: float) -> "Counted":
        Counted.products += 1
        return Counted(float(self) * float(other))

    def __add__(self, other: float) -> "Counted":
        return Counted(float(self) + float(other))

    __rmul__, __radd__ = __mul__, __add__
