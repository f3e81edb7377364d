"""What a decoder-only transformer costs: parameters, FLOPs, activations, the KV cache.

Parameters, FLOPs and activations are exact for `train.transformer`. Other code for
the same configuration has the same parameters and matmul FLOPs, but may keep other activations.
"""

from dataclasses import dataclass

from course_utils.arguments import choice, count
from course_utils.predict.configs import TransformerConfig, checked
from course_utils.predict.optimizers import FP32

INDEX = 8  # bytes of a token id in int64


@dataclass(frozen=True)
class StepFlops:
    """FLOPs of one training step; `attention` is the part of its matmuls between tokens."""

    forward: int
    backward: int
    attention: int

    @property
    def total(self) -> int:
        """FLOPs forward and backward."""
        return self.forward + self.backward


def transformer_parameters(config: TransformerConfig) -> dict[str, int]:
    """Parameters by part. A tied output layer is the embedding and counts once."""
    d, h, L = checked(config).width, config.hidden, config.layers
    q, kv = config.q_width, config.kv_width
    gpt = config.style == "gpt"
    bias = 1 if gpt else 0
    norm = 2 * d if gpt else d
    return {
        "embedding": config.vocabulary * d,
        "positions": config.context * d if gpt else 0,
        "attention": L * (2 * d * q + 2 * d * kv + bias * (q + 2 * kv + d)),
        "feed-forward": L * ((2 if gpt else 3) * d * h + bias * (d + h)),
        "norms": (2 * L + 1) * norm,
        "head": 0 if config.tied else config.vocabulary * d,
    }


def transformer_products(config: TransformerConfig) -> int:
    """Parameters that enter a matmul for each token: the layers' matrices and the output layer."""
    d, h = checked(config).width, config.hidden
    layer = 2 * d * (config.q_width + config.kv_width) + (2 if config.style == "gpt" else 3) * d * h
    return config.layers * layer + config.vocabulary * d


def transformer_flops(
    config: TransformerConfig,
    batch: int,
    tokens: int,
    *,
    causal: bool = False,
    flash: bool = False,
    recompute: bool = False,
    early_stop: bool = True,
) -> StepFlops:
    """FLOPs of a training step on `batch` sequences of `tokens` tokens each.

    Matmuls with parameters take, per parameter and token, 2 FLOPs forward and 4 backward. Attention
    multiplies tokens with tokens: 4 · tokens · width FLOPs per token and layer forward, counted in
    full (`causal` counts the half that the mask leaves). Its backward pass takes twice that, or 2.5
    times where the kernel recomputes (`flash`). `recompute` runs each layer's forward pass once
    more in the backward pass (activation checkpointing), all but its last matmul: torch's
    checkpoint stops as soon as it has what it needs, unless `early_stop` is False or it is the
    older, reentrant one.
    """
    tokens = fitting(config, tokens)
    rows = count("batch", batch) * tokens
    weights = 2 * rows * transformer_products(config)
    among = 4 * rows * tokens * config.q_width * config.layers
    among = among // 2 if choice("causal", causal) else among
    backward_among = among * 5 // 2 if choice("flash", flash) else 2 * among
    again = weights - 2 * rows * config.vocabulary * config.width + among
    if choice("early_stop", early_stop):
        again -= config.layers * 2 * rows * config.hidden * config.width
    again = again if choice("recompute", recompute) else 0
    return StepFlops(weights + among, 2 * weights + backward_among + again, among + backward_among)


def kv_cache(config: TransformerConfig, batch: int, tokens: int, *, element: int = 2) -> int:
    """Bytes of the keys and values of `batch` × `tokens` tokens, `element` bytes per number."""
    layers = checked(config).layers
    numbers = 2 * layers * config.kv_width * count("batch", batch) * count("tokens", tokens)
    return numbers * count("element", element)


def activations(config: TransformerConfig, batch: int, tokens: int) -> int:
    """Bytes that autograd keeps at the end of the forward pass.

    Per token and layer: the inputs of the norms, of the matmuls and of attention, attention's
    result and the logarithm of its sums, and what lies inside the feed-forward layer. Once: the
    last norm, the log of the probabilities, the token ids, and the positions (their indices, or
    the cosines and sines of the rotary embedding).
    """
    tokens = fitting(config, tokens)
    rows = count("batch", batch) * tokens
    d, h, H = config.width, config.hidden, config.heads
    attended = 2 * config.q_width + 2 * config.kv_width + H
    if config.style == "gpt":
        layer, last, positions = 4 * d + attended + 2 * h + 4, 2 * d + 2, INDEX * tokens
    else:
        layer, last = 6 * d + attended + 4 * h + 2, 3 * d + 1
        positions = FP32 * 2 * tokens * config.head_width  # cosines and sines
    numbers = rows * (config.layers * layer + last + config.vocabulary)
    return FP32 * (numbers + 1) + INDEX * 2 * rows + positions


def fitting(config: TransformerConfig, tokens: int) -> int:
    """Return `tokens` as an int if the context holds so many; else an error."""
    tokens = count("tokens", tokens)
    if tokens > checked(config).context:
        raise ValueError(f"tokens must fit the context of {config.context}, got {tokens}")
    return tokens
