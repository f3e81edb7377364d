"""Checks of chapter 10: accounting for a transformer."""

from course_utils import predict
from course_utils.check.exercise import exercise, number


@exercise(
    "10.1",
    "A layer has 12·d² weights in products; biases and norms add 13·d.",
    "Embedding V·d, places T·d, and the last norm 2·d. The output layer is the embedding.",
    "96 · (12·d² + 13·d) + (50 257 + 2048 + 2)·d, with d = 12 288.",
)
def ex10_1(answer: object) -> str:
    """Parameters of GPT-3."""
    parts = predict.transformer_parameters(predict.preset("GPT-3"))
    right, d = sum(parts.values()), 12288
    number(
        answer,
        right,
        within=1e-3,
        unit="parameters",
        exact_mistakes=True,
        mistakes=[
            (175e9, "that is the published figure, rounded: count it from the shape."),
            (12 * d * d, "that is one layer: there are 96, and the embeddings."),
            (96 * 12 * d * d, "the embeddings are missing."),
            (right + parts["embedding"], "the output layer is tied: the embedding counts once."),
            (right / 96, "that is a single layer's share: there are 96."),
            (right - 96 * 8 * d * d, "the feed-forward part is missing: 8·d² a layer."),
            (right - 96 * 4 * d * d, "attention's four products are missing: 4·d² a layer."),
            (4 * right, "parameters are asked for, not bytes."),
        ],
    )
    return "right, and a quarter of a percent below the published 175 billion."


@exercise(
    "10.2",
    "Half means: attention takes as much as the products.",
    "Solve 12 · S · 8192 · 80 = 6 · 69.5e9 for S.",
    "S = 69.5e9 / (2 · 8192 · 80).",
)
def ex10_2(answer: object) -> str:
    """Attention's share and the sequence length."""
    right = 69.5e9 / (2 * 8192 * 80)
    number(
        answer,
        right,
        within=0.01,
        unit="tokens",
        mistakes=[
            (right * 3, "matmuls take 6 per parameter, with backward: compare like with like."),
            (right / 3, "attention's 12 has the backward pass in it; use 6 for the products, too."),
            (right * 80, "attention runs in each of the 80 layers."),
            (right * 2, "at half of the whole, attention equals the products."),
            (right / 2, "at half of the whole, attention equals the products."),
            (right * 8192, "the width, 8192, is missing."),
        ],
    )
    return "right. At 8192 tokens attention takes only 15 % of what the products take."


@exercise(
    "10.3",
    "For each token and layer: a key and a value, each of 8 × 128 numbers.",
    "2 · 32 · 8 · 128 numbers per token, 2 bytes each.",
    "Times 64 conversations of 8192 tokens.",
)
def ex10_3(answer: object) -> str:
    """A KV cache."""
    right = predict.kv_cache(predict.preset("Llama-3 8B"), 64, 8192)
    number(
        answer,
        right,
        within=1e-3,
        unit="bytes",
        mistakes=[
            (right / 2, "half of it: keys *and* values, and 2 bytes each."),
            (right * 2, "bf16 takes 2 bytes, not 4."),
            (right / 64, "that is one conversation: there are 64."),
            (right * 4, "the 32 query heads share 8 keys: only those are kept."),
            (right / 32, "each of the 32 layers has its own."),
            (right / 8192, "that is one token of each."),
            (right / 2**30, "that is in GiB: give bytes."),
            (right / 64 / 8192, "that is one token of one conversation."),
            (right / 128, "each key head has 128 numbers."),
        ],
    )
    return "right: far more than the model's own 16 GB in bf16."


@exercise(
    "10.4",
    "FLOPs that you have: devices × peak × MFU × seconds.",
    "FLOPs that a token needs: 6 · 8.03e9.",
    "64 · 989.5e12 · 0.4 · 14 · 86 400, divided by 6 · 8.03e9.",
)
def ex10_4(answer: object) -> str:
    """Plan a run."""
    right = 64 * 989.5e12 * 0.4 * 14 * 86400 / (6 * 8.03e9)
    number(
        answer,
        right,
        within=0.01,
        unit="tokens",
        mistakes=[
            (right * 2, "1979e12 is the rate with sparsity: half of it."),
            (right / 0.4, "the MFU is missing."),
            (right * 0.4, "the MFU counts once."),
            (right * 67 / 989.5, "that is the fp32 peak: training runs in bf16, at 989.5e12."),
            (right * 3, "2·N is the forward pass alone: training takes 6."),
            (right / 64, "that is a single device."),
            (right / 14, "that is one day of fourteen."),
            (right * 6, "6 FLOPs per parameter and token: divide by 6·N."),
            (right / 86400, "a day has 86 400 seconds."),
            (right / 1e9, "in billions? Give the number of tokens."),
        ],
    )
    return "right: about 80 tokens per parameter."
