"""Two small transformers, written to be read: GPT-2's kind and Llama's.

Both read token numbers of shape (B, T) and return logits of shape (B, T, vocabulary). With a KV
cache they read only the tokens that it does not hold yet: a whole prompt first, then one at a time.
"""

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from course_utils.predict.configs import TransformerConfig
from course_utils.train.kv_cache import KVCache, LayerCache


def transformer(config: TransformerConfig, *, checkpointing: bool = False) -> nn.Module:
    """The model of `config`; weights have a standard deviation of 1/√inputs, biases are 0.

    With `checkpointing`, autograd keeps each block's input alone, and the backward pass runs the
    block's whole forward pass once more.
    """
    model = GPT(config) if config.style == "gpt" else Llama(config)
    model.checkpointing = checkpointing
    return model


class GPT(nn.Module):
    """Learned embeddings of tokens and of positions, blocks, a norm, the output layer.

    With tied weights the output layer is the token embedding.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config, self.checkpointing = config, False
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        self.blocks = nn.ModuleList(GPTBlock(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        if config.tied:
            self.head.weight = self.tokens.weight
        self.apply(_scaled_weights)

    def forward(
        self, ids: Int64[Tensor, "B T"], cache: KVCache | None = None
    ) -> Float[Tensor, "B T V"]:
        """The logits of the next token at every position; `ids` follow those in the `cache`."""
        positions = torch.arange(*_positions(self, ids, cache), device=ids.device)
        x = self.tokens(ids) + self.positions(positions)
        for block, kept in zip(self.blocks, _layers(self, cache), strict=True):
            x = _run(self, block, x, kept)
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

    def forward(
        self, x: Float[Tensor, "B T D"], cache: LayerCache | None = None
    ) -> Float[Tensor, "B T D"]:
        """`x` plus what attention adds between positions, and the feed-forward layer at each."""
        widths = (self.config.q_width, self.config.kv_width, self.config.kv_width)
        q_k_v = self.qkv(self.norm1(x)).split(widths, -1)
        x = x + self.out(attention(*q_k_v, self.config, cache=cache))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Llama(nn.Module):
    """Token embedding, blocks, a norm, the output layer.

    Positions enter as a rotary embedding: each block rotates its queries and keys.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config, self.checkpointing = config, False
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.blocks = nn.ModuleList(LlamaBlock(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        if config.tied:
            self.head.weight = self.tokens.weight
        self.apply(_scaled_weights)

    def forward(
        self, ids: Int64[Tensor, "B T"], cache: KVCache | None = None
    ) -> Float[Tensor, "B T V"]:
        """The logits of the next token at every position; `ids` follow those in the `cache`."""
        first, end = _positions(self, ids, cache)
        rotary = rotary_embedding(end - first, self.config.head_width, ids.device, first=first)
        x = self.tokens(ids)
        rotary = tuple(table.to(x.dtype) for table in rotary)
        for block, kept in zip(self.blocks, _layers(self, cache), strict=True):
            x = _run(self, block, x, rotary, kept)
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
        self,
        x: Float[Tensor, "B T D"],
        rotary: tuple[Tensor, Tensor],
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "B T D"]:
        """`x` plus what attention adds between positions, and the feed-forward layer at each."""
        a = self.norm1(x)
        x = x + self.out(attention(self.q(a), self.k(a), self.v(a), self.config, rotary, cache))
        b = self.norm2(x)
        return x + self.down(F.silu(self.gate(b)) * self.up(b))


def attention(
    q: Float[Tensor, "B T Q"],
    k: Float[Tensor, "B T KV"],
    v: Float[Tensor, "B T KV"],
    config: TransformerConfig,
    rotary: tuple[Tensor, Tensor] | None = None,
    cache: LayerCache | None = None,
) -> Float[Tensor, "B T Q"]:
    """Causal attention: each position averages the values at positions up to its own.

    With fewer KV heads than heads, a group of heads shares each of them (grouped-query attention).
    `rotary` holds the cosines and sines of `rotary_embedding`, applied to queries and keys. The
    keys and values of a `cache` come before the new ones, which it keeps.
    """
    q, k, v = (t.unflatten(-1, (-1, config.head_width)).transpose(1, 2) for t in (q, k, v))
    if rotary is not None:
        q, k = apply_rotary(q, *rotary), apply_rotary(k, *rotary)
    if cache is not None:
        k, v = cache.extended(k, v)
    grouped = config.kv_heads < config.heads
    causal = q.shape[2] == k.shape[2]  # otherwise a single query, which may look at all keys
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)
    return mixed.transpose(1, 2).flatten(-2)


def rotary_embedding(
    tokens: int, width: int, device: torch.device, base: float = 500_000.0, first: int = 0
) -> tuple[Float[Tensor, "T W"], Float[Tensor, "T W"]]:
    """Cosines and sines of the angles by which each position rotates each pair of numbers.

    Pair i of a head of `width` numbers rotates by position × base^(−2i / width); positions count
    from `first`.
    Source: Su et al. 2021, RoFormer; the base is Llama 3's.
    """
    frequencies = base ** (-torch.arange(0, width, 2, device=device) / width)
    angles = torch.arange(first, first + tokens, device=device)[:, None] * frequencies.repeat(2)
    return angles.cos(), angles.sin()


def apply_rotary(
    x: Float[Tensor, "B H T W"], cos: Float[Tensor, "T W"], sin: Float[Tensor, "T W"]
) -> Float[Tensor, "B H T W"]:
    """`x` with each pair of a head's numbers, one of each half, rotated by its angle."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def sample(
    model: nn.Module,
    ids: Int64[Tensor, "B T"],
    tokens: int,
    generator: torch.Generator,
    cache: KVCache | None = None,
) -> Int64[Tensor, "B N"]:
    """`ids` and `tokens` more, each drawn from the model's probabilities given those before it.

    The model sees the last `context` tokens at most. A `cache`, a new one or that of the call that
    made `ids`, changes no probability: with it the model reads `ids` once and then one token at a
    time. Beyond the context it saves nothing: the window slides, each token's position changes and
    with it its key, so that every further token reads its whole window again.
    """
    with torch.no_grad():
        for _ in range(tokens):
            logits = model(_unread(ids, model.config.context, cache), cache)[:, -1]
            drawn = torch.multinomial(logits.softmax(-1), 1, generator=generator)
            ids = torch.cat((ids, drawn), dim=1)
    return ids


def _unread(ids: Tensor, context: int, cache: KVCache | None) -> Tensor:
    """The last `context` tokens of `ids`, without those that the cache holds."""
    window = ids[:, -context:]
    if cache is None:
        return window
    if ids.shape[1] > context:
        cache.clear()
    return window[:, cache.tokens :]


def _run(model: nn.Module, block: nn.Module, *inputs: object) -> Tensor:
    """What `block` makes of `inputs`, recomputed in the backward pass if the model says so."""
    if model.checkpointing:
        return checkpoint(block, *inputs, use_reentrant=False, early_stop=False)
    return block(*inputs)


def _layers(model: nn.Module, cache: KVCache | None) -> list[LayerCache | None]:
    return [None] * len(model.blocks) if cache is None else cache.layers


def _positions(model: nn.Module, ids: Tensor, cache: KVCache | None) -> tuple[int, int]:
    """The first position of `ids`, behind the cache, and the end; ValueError if they do not fit."""
    held, new = 0 if cache is None else cache.tokens, ids.shape[1]
    room = 1 if held else model.config.context
    if not 0 < new <= room or held + new > model.config.context:
        behind = f" and one at a time behind the {held} of the cache" if held else ""
        raise ValueError(
            f"ids must have 1 to {model.config.context} tokens, the context{behind}, got {new}"
        )
    return held, held + new


def _scaled_weights(module: nn.Module) -> None:
    """LeCun's scale: 1/√inputs for linear layers, 1/√width for embeddings (chapter 06)."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=module.weight.shape[1] ** -0.5)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
