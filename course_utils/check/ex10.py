"""Checks of chapter 10: accounting for a transformer."""

from math import isclose

from course_utils import predict
from course_utils.arguments import shown
from course_utils.check.exercise import Wrong, exercise, finite, number
from course_utils.compare import slips

# Mixtral 8x7B, from Jiang et al. 2024, "Mixtral of Experts", table 1: layers, width, hidden, the
# widths of queries and of keys, vocabulary.
L, D, H, Q, KV, V = 32, 4096, 14336, 32 * 128, 8 * 128, 32000
EXPERTS, ACTIVE = 8, 2


@exercise(
    "10.1",
    "Count one layer first: the matrices of attention, d × d each, and of the feed-forward part, "
    "d × h. Its biases and norms are small.",
    "With h = 4·d a layer's matrices have 12·d² weights; its biases and two norms add 13·d.",
    "Outside of the layers stand a vector for each token of the vocabulary, one for each position, "
    "and the last norm. A tied output layer adds nothing.",
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
            (12 * d * d + 13 * d, "that is one layer: there are 96, and the embeddings."),
            (96 * 12 * d * d, "the embeddings are missing."),
            (right + parts["embedding"], "the output layer is tied: the embedding counts once."),
            (right / 96, "that is a single layer's share: there are 96."),
            (right - 96 * 8 * d * d, "the feed-forward part is missing: 8·d² per layer."),
            (right - 96 * 4 * d * d, "attention's four matrices are missing: 4·d² per layer."),
            (right - 96 * d * d, "attention has four matrices: queries, keys, values, output."),
            (right - 96 * 6 * d * d, "h is 4·d: one matrix of the feed-forward part has d·h."),
            (right + 96 * 4 * d * d, "GPT's kind has two feed-forward matrices, not three."),
            (4 * right, "parameters are asked for, not bytes."),
            (2 * right, "parameters are asked for, not bytes."),
        ],
    )
    return "right, and a quarter of a percent below the published 175 billion."


@exercise(
    "10.2",
    "Half of all FLOPs means that attention takes as much as the matmuls with weights.",
    "Write down both per token: one of the two grows with S.",
    "Set the two equal and solve for S, with the backward pass in both or in neither.",
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
            (right * 3, "attention takes 12 with its backward pass: compare like with like."),
            (
                right / 3,
                "2 per parameter is the forward pass alone; attention's 12 has the "
                "backward pass in it.",
            ),
            (right * 80, "attention runs in each of the 80 layers."),
            (right * 2, "at half of the whole, attention equals the matmuls."),
            (right / 2, "at half of the whole, attention equals the matmuls."),
            (right * 8192, "the width, 8192, is missing."),
            (right * 70.5537 / 69.5, "the embedding is a lookup: 69.5e9 parameters multiply."),
        ],
    )
    return "right. At 8192 tokens attention takes only 15 % of what the matmuls take."


@exercise(
    "10.3",
    "What is kept for one token in one layer?",
    "A key and a value for each KV head, however many query heads share it.",
    "Multiply what one token keeps by the layers, the tokens and the conversations, and only then "
    "by the bytes of a number.",
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
            (right * 4, "the 32 query heads share 8 KV heads: only those are kept."),
            (right / 32, "each of the 32 layers has its own."),
            (right / 8192, "that is one token of each."),
            (right / 2**30, "that is in GiB: give bytes."),
            (right / 1e9, "that is in GB: give bytes."),
            (right / 64 / 8192, "that is one token of one conversation."),
            (right / 128, "each KV head has 128 numbers."),
        ],
    )
    return "right: far more than the model's own 16 GB in bf16."


@exercise(
    "10.4",
    "How many FLOPs do you have in all, and how many does one token need?",
    "You have devices × peak × MFU × seconds.",
    "By 6·N·T a token needs six FLOPs per parameter: divide what you have by that.",
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
            (right / 14 / 24, "that is one hour of fourteen days."),
            (right * 8.03e9, "N is missing: 6 FLOPs for each of the 8.03e9 parameters."),
            (right * 6, "6 FLOPs per parameter and token: divide by 6·N."),
            (right / 86400, "a day has 86 400 seconds."),
            (right / 1e9, "in billions? Give the number of tokens."),
        ],
    )
    return "right: about 80 tokens per parameter."


@exercise(
    "10.5",
    "An expert is a feed-forward layer: which parts of a model are there once, whatever the number "
    "of experts?",
    "Attention, the norms, the router, the embedding and the output layer are there once. An "
    "expert of this kind has three matrices, and attention only 8 KV heads.",
    "Write the total as a function of the number of experts per layer, and call it twice. The "
    "router scores all experts for every token.",
)
def ex10_5(answer: object) -> str:
    """Parameters of a mixture of experts, total and active."""
    if not isinstance(answer, (tuple, list)) or len(answer) != 2:
        raise Wrong(f"a pair (total, active) is expected, got {shown(answer)}.")
    total, active = (finite(part) for part in answer)
    if _near(total, _experts(ACTIVE)) and _near(active, _experts(EXPERTS)):
        raise Wrong("the two are swapped: the total comes first.")
    _judge("total", total, EXPERTS)
    if _near(active, _experts(EXPERTS)):
        raise Wrong("active: all experts are counted, and a token runs through 2 of the 8.")
    _judge("active", active, ACTIVE)
    return "right: the memory of 47 billion parameters, and the FLOPs per token of 13 billion."


def _judge(name: str, given: float, experts: int) -> None:
    """Accept the parameters with so many experts per layer; else say of `name` what is wrong."""
    right, mistakes = _experts(experts), _expert_slips(experts)
    if _near(given, right):
        return
    if mistake := slips.named(given, mistakes, within=1e-3):
        raise Wrong(f"{name}: {mistake}")
    try:
        number(given, right, unit="parameters")
    except Wrong as reason:
        raise Wrong(f"{name}: {reason}") from None


def _near(given: float, right: float) -> bool:
    return isclose(given, right, rel_tol=0.005)


def _experts(
    count: int, *, matrices: int = 3, attention: int = 1, kv: int = KV, ends: int = 2
) -> int:
    """Parameters with `count` experts per layer; the other arguments make mistakes."""
    mixing = attention * 2 * D * (Q + kv)
    layer = mixing + count * matrices * D * H + D * EXPERTS + 2 * D
    return L * layer + D + ends * V * D


def _expert_slips(experts: int) -> list[tuple[float, str]]:
    """What likely mistakes give with so many experts per layer."""
    found = [
        (_experts(experts, attention=experts), "attention is shared: each layer has one."),
        (_experts(experts, matrices=2), "with SwiGLU an expert has three matrices, not two."),
        (_experts(experts, kv=Q), "keys and values have 8 heads, not 32: GQA is ignored."),
        (_experts(experts, ends=0), "the embedding and the output layer are forgotten."),
        (_experts(experts, ends=1), "untied: embedding and output layer are two matrices."),
        (L * experts * 3 * D * H, "that is the experts alone: attention and the ends are missing."),
        (_experts(experts) / L, "that is a single layer's share: there are 32."),
    ]
    if experts == EXPERTS:
        return [
            (8 * 7e9, "the name misleads: only the feed-forward layers are there eight times."),
            (_experts(ACTIVE), "all experts are kept, whether a token needs them or not."),
            (_experts(1), "that has one expert per layer: eight are kept."),
            *found,
        ]
    return [
        (_experts(1), "a token runs through two experts per layer, not one."),
        (2 * 7e9, "two models of 7 billion share all that is not an expert."),
        (
            _experts(EXPERTS) / 4,
            "only the experts shrink to a quarter, not attention and the ends.",
        ),
        *found,
    ]
