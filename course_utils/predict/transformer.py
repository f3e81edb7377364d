"""What a decoder-only transformer costs: parameters, FLOPs, memory of a step, the KV cache.

Parameters, FLOPs and the bytes of each category are exact for `train.transformer`. Other code for
the same configuration has the same parameters and matmul FLOPs, but may keep other activations.
"""

from dataclasses import dataclass

from course_utils.arguments import choice, count, one_of
from course_utils.predict.configs import TransformerConfig
from course_utils.predict.optimizers import (
    COUNTS_STEPS,
    FORMS,
    FP32,
    OPTIMIZER_STATE,
    StepMemory,
)

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
    d, h, kv, L = config.width, config.hidden, config.kv_width, config.layers
    gpt = config.style == "gpt"
    bias = 1 if gpt else 0
    norm = 2 * d if gpt else d
    return {
        "embedding": config.vocabulary * d,
        "positions": config.context * d if gpt else 0,
        "attention": L * (2 * d * d + 2 * d * kv + bias * (2 * d + 2 * kv)),
        "feed-forward": L * ((2 if gpt else 3) * d * h + bias * (d + h)),
        "norms": (2 * L + 1) * norm,
        "head": 0 if config.tied else config.vocabulary * d,
    }


def transformer_products(config: TransformerConfig) -> int:
    """Parameters that enter a matmul for each token: the layers' matrices and the output layer."""
    d, h = config.width, config.hidden
    layer = 2 * d * d + 2 * d * config.kv_width + (2 if config.style == "gpt" else 3) * d * h
    return config.layers * layer + config.vocabulary * d


def transformer_flops(
    config: TransformerConfig,
    batch: int,
    tokens: int,
    *,
    causal: bool = False,
    flash: bool = False,
    recompute: bool = False,
) -> StepFlops:
    """FLOPs of a training step on `batch` sequences of `tokens` tokens each.

    Matmuls with parameters take, per parameter and token, 2 FLOPs forward and 4 backward. Attention
    multiplies tokens with tokens: 4 · tokens · width FLOPs per token and layer forward, counted in
    full (`causal` counts the half that the mask leaves). Its backward pass takes twice that, or 2.5
    times where the kernel recomputes (`flash`). `recompute` runs the layers' forward pass once more
    in the backward pass (activation checkpointing).
    """
    rows = count("batch", batch) * _fitting(config, tokens)
    weights = 2 * rows * transformer_products(config)
    among = 4 * rows * tokens * config.width * config.layers
    among = among // 2 if choice("causal", causal) else among
    backward_among = among * 5 // 2 if choice("flash", flash) else 2 * among
    again = weights - 2 * rows * config.vocabulary * config.width + among
    again = again if choice("recompute", recompute) else 0
    return StepFlops(weights + among, 2 * weights + backward_among + again, among + backward_among)


def kv_cache(config: TransformerConfig, batch: int, tokens: int, *, element: int = 2) -> int:
    """Bytes of the keys and values of `batch` × `tokens` tokens, `element` bytes per number."""
    numbers = 2 * config.layers * config.kv_width * count("batch", batch) * count("tokens", tokens)
    return numbers * count("element", element)


def transformer_memory(
    config: TransformerConfig,
    batch: int,
    tokens: int,
    *,
    optimizer: str = "AdamW",
    form: str = "fused",
) -> StepMemory:
    """Bytes of a training step of `train.transformer` in fp32, from the second step on.

    The categories are exact, with the processor's flash attention. The moments are the two ends of
    the backward pass and the optimizer's step; a moment in between may hold more, by less than what
    a layer keeps. `optimizer` is 'Adam' or 'AdamW'.
    """
    sizes = _sizes(config)
    P = sum(sizes)
    state = OPTIMIZER_STATE[one_of("optimizer", optimizer, ("Adam", "AdamW"))] * P
    steps = len(sizes) if optimizer in COUNTS_STEPS else 0
    rows = count("batch", batch) * _fitting(config, tokens)
    kept = activations(config, batch, tokens)
    static, ids = FP32 * (P + state + steps), INDEX * 2 * rows
    table, scores = config.vocabulary * config.width, FP32 * rows * config.vocabulary
    last = 2 * table if config.tied else rows * config.width  # a tied gradient is a sum of two
    moments = {
        "backward, loss": static + kept + 2 * scores + FP32,
        "backward, last layer": static + kept - scores + FP32 * _last_layer(config, rows),
        "backward, embedding": static + FP32 * (P + last + 2) + ids,
        "optimizer": static + FP32 * (P + 1 + _scratch(sizes, form)) + ids,
    }
    return StepMemory(FP32 * P, FP32 * P, FP32 * (state + steps), kept, moments)


def activations(config: TransformerConfig, batch: int, tokens: int) -> int:
    """Bytes that autograd keeps at the end of the forward pass.

    Per token and layer: the inputs of the norms, of the matmuls and of attention, attention's
    result and the logarithm of its sums, and what lies inside the feed-forward layer. Once: the
    last norm, the log of the probabilities, the token ids, and the positions (their indices, or
    the cosines and sines of the rotary embedding).
    """
    rows = count("batch", batch) * _fitting(config, tokens)
    d, h, kv, H = config.width, config.hidden, config.kv_width, config.heads
    if config.style == "gpt":
        layer, last, positions = 6 * d + 2 * kv + 2 * h + H + 4, 2 * d + 2, INDEX * tokens
    else:
        layer, last = 8 * d + 2 * kv + 4 * h + H + 2, 3 * d + 1
        positions = FP32 * 2 * tokens * config.head_width  # cosines and sines
    numbers = rows * (config.layers * layer + last + config.vocabulary)
    return FP32 * (numbers + 1) + INDEX * 2 * rows + positions


def _last_layer(config: TransformerConfig, rows: int) -> int:
    """Numbers that the last layer's backward pass adds, less those it has released."""
    d, h = config.width, config.hidden
    head = (config.vocabulary + h + 1) * d
    return head + rows * (h - d)


def _sizes(config: TransformerConfig) -> list[int]:
    """Numbers in each parameter tensor, in the order of the modules."""
    d, h, kv, table = config.width, config.hidden, config.kv_width, config.vocabulary * config.width
    end = [] if config.tied else [table]
    if config.style == "gpt":
        layer = [d, d, d, d, d * (d + 2 * kv), d + 2 * kv, d * d, d, d * h, h, h * d, d]
        return [table, config.context * d, *layer * config.layers, d, d, *end]
    layer = [d, d, d * d, d * d, d * kv, d * kv, d * h, d * h, h * d]
    return [table, *layer * config.layers, d, *end]


def _scratch(sizes: list[int], form: str) -> int:
    """Numbers in the temporary tensors of Adam's step, at their most: see `deep_linear`."""
    one_of("form", form, FORMS)
    if form == "for-loop":
        return max(2 * size + before for before, size in zip([0, *sizes], sizes, strict=False))
    return sum(sizes) if form == "foreach" else 0


def _fitting(config: TransformerConfig, tokens: int) -> int:
    if count("tokens", tokens) > config.context:
        raise ValueError(f"tokens must fit the context of {config.context}, got {tokens}")
    return tokens
