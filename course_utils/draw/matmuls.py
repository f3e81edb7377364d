"""The matmuls of linear layers, forward and backward: names, sizes and FLOPs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

Shapes = dict[str, tuple[int, int]]


@dataclass(frozen=True)
class Matmul:
    """`result` = `left` · `right`, of `sizes` rows, what is summed over, and columns."""

    result: str
    left: str
    right: str
    sizes: tuple[int, int, int]

    @property
    def flops(self) -> int:
        """2 for each multiply-add, as `predict.matmul_flops` counts."""
        rows, inner, columns = self.sizes
        return 2 * rows * inner * columns

    @property
    def formula(self) -> str:
        """'2·64·32·16'."""
        return "·".join(map(str, (2, *self.sizes)))

    @property
    def arriving(self) -> str:
        """The factor that is a gradient."""
        return self.left if self.left.endswith(".grad") else self.right

    def __str__(self) -> str:
        made = f"{self.result} = {self.left} · {self.right}"
        return f"{made}: {self.formula} = {self.flops:,} FLOPs"


def forward(rows: int, widths: Sequence[int]) -> Iterator[Matmul]:
    """The result of each layer, from the first to the last."""
    for layer, (before, after) in enumerate(pairwise(widths), 1):
        yield Matmul(f"h{layer}", _input(layer), f"w{layer}", (rows, before, after))


def backward(rows: int, widths: Sequence[int]) -> Iterator[Matmul]:
    """From the last layer to the first: the weight's gradient, then the input's."""
    for layer, (before, after) in reversed(list(enumerate(pairwise(widths), 1))):
        name, arriving = _input(layer), f"h{layer}.grad"
        yield Matmul(f"w{layer}.grad", f"{name}ᵀ", arriving, (before, rows, after))
        if layer > 1:
            yield Matmul(f"{name}.grad", arriving, f"w{layer}ᵀ", (rows, after, before))


def _input(layer: int) -> str:
    return f"h{layer - 1}" if layer > 1 else "x"


def tensors(rows: int, widths: Sequence[int]) -> Shapes:
    """Name → shape, from left to right."""
    shapes = {"x": (rows, widths[0])}
    for layer, (before, after) in enumerate(pairwise(widths), 1):
        shapes |= {f"w{layer}": (before, after), f"h{layer}": (rows, after)}
    return shapes
