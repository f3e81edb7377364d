"""What likely mistakes predict for a run: numbers to recognise a learner's by, with a sentence."""

from collections.abc import Mapping, Sequence
from itertools import combinations, product

from course_utils import predict
from course_utils.check.ex10_runs import Run

Numbers = Mapping[str, float]
Slips = Sequence[tuple[float, str]]  # the same sentences, in the same order, for every run


def named(quantity: str, runs: Sequence[Run], given: Sequence[Numbers], found: Sequence) -> str:
    """The sentences of the slip, or of the two, that lead to what was given in every run; or ''."""
    said, right = ([numbers[quantity] for numbers in each] for each in (given, found))
    slips = [SLIPS[quantity](*each) for each in zip(runs, given, found, strict=True)]
    tried = [*zip(*slips, strict=True)]  # each slip with its numbers in all runs
    for few in (1,) if quantity == "peak" else (1, 2):
        for together in combinations(tried, few):
            tries = zip(said, right, zip(*together, strict=True), strict=True)
            if all(_explained(quantity, *each) for each in tries):
                return "; and ".join(slip[0][1] for slip in together)
    return ""


def _explained(quantity: str, said: float, right: float, together: Slips) -> bool:
    """Whether a few slips together lead from what is right to what was said."""
    share, most = CLOSE[quantity]
    wrong = right + sum(number - right for number, _ in together)
    return abs(said - wrong) <= share * right + most


def _parameters(run: Run, given: Numbers, found: Numbers) -> Slips:
    c, N = run.config, found["parameters"]
    d, L, gpt = c.width, c.layers, c.style == "gpt"
    shared = L * 2 * (d + gpt) * (c.q_width - c.kv_width)
    biases = L * (c.q_width + 2 * c.kv_width + c.hidden + 2 * d) * gpt
    norm, table, places = (2 if gpt else 1) * d, c.vocabulary * d, c.context * d
    return [
        (N + c.tied * table, "with a tied output layer the embedding counts once"),
        (N - (not c.tied) * table, "an output layer that is not tied has a matrix of its own"),
        (N - table, "a vocabulary × width matrix is missing"),
        (N + table, "one vocabulary × width matrix too many is counted"),
        (N - biases, "the biases are forgotten: every linear layer of GPT's kind but the last"),
        (N + shared, "keys and values have the KV heads alone: GQA is ignored"),
        (N - (2 * L + 1) * norm, "the norms are forgotten"),
        (N - norm, "the last norm is forgotten"),
        (N - (2 * L + 1) * d * gpt, "LayerNorm has a bias beside its scale, RMSNorm none"),
        (N + (2 * L + 1) * d * (not gpt), "RMSNorm has a scale alone, no bias"),
        (N - places * gpt, "GPT's kind has a learned vector for each position"),
        (N + places * (not gpt), "Llama's kind rotates: its positions have no parameters"),
        (N + (run.tokens * d - places) * gpt, "positions are as many as the context, whatever T"),
        (N - L * d * c.hidden * (not gpt), "Llama's kind has three feed-forward matrices"),
        (N + L * d * c.hidden * gpt, "GPT's kind has two feed-forward matrices"),
    ]


def _weights(run: Run, given: Numbers, found: Numbers) -> Slips:
    N = found["parameters"]
    return [
        (4 * N, "a number of bf16 takes 2 bytes"),
        (2 * N, "a number of fp32 takes 4 bytes"),
        (N, "bytes are asked for, not numbers"),
        (0, "every parameter has one"),
    ]


def _state(run: Run, given: Numbers, found: Numbers) -> Slips:
    N, keeps = found["parameters"], run.optimizer == "AdamW"
    return [
        (8 * N * keeps, "the state has the format of the parameters, here 2 bytes in bf16"),
        (2 * N * run.nbytes, "plain SGD keeps nothing between steps"),
        (N * run.nbytes * keeps, "AdamW keeps two numbers per parameter"),
        (12 * N * keeps, "nothing has a master copy here: everything is in one format"),
        (2 * N * keeps, "bytes are asked for, not numbers"),
        (0, "AdamW keeps two numbers per parameter"),
    ]


def _flops(run: Run, given: Numbers, found: Numbers) -> Slips:
    c, right, again = run.config, found["flops"], run.checkpointing
    passes, rows = 4 if again else 3, run.rows
    among = 4 * rows * run.tokens * c.q_width * c.layers
    head = 2 * rows * c.vocabulary * c.width
    blocks = 2 * rows * predict.transformer_products(c) - head + among
    shared = 4 * rows * c.layers * c.width * (c.q_width - c.kv_width)
    fewer = 4 * rows * run.tokens * c.layers * (c.q_width - c.kv_width)
    return [
        (right - passes * among, "attention's matmuls between tokens are forgotten"),
        (right - (passes - 1) * among, "attention has a backward pass, too"),
        (right - passes * among // 2, "attention is counted in full here, masked part included"),
        (right + among // 2, "attention's backward is twice its forward here, in the plain form"),
        (blocks + head, "the backward pass is forgotten: twice the forward's FLOPs"),
        (right - blocks * again, "checkpointing runs the blocks' forward pass once more"),
        (right + head * again, "checkpointing repeats the blocks alone, not the output layer"),
        (right - 3 * head, "the output layer is a matmul for every token, tied or not"),
        (right + 3 * head * (not c.tied), "an embedding is a lookup, no matmul"),
        (right + passes * shared, "keys and values have the KV heads alone: GQA is ignored"),
        (right - passes * fewer, "all query heads attend, however few the KV heads are"),
        (right / 2, "a multiply-add is two FLOPs"),
        (right / rows, "that is one token: a step has batch × tokens"),
        (right / run.batch, "that is one sequence of the batch"),
        (6 * found["parameters"] * rows, "6·N·T knows neither attention nor lookups"),
    ]


def _activations(run: Run, given: Numbers, found: Numbers) -> Slips:
    c, right, rows, wide = run.config, found["activations"], run.rows, run.nbytes
    d, L, again, gpt = c.width, c.layers, run.checkpointing, c.style == "gpt"
    layer = (4 if gpt else 6) * d + 2 * (c.q_width + c.kv_width) + (2 if gpt else 4) * c.hidden
    unit, kept, upcast = rows * wide, not again, 2 * (4 - wide) * d * rows * (not gpt)
    norms = 1 + 2 * L * kept
    scores = c.heads * run.tokens * unit
    return [
        (right - run.logits, "the log-probabilities of the loss, V per token, are forgotten"),
        (right + run.logits, "the loss keeps one number per token and entry, not two"),
        (right + L * again * (layer - d) * unit + 2 * L * again * upcast,
         "with checkpointing a block keeps its input alone"),
        (right - L * again * d * unit, "with checkpointing each block still keeps its input"),
        (right * 4 / wide, "a number of bf16 takes 2 bytes"),
        (right - norms * upcast, "in a bf16 model RMSNorm computes in fp32: it keeps 2·d numbers "
         "of 4 bytes"),
        (right + L * kept * scores, "the fused kernel keeps no T × T scores"),
        (right - (L - 1) * (layer * kept + d * again) * unit, "every layer keeps its own"),
        (right - L * kept * (2 if gpt else 4) * c.hidden * unit, "what lies inside the "
         "feed-forward layers, h wide, is forgotten"),
        (right - L * kept * 2 * (c.q_width + c.kv_width) * unit, "queries, keys, values and "
         "attention's result are forgotten"),
        (right + L * kept * 2 * (c.q_width - c.kv_width) * unit, "keys and values have the KV "
         "heads alone: GQA is ignored"),
        (right / wide, "bytes are asked for, not numbers"),
        (right / run.batch, "that is one sequence of the batch"),
    ]  # fmt: skip


def _peak(run: Run, given: Numbers, found: Numbers) -> Slips:
    """From the learner's own categories, so that only the rule is judged."""
    return [
        (max(one, other), "; and ".join(filter(None, (first, second))))
        for (one, first), (other, second) in product(_at_loss(run, given), _at_end(run, given))
        if first or second
    ]


def _at_loss(run: Run, given: Numbers) -> Slips:
    """Bytes at the loss, and what is wrong with them."""
    start = given["weights"] + given["state"] + given["activations"]
    gradients, logits = given["gradients"], run.logits
    return [
        (start + 2 * logits, ""),
        (0, "the peak may be at the loss, where all activations are"),
        (start, "at the loss there are two gradients of the logits for a moment"),
        (start + logits, "at the loss there are two gradients of the logits for a moment, not one"),
        (start + gradients, "when activations are at their most, no weight has its gradient yet"),
        (start + gradients + 2 * logits, "at the loss, no weight has its gradient yet"),
    ]


def _at_end(run: Run, given: Numbers) -> Slips:
    """Bytes when all gradients exist, and what is wrong with them."""
    end = given["weights"] + given["gradients"] + given["state"]
    table = run.nbytes * run.config.vocabulary * run.config.width
    forms = {"fused": 0, "for-loop": 2 * table, "foreach": given["weights"]}
    scratch = forms[run.form] * (run.optimizer == "AdamW")
    twice = 2 * table * run.config.tied
    forgotten = "the optimizer's scratch is forgotten: for-loop and foreach need some"
    return [
        (end + max(scratch, twice), ""),
        (end + twice, forgotten),
        (end + scratch, "a tied embedding's gradient is a sum of two: three exist for a moment"),
        (end, "when all gradients exist, scratch or a tied embedding's two gradients come on top"),
        (0, "the peak may be at the optimizer, where all gradients are"),
    ]


SLIPS = {
    "parameters": _parameters,
    "weights": _weights,
    "gradients": _weights,
    "state": _state,
    "flops": _flops,
    "activations": _activations,
    "peak": _peak,
}
# How closely a slip must be met: by a share of what is right, and a few bytes more.
CLOSE = dict.fromkeys(SLIPS, (0, 0.5)) | {
    "state": (1e-3, 200),  # with its step counters or without
    "flops": (1e-4, 0),
    "activations": (0.03, 0),
    "peak": (0.03, 0),
}
