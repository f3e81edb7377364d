"""The small models that the course takes apart: plain layers, every parameter in sight."""

from itertools import pairwise

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from course_utils.arguments import count, shape


class Linear(nn.Module):
    """y = x @ weight, without bias; `weight` has the shape (in, out).

    It is drawn with a standard deviation of 1/√in, so that the outputs are as large as the inputs.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        inputs, outputs = count("inputs", inputs), count("outputs", outputs)
        self.weight = nn.Parameter(torch.randn(inputs, outputs) / inputs**0.5)

    def forward(self, x: Float[Tensor, "... inputs"]) -> Float[Tensor, "... outputs"]:
        """One matmul: each row of `x` times the weight."""
        return x @ self.weight


class DeepLinear(nn.Module):
    """`depth` layers D → D and a head D → 1: D·D·depth + D parameters.

    Without activation functions it computes a linear function of x, in matmuls alone, so that
    every FLOP and every byte can be counted by hand.
    """

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        width, depth = count("width", width), count("depth", depth, at_least=0)
        self.layers = nn.ModuleList(Linear(width, width) for _ in range(depth))
        self.head = Linear(width, 1)

    def forward(self, x: Float[Tensor, "B D"]) -> Float[Tensor, "B"]:
        """One number per row of `x`."""
        for layer in self.layers:
            x = layer(x)
        return self.head(x).squeeze(-1)


class MLP(nn.Sequential):
    """Layers with biases from each of `sizes` to the next, a ReLU between two of them."""

    def __init__(self, *sizes: int) -> None:
        if len(shape("sizes", sizes)) < 2:
            raise ValueError(f"sizes must name at least an input and an output, got {sizes}")
        pairs = [nn.Linear(count("size", a), count("size", b)) for a, b in pairwise(sizes)]
        layers = [step for pair in pairs for step in (pair, nn.ReLU())]
        super().__init__(*layers[:-1])


class Bigram(nn.Sequential):
    """Predicts the next byte from this one alone: embedding 256 → `width`, dropout, 256 logits.

    The smallest language model: inputs of shape (B, T), logits of shape (B, T, 256).
    """

    def __init__(self, width: int = 32, dropout: float = 0.1) -> None:
        width = count("width", width)
        super().__init__(nn.Embedding(256, width), nn.Dropout(dropout), nn.Linear(width, 256))


def next_token_loss(scores: Float[Tensor, "B T V"], targets: Int64[Tensor, "B T"]) -> Tensor:
    """The mean cross-entropy of the logits in `scores`, in nats per token."""
    return nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten())
