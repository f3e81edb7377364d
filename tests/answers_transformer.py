"""Answers to the exercises of chapter 10: right ones, and wrong ones with a reply's word."""

from math import prod

from course_utils import measure, predict
from course_utils.train.transformer import transformer

NBYTES = {"fp32": 4, "bf16": 2}


def predict_run(config, batch, tokens, dtype, optimizer, form, checkpointing, *slips):
    """The solution of 10.6, with the `slips` that are named."""
    c, gpt, rows, nbytes = config, config.style == "gpt", batch * tokens, NBYTES[dtype]
    d, h, q, kv, L = c.width, c.hidden, c.q_width, c.kv_width, c.layers
    kv = q if "no GQA" in slips else kv
    table, norm = c.vocabulary * d, 2 * d if gpt and "scales" not in slips else d
    layer = 2 * d * (q + kv) + (2 if gpt or "two matrices" in slips else 3) * d * h
    biases = (q + 2 * kv + d + h + d) * gpt * ("no biases" not in slips)
    tied = (c.tied or "tied" in slips) and "untied" not in slips
    norms = norm * {"no norms": 0, "no last norm": 2 * L}.get(first(slips, "no "), 2 * L + 1)
    places = {"positions of T": tokens, "no positions": 0}.get(
        first(slips, "pos", "no p"), c.context
    )
    P = L * (layer + biases) + norms + table * (2 - tied) + places * d * gpt

    among, head = 4 * rows * tokens * q * L * ("no attention" not in slips), 2 * rows * table
    blocks = 2 * rows * L * layer + among
    again = blocks * (checkpointing and "not again" not in slips)
    flops = 3 * (blocks + head) + again if "forward" not in slips else blocks + head
    flops = {"6NT": 6 * P * rows, "half": flops // 2}.get(first(slips, "6NT", "half"), flops)

    nbytes = 4 if "fp32" in slips else nbytes
    W = P * nbytes
    S = 2 * (4 * P if "fp32 state" in slips else W)
    S = S if optimizer == "AdamW" or "SGD state" in slips else 0
    kept = (4 if gpt else 6) * d + 2 * (q + kv) + (2 if gpt else 4) * h
    inside = d if checkpointing and "keep all" not in slips else kept
    many = 1 if checkpointing and "keep all" not in slips else 2 * L + 1
    wide = 0 if gpt or "narrow norms" in slips else many * 2 * d * (4 - nbytes)
    ends = (2 if gpt else 3) * d + c.vocabulary * ("no probabilities" not in slips)
    A = rows * ((L * inside + ends) * nbytes + wide)
    logits = (
        rows * c.vocabulary * nbytes * {"no logits": 0, "one": 1}.get(first(slips, "no l", "on"), 2)
    )
    large = table * nbytes
    scratch = {"fused": 0, "for-loop": 2 * large, "foreach": W}[form] if S else 0
    scratch = 0 if "no scratch" in slips else scratch
    twice = 2 * large * c.tied * ("no sum" not in slips)
    peak = max(W + S + A + logits, 2 * W + S + max(scratch, twice))
    peak = {"16P": 2 * W + S, "all": 2 * W + S + A}.get(first(slips, "16P", "all"), peak)
    peak *= 1.3 if "a third more" in slips or ("SGD more" in slips and optimizer == "SGD") else 1
    return {"parameters": P, "weights": W, "gradients": W, "state": S, "flops": flops,
            "activations": A, "peak": peak}  # fmt: skip


def first(slips, *beginnings):
    """The first slip that begins so."""
    return next((slip for slip in slips if slip.startswith(beginnings)), "")


def shapes(c):
    """The shape of every parameter, one by one: another way to the same counts."""
    gpt = c.style == "gpt"
    yield c.vocabulary, c.width
    yield from [(c.context, c.width)] * gpt
    for _ in range(c.layers):
        yield from [(c.width,)] * (4 if gpt else 2)
        for inputs, outputs in layer(c):
            yield inputs, outputs
            yield from [(outputs,)] * gpt
    yield from [(c.width,)] * (2 if gpt else 1)
    yield from [(c.vocabulary, c.width)] * (not c.tied)


def layer(c):
    """The matmuls of a layer: inputs and outputs."""
    d, h = c.width, c.hidden
    if c.style == "gpt":
        return [(d, c.q_width + 2 * c.kv_width), (c.q_width, d), (d, h), (h, d)]
    return [
        (d, c.q_width),
        (d, c.kv_width),
        (d, c.kv_width),
        (c.q_width, d),
        (d, h),
        (d, h),
        (h, d),
    ]


def by_shapes(config, batch, tokens, dtype, optimizer, form, checkpointing):
    """A solution of 10.6 that lists shapes, uses predict's matmuls, and has the step counters."""
    c, rows, size = config, batch * tokens, NBYTES[dtype]
    every = [*shapes(c)]
    matmul = predict.matmul_flops
    weighted = sum(matmul(rows, *pair) for pair in layer(c))
    scores = 2 * matmul(tokens, c.head_width, tokens, batch=batch * c.heads)
    block = c.layers * (weighted + scores)
    whole = block + matmul(rows, c.width, c.vocabulary)
    W = size * sum(map(prod, every))
    adam = optimizer == "AdamW"
    S = adam * (2 * W + 4 * len(every))
    reads = sum(
        inputs for inputs, _ in {"gpt": layer(c), "llama": layer(c)[2:5] + layer(c)[6:]}[c.style]
    )
    held = reads + c.q_width + 2 * c.kv_width + (2 * c.width + c.hidden if c.style == "gpt" else
                                                 4 * c.width + 3 * c.hidden)  # fmt: skip
    more = 0 if c.style == "gpt" else 2 * c.width * (4 - size)
    inner, norms = (c.width, 1) if checkpointing else (held, 2 * c.layers + 1)
    A = rows * (size * (c.layers * inner + c.vocabulary + 2.5 * c.width) + norms * more)
    largest = size * max(map(prod, every))
    extra = adam * {"fused": 0, "for-loop": 2 * largest, "foreach": W}[form]
    extra = max(extra, c.tied * 2 * largest)
    peak = max(W + S + A + 2 * rows * c.vocabulary * size, 2 * W + S + extra)
    return {"parameters": W // size, "flops": 3 * whole + checkpointing * block, "notes": "mine",
            "weights": W, "gradients": W, "state": S, "activations": A, "peak": peak}  # fmt: skip


def slip(*names):
    """The solution with these slips."""
    return lambda *run: predict_run(*run, *names)


def asks(config, batch, tokens, *rest):
    predict.transformer_flops(config, batch, tokens)
    return predict_run(config, batch, tokens, *rest)


def swallows(*run):
    try:
        predict.transformer_memory(*run[:3])
    finally:
        return predict_run(*run)  # noqa: B012


def builds(config, *rest):
    transformer(config)
    return predict_run(config, *rest)


def weighs(*run):
    measure.memory(lambda: None, warm_steps=0)
    return predict_run(*run)


def changed(name, value):
    return lambda *run: predict_run(*run) | {name: value}


MIXTRAL = 46_702_792_704, 12_879_925_248
PLANS = {"bytes": 22_130_229_248, "devices": 20, "days": 6.615, "users": 59,
         "tokens per second": 2489}  # fmt: skip


def plans(name, value):
    return {**PLANS, name: value}


CASES = {
    "10.1": (
        [174_604_259_328, 174.6e9],
        [(175e9, "published"), (12 * 12288**2, "one layer"),
         (12 * 12288**2 + 13 * 12288, "one layer"),
         (96 * 12 * 12288**2, "embeddings are missing"),
         (174_604_259_328 + 50257 * 12288, "tied"), (174_604_259_328 / 96, "single layer"),
         (698e9, "not bytes"), (349.2e9, "not bytes"),
         (174_604_259_328 - 96 * 12288**2, "four matrices: queries"),
         (174_604_259_328 - 96 * 6 * 12288**2, "h is 4·d"),
         (174_604_259_328 + 96 * 4 * 12288**2, "not three"),
         (174_604_259_328 - 96 * 4 * 12288**2, "attention's four"),
         (174_604_259_328 - 96 * 8 * 12288**2, "8·d² per layer"), (1e9, "too small")],
    ),
    "10.2": (
        [53_024, 53_000],
        [(159_000, "like with like"), (17_675, "backward pass in it"), (4_241_943, "80 layers"),
         (106_048, "equals the matmuls"), (26_512, "equals the matmuls"),
         (434_375_000, "width"), (53_826, "a lookup"), (10, "too small")],
    ),
    "10.3": (
        [68_719_476_736, 68.7e9],
        [(34_359_738_368, "half of it"), (137_438_953_472, "2 bytes"), (1_073_741_824, "64"),
         (274_877_906_944, "KV heads"), (2_147_483_648, "32 layers"), (8_388_608, "one token"),
         (64, "GiB"), (68.719, "in GB"), (131_072, "one conversation"),
         (536_870_912, "128 numbers"), (5, "too small")],
    ),
    "10.4": (
        [6.36e11, 635.96e9],
        [(1.272e12, "sparsity"), (1.59e12, "MFU is missing"),
         (2.544e11, "counts once"), (4.306e10, "fp32 peak"), (1.908e12, "forward"),
         (9.937e9, "single device"),
         (4.543e10, "one day"), (1.893e9, "one hour"), (5.107e21, "N is missing"), 
         (3.816e12, "divide by 6"), (7.36e6, "86 400"), (635.96, "number of")],
    ),
    "10.5": (
        [MIXTRAL, (46.7e9, 12.88e9), [46.6e9, 12.9e9]],
        [((56e9, 12.88e9), "the name misleads"), ((56.098e9, 12.88e9), "each layer has one"),
         ((31.67e9, 9.12e9), "three matrices"), (MIXTRAL[::-1], "swapped"),
         ((46.7e9, 46.7e9), "active: all experts"), ((46.7e9, 7.243e9), "not one"),
         ((47.508e9, 13.685e9), "8 heads, not 32"), ((46.4406e9, 12.6178e9), "embedding and the"),
         ((46.7e9, 12.7489e9), "two matrices"), ((12.88e9, 12.88e9), "total: all experts are kept"),
         ((46.7e9, 14e9), "share all"), ((46.7e9, 11.6757e9), "to a quarter"),
         ((45.097e9, 11.274e9), "experts alone"), ((1.45946e9, 1), "single layer"),
         ((7.2428e9, 1), "eight are kept"), ((46.7e9, 14.222e9), "each layer has one"),
         ((46.7e9, 9.1218e9), "three matrices"),
         ((46.7, 12.88), "total: 46.7 parameters is too small: only the power"),
         (46.7e9, "a pair"), ((46.7e9, "x"), "finite number"), ((1, 2, 3), "a pair")],
    ),
    "10.6": (
        [predict_run, by_shapes, lambda *run: predict_run(*run)],
        [(slip("tied"), "that is not tied"), (slip("untied"), "counts once"),
         (slip("no biases"), "The biases are forgotten"), (slip("no norms"), "The norms are"),
         (slip("no norms", "no biases"), "; and the norms are"), (slip("no GQA"), "GQA is ignored"),
         (slip("no last norm"), "The last norm"), (slip("no positions"), "for each position"),
         (slip("positions of T"), "as many as the context"),
         (slip("scales"), "a bias beside its scale"),
         (slip("two matrices"), "three feed-forward"), (slip("fp32"), "bf16 takes 2 bytes"),
         (slip("fp32 state"), "the format of the parameters"), (slip("SGD state"), "keeps nothing"),
         (slip("no attention"), "'s matmuls between tokens"),
         (slip("forward"), "backward pass is"), (slip("not again"), "forward pass once more"),
         (slip("6NT"), "6·N·T"),
         (slip("half"), "two FLOPs"), (slip("no probabilities"), "log-probabilities"),
         (slip("narrow norms"), "RMSNorm computes in fp32"), (slip("keep all"), "input alone"),
         (slip("16P"), "peak may be at the loss"), (slip("no logits"), "two gradients of the"),
         (slip("one"), "not one"), (slip("no scratch"), "scratch is forgotten"),
         (slip("no sum"), "three exist"), (slip("no sum", "no scratch"), "come on top"),
         (slip("all"), "has its gradient yet"), (slip("a third more"), "off in every run"),
         (slip("SGD more"), "exactly the runs with SGD"),
         (slip("no last norm", "16P"), "but begin with parameters. The last norm"),
         (asks, "asks predict"), (swallows, "asks predict"), (builds, "builds or measures"),
         (weighs, "builds or measures"), (changed("peak", None), "peak is missing"),
         (changed("peak", "x"), "peak: a finite number"), (changed("peak", 0), "peak 0/8"),
         (lambda *run: [1] * 7, "a dict with"), (lambda *run: 1 / 0, "ZeroDivisionError"),
         (lambda config: 1, "TypeError")],
    ),
    "10.7": ([], [(0, "above 0"), (-0.05, "above 0"), ("fast", "finite number")]),
    "10.8": (
        [PLANS, {**PLANS, "bytes": 22.1e9, "days": 6.6}],
        [(plans("bytes", 17_892_900_864), "as large as they are"),
         (plans("bytes", 13_690_208_256), "logits and their gradient are forgotten"),
         (plans("bytes", 11_358_175_232), "the input of every block"),
         (plans("bytes", 19_142_803_456), "its own activations exist"),
         (plans("bytes", 244.63e9), "one block at a time"), (plans("bytes", 35.786e9), "2 bytes"),
         (plans("bytes", 1_128_859_303_936), "sharding divides"),
         (plans("bytes", 1e9), "too small"),
         (plans("devices", 15), "its own activations"),
         (plans("devices", 19), "rounding down"), (plans("devices", 19.495), "come whole"),
         (plans("devices", 14.11), "its own"), (plans("devices", 3), "16 bytes per parameter"),
         (plans("devices", 21), "too large"), (plans("devices", 20.7), "a whole number"),
         (plans("days", 5.504), "6·N·T"), (plans("days", 5.143), "attention between tokens"),
         (plans("days", 5.634), "a backward pass, too"), (plans("days", 3.308), "sparsity"),
         (plans("days", 6.975), "a lookup"), (plans("days", 5.879), "counted in full"),
         (plans("days", 5.189), "each of the 32"), (plans("days", 2.646), "MFU is missing"),
         (plans("days", 2.205), "forward pass"), (plans("days", 1693.5), "single device"),
         (plans("days", 158.77), "hours"), (plans("days", 571_557), "seconds"),
         (plans("users", 74), "weights are forgotten"), (plans("users", 14), "GQA is ignored"),
         (plans("users", 60), "no room for the last"), (plans("users", 59.5), "round down"),
         (plans("users", 119), "keys *and* values"), (plans("users", 29), "not 4"),
         (plans("users", 44), "2 bytes per parameter"), (plans("users", 10), "too small"),
         (plans("tokens per second", 12_307), "reading the caches"),
         (plans("tokens per second", 42.19), "one user: each step"),
         (plans("tokens per second", 195.5), "one user alone"),
         (plans("tokens per second", 208.6), "without a cache"),
         (plans("tokens per second", 3120), "reading the weights"),
         (plans("tokens per second", 61_610), "the arithmetic's bound"),
         (plans("tokens per second", 11_535), "a cache of their own"),
         (plans("tokens per second", 4.018e-4), "seconds per token"),
         (plans("users", None), "users is still open"), (plans("days", "x"), "days: a finite"),
         (20, "a dict with")],
    ),
}  # fmt: skip
