"""The last check of chapter 10: three plans, to fit a model, to train one, and to serve one."""

from collections.abc import Mapping, Sequence
from math import isclose

from course_utils import predict
from course_utils.arguments import shown
from course_utils.check.exercise import Wrong, exercise, finite, number
from course_utils.compare import slips

TOKENS = 8192  # in a sequence
DEVICE = 80e9  # bytes
PEAK, BANDWIDTH, MFU, DEVICES = 989.5e12, 3.35e12, 0.4, 256  # H100 SXM, dense bf16
LARGE, SMALL = predict.preset("Llama-3 70B"), predict.preset("Llama-3 8B")

Mistakes = Sequence[tuple[float, str]]


@exercise(
    "10.8",
    "In each plan two costs share a device: write both down before you divide. Which of them "
    "shrinks with more devices, and which does every device or every user have for itself?",
    "Bytes: a width of numbers per token and layer, one layer's 22 widths, the logits twice. Days: "
    "a token's attention FLOPs grow with the sequence.",
    "A step of serving reads the weights once for all users, and each user's whole cache; it "
    "gives each user one token.",
)
def ex10_8(answer: object) -> str:
    """The capstone's plans: does it fit, how long does it take, how many does it serve?"""
    if not isinstance(answer, Mapping):
        raise Wrong(f"a dict with {', '.join(PLANS)} is expected, got {shown(answer)}.")
    for name, (right, within, mistakes) in PLANS.items():
        if answer.get(name) is None:
            raise Wrong(f"{name} is still open.")
        try:
            _judge(answer[name], right, within, mistakes)
        except Wrong as reason:
            raise Wrong(f"{name}: {reason}") from None
    napkin = "The napkin would have said 15 devices and 5.5 days, and nothing about users."
    return f"right, all of them. {napkin}"


def _judge(given: object, right: float, within: float, mistakes: Mistakes) -> None:
    """Accept `right` as closely as asked, 0 for a count; else name the mistake that comes close."""
    count = finite(given)
    if isclose(count, right, rel_tol=within):
        return
    if mistake := slips.named(count, mistakes, within=1e-3):
        raise Wrong(mistake)
    if within == 0 and count != int(count):
        raise Wrong("a whole number is expected.")
    number(count, right, within=within)


def _bytes() -> tuple[float, float, Mistakes]:
    """Per device, what sharding does not divide: block inputs, one block, logits twice in fp32."""
    row = 2 * TOKENS * LARGE.width
    inputs, block, logits = LARGE.layers * row, 22 * row, 4 * TOKENS * LARGE.vocabulary
    right = inputs + block + 2 * logits
    return right, 0.01, [
        (right - logits, "logits are in fp32 here, and their gradient is as large as they are."),
        (right - 2 * logits, "the logits and their gradient are forgotten."),
        (right - inputs, "checkpointing still keeps the input of every block."),
        (right - block, "while a block is computed again, its own activations exist."),
        (LARGE.layers * block + 2 * logits, "with checkpointing one block at a time is whole."),
        (LARGE.layers * block + inputs + 2 * logits, "with checkpointing one block at a time is "
         "whole."),
        (2 * (inputs + block) + 2 * logits, "activations are in bf16 here: 2 bytes."),
        (inputs + block / 2 + 2 * logits, "activations are numbers of 2 bytes in bf16."),
        (inputs / LARGE.layers + block + 2 * logits, "every one of the 80 layers keeps its input."),
        (right / TOKENS, "that is one token: the sequence has 8192."),
        (16 * _size(LARGE), "weights, gradients and state are what sharding divides."),
    ]  # fmt: skip


def _devices() -> tuple[float, float, Mistakes]:
    """The least number of devices for 16 bytes per parameter beside those bytes."""
    total, whole = 16 * _size(LARGE), _bytes()[0]
    quotient = total / (DEVICE - whole)
    right = predict.ceil_to_whole(quotient)
    forgotten = ("each device has its own activations and logits: they leave less room, and more "
                 "devices do not divide them.")  # fmt: skip
    return right, 0, [
        (quotient, "devices come whole: round up."),
        (int(quotient), "rounding down leaves a device with too little room."),
        (predict.ceil_to_whole(total / DEVICE), forgotten),
        (predict.ceil_to_whole(total / DEVICE + 1), forgotten),
        (total / DEVICE, forgotten),
        (predict.ceil_to_whole(2 * _size(LARGE) / (DEVICE - whole)), "weights, gradients, master "
         "copy and state are 16 bytes per parameter."),
    ]  # fmt: skip


def _days() -> tuple[float, float, Mistakes]:
    """Of Llama-3 8B on 1e12 tokens, attention counted."""
    per_day = DEVICES * PEAK * MFU * predict.SECONDS_PER_DAY / 1e12  # FLOPs for each token
    found = predict.transformer_flops(SMALL, 1, TOKENS)
    matmuls, among = 6 * predict.transformer_products(SMALL), found.attention / TOKENS
    right = (matmuls + among) / per_day
    return right, 0.01, [
        (6 * _size(SMALL) / per_day, "that is 6·N·T: attention between tokens is forgotten."),
        (matmuls / per_day, "attention between tokens is forgotten."),
        ((matmuls + among / 3) / per_day, "attention has a backward pass, too: 12, not 4."),
        ((6 * _size(SMALL) + among) / per_day, "an embedding is a lookup: its parameters take no "
         "FLOPs."),
        ((matmuls + among / SMALL.layers) / per_day, "attention runs in each of the 32 layers."),
        ((matmuls + among / 2) / per_day, "attention is counted in full here, masked part "
         "included."),
        (right / 2, "1979e12 is the rate with sparsity: dense is half of it."),
        (right * MFU, "the MFU is missing: a run reaches a share of the peak."),
        (right / 3, "that is the forward pass: training takes three times as much."),
        (right * DEVICES, "that is a single device."),
        (right * 24, "those are hours."),
        (right * predict.SECONDS_PER_DAY, "those are seconds."),
    ]  # fmt: skip


def _users() -> tuple[float, float, Mistakes]:
    """The most caches of 8192 tokens beside the weights of Llama-3 8B, all in bf16."""
    weights, cache = 2 * _size(SMALL), predict.kv_cache(SMALL, 1, TOKENS)
    room, share = DEVICE - weights, SMALL.heads // SMALL.kv_heads
    return int(room / cache), 0, [
        (room / cache, "users come whole: round down."),
        (predict.ceil_to_whole(room / cache), "rounding up leaves no room for the last one."),
        (int(DEVICE / cache), "the weights are forgotten: they lie beside the caches."),
        (int(room / cache / share), "the 32 query heads share 8 KV heads: GQA is ignored."),
        (int(2 * room / cache), "keys *and* values, and 2 bytes for each number."),
        (int(room / cache / 2), "bf16 takes 2 bytes per number, not 4."),
        (int((DEVICE - 2 * weights) / cache), "the weights are in bf16: 2 bytes per parameter."),
        (int((DEVICE - 8 * weights) / cache), "serving keeps no gradients and no state."),
    ]  # fmt: skip


def _rate() -> tuple[float, float, Mistakes]:
    """Tokens per second of all users together, as the bandwidth bounds it."""
    weights, cache = 2 * _size(SMALL), predict.kv_cache(SMALL, 1, TOKENS)
    users = _users()[0]
    right = users * BANDWIDTH / (weights + users * cache)
    return right, 0.01, [
        (users * BANDWIDTH / weights, "reading the caches is forgotten: each user's is read, too."),
        (right / users, "that is one user: each step gives a token to every one."),
        (BANDWIDTH / (weights + cache), "that is one user alone: all share a reading of the "
         "weights."),
        (BANDWIDTH / weights, "that is one user, and without a cache."),
        (BANDWIDTH / cache, "reading the weights is forgotten."),
        (PEAK / (2 * _size(SMALL)), "that is the arithmetic's bound: the memory is slower here."),
        (users * BANDWIDTH / (weights + cache), "each user has a cache of their own to be read."),
        (1 / right, "those are seconds per token."),
    ]  # fmt: skip


def _size(config: predict.TransformerConfig) -> int:
    """All parameters."""
    return sum(predict.transformer_parameters(config).values())


PLANS = {
    "bytes": _bytes(),
    "devices": _devices(),
    "days": _days(),
    "users": _users(),
    "tokens per second": _rate(),
}
