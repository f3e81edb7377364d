"""Two small transformers, written to be read: GPT-2's kind and Llama's.

Both read token numbers of shape (B, T) and return logits of shape (B, T, vocabulary).
"""

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from course_utils.predict.configs import TransformerConfig


def transformer(config: TransformerConfig) -> nn.Module:
    """The model of `config`; weights have a standard deviation of 1/√inputs, biases are 0."""
    return GPT(config) if config.style == "gpt" else Llama(config)


class GPT(nn.Module):
    """Learned embeddings of tokens and of positions, blocks, a norm, the output layer.

    With tied weights the output layer is the token embedding.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        self.blocks = nn.ModuleList(GPTBlock(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        if config.tied:
            self.head.weight = self.tokens.weight
        self.apply(_scaled_weights)

    def forward(self, ids: Int64[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """The logits of the next token at every position."""
        positions = torch.arange(_fitting(self, ids), device=ids.device)
        x = self.tokens(ids) + self.positions(positions)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class GPTBlock(nn.Module):
    """x + attention(norm(x)), then x + feed-forward(norm(x))."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        d, q, kv = config.width, config.q_width, config.kv_width
        self.config = config
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv = nn.Linear(d, q + 2 * kv)
        self.out = nn.Linear(q, d)
        self.up, self.down = nn.Linear(d, config.hidden), nn.Linear(config.hidden, d)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """`x` plus what attention adds between positions, and the feed-forward layer at each."""
        widths = (self.config.q_width, self.config.kv_width, self.config.kv_width)
        x = x + self.out(attention(*self.qkv(self.norm1(x)).split(widths, -1), self.config))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Llama(nn.Module):
    """Token embedding, blocks, a norm, the output layer.

    Positions enter as a rotary embedding: each block rotates its queries and keys.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.blocks = nn.ModuleList(LlamaBlock(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        if config.tied:
            self.head.weight = self.tokens.weight
        self.apply(_scaled_weights)

    def forward(self, ids: Int64[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """The logits of the next token at every position."""
        rotary = rotary_embedding(_fitting(self, ids), self.config.head_width, ids.device)
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x, rotary)
        return self.head(self.norm(x))


class LlamaBlock(nn.Module):
    """x + attention(norm(x)), then x + down(silu(gate) · up) of norm(x); no biases."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        d, q, kv, h = config.width, config.q_width, config.kv_width, config.hidden
        self.config = config
        self.norm1, self.norm2 = nn.RMSNorm(d), nn.RMSNorm(d)
        self.q, self.out = nn.Linear(d, q, bias=False), nn.Linear(q, d, bias=False)
        self.k, self.v = (nn.Linear(d, kv, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(d, h, bias=False) for _ in range(2))
        self.down = nn.Linear(h, d, bias=False)

    def forward(
        self, x: Float[Tensor, "B T D"], rotary: tuple[Tensor, Tensor]
    ) -> Float[Tensor, "B T D"]:
        """`x` plus what attention adds between positions, and the feed-forward layer at each."""
        a = self.norm1(x)
        x = x + self.out(attention(self.q(a), self.k(a), self.v(a), self.config, rotary))
        b = self.norm2(x)
        return x + self.down(F.silu(self.gate(b)) * self.up(b))


def attention(
    q: Float[Tensor, "B T Q"],
    k: Float[Tensor, "B T KV"],
    v: Float[Tensor, "B T KV"],
    config: TransformerConfig,
    rotary: tuple[Tensor, Tensor] | None = None,
) -> Float[Tensor, "B T Q"]:
    """Causal attention: each position averages the values at positions up to its own.

    With fewer KV heads than heads, a group of heads shares each of them (grouped-query attention).
    `rotary` holds the cosines and sines of `rotary_embedding`, applied to queries and keys.
    """
    q, k, v = (t.unflatten(-1, (-1, config.head_width)).transpose(1, 2) for t in (q, k, v))
    if rotary is not None:
        q, k = apply_rotary(q, *rotary), apply_rotary(k, *rotary)
    grouped = config.kv_heads < config.heads
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
    return mixed.transpose(1, 2).flatten(-2)


def rotary_embedding(
    tokens: int, width: int, device: torch.device, base: float = 500_000.0
) -> tuple[Float[Tensor, "T W"], Float[Tensor, "T W"]]:
    """Cosines and sines of the angles by which each position rotates each pair of numbers.

    Pair i of a head of `width` numbers rotates by position × base^(−2i / width).
    Source: Su et al. 2021, RoFormer; the base is Llama 3's.
    """
    frequencies = base ** (-torch.arange(0, width, 2, device=device) / width)
    angles = torch.arange(tokens, device=device)[:, None] * frequencies.repeat(2)
    return angles.cos(), angles.sin()


def apply_rotary(
    x: Float[Tensor, "B H T W"], cos: Float[Tensor, "T W"], sin: Float[Tensor, "T W"]
) -> Float[Tensor, "B H T W"]:
    """`x` with each pair of a head's numbers, one of each half, rotated by its angle."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def sample(
    model: nn.Module, ids: Int64[Tensor, "1 T"], tokens: int, generator: torch.Generator
) -> Int64[Tensor, "1 N"]:
    """`ids` and `tokens` more, each drawn from the model's probabilities given those before it.

    The model sees the last `context` tokens at most.
    """
    with torch.no_grad():
        for _ in range(tokens):
            logits = model(ids[:, -model.config.context :])[:, -1]
            drawn = torch.multinomial(logits.softmax(-1), 1, generator=generator)
            ids = torch.cat((ids, drawn), dim=1)
    return ids


def _fitting(model: nn.Module, ids: Tensor) -> int:
    """The number of positions in `ids`; ValueError if the context does not hold them."""
    if not 0 < ids.shape[1] <= model.config.context:
        raise ValueError(
            f"ids must have 1 to {model.config.context} tokens, the context, got {ids.shape[1]}"
        )
    return ids.shape[1]


def _scaled_weights(module: nn.Module) -> None:
    """LeCun's scale: 1/√inputs for linear layers, 1/√width for embeddings (chapter 06)."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=module.weight.shape[1] ** -0.5)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
