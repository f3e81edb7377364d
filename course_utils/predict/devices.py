"""Many devices: what each one holds, what it sends, how long it waits, and when to save."""

from math import sqrt

from course_utils.arguments import (
    choice,
    count,
    number,
    one_of,
    positive,
    shown,
    within_floats,
)
from course_utils.predict.counts import Recipe

# How often a ring passes the whole tensor on, but for one N-th (Patarasuk and Yuan 2009).
COLLECTIVES = {"all-reduce": 2, "all-gather": 1, "reduce-scatter": 1}


def sharded_recipe(recipe: Recipe, devices: int, stage: int) -> Recipe:
    """Bytes per parameter that each of `devices` keeps under a stage of ZeRO.

    Stage 1 shards the optimizer's state and the master copy, stage 2 the gradients too, stage 3 the
    parameters too, as torch's `fully_shard` does; stage 0, data parallel, shards nothing
    (Rajbhandari et al. 2020, section 5). Buckets, and the layers that stage 3 gathers for the
    moment, are left out.
    """
    if not isinstance(recipe, Recipe):
        raise TypeError(
            f"recipe must be a Recipe, such as RECIPES['AdamW, fp32'], got {shown(recipe)}"
        )
    devices = within_floats("devices", lambda: float(count("devices", devices)))
    first, second, third = (devices if _stage(stage) >= least else 1 for least in (1, 2, 3))
    return Recipe(
        recipe.parameters / third,
        recipe.gradients / second,
        recipe.master_copy / first,
        recipe.optimizer / first,
    )


def collective_bytes(collective: str, tensor_bytes: int, devices: int) -> float:
    """Bytes that each device sends when the collective runs as a ring.

    `tensor_bytes` is the whole tensor: what every device has before a reduce-scatter or an
    all-reduce, and after an all-gather. A ring of N passes (N − 1)/N of it, an all-reduce twice
    that. It is the mean over the devices where N does not divide the tensor.
    """
    rounds = COLLECTIVES[one_of("collective", collective, COLLECTIVES)]
    others = count("devices", devices) - 1
    passed = rounds * others * count("tensor_bytes", tensor_bytes, at_least=0)
    return within_floats("tensor_bytes and devices", lambda: passed / (others + 1))


def step_traffic(parameter_bytes: int, devices: int, stage: int, *, by_layer: bool = True) -> float:
    """Bytes that each device sends in a training step, gradients in the parameters' format.

    Stages 0 to 2 reduce the gradients and bring the new parameters together: an all-reduce, or a
    reduce-scatter and an all-gather, which is as much. Stage 3 gathers each layer's parameters
    twice, for the forward and for the backward pass, and scatters the gradients; without `by_layer`
    (only the root is wrapped) they stay between the passes, and are gathered once.
    """
    nbytes = count("parameter_bytes", parameter_bytes, at_least=0)
    again = choice("by_layer", by_layer) and _stage(stage) == 3
    passes = 3 if again else 2
    others, passed = count("devices", devices) - 1, passes * nbytes
    return within_floats("parameter_bytes", lambda: passed * others / (others + 1))


def link_seconds(
    sent_bytes: float, bandwidth: float, *, messages: int = 0, latency: float = 0.0
) -> float:
    """Seconds to send `sent_bytes` at `bandwidth` bytes per second, in `messages` that each wait.

    The α–β model: messages · latency + bytes / bandwidth (Thakur, Rabenseifner and Gropp 2005).
    A ring of N sends N − 1 messages for a gather or a scatter, 2·(N − 1) for an all-reduce.
    """
    messages = count("messages", messages, at_least=0)
    latency = number("latency", latency, at_least=0)
    sent, rate = number("sent_bytes", sent_bytes, at_least=0), positive("bandwidth", bandwidth)
    names = "sent_bytes, bandwidth, messages and latency"
    return within_floats(names, lambda: messages * latency + sent / rate)


def pipeline_bubble(stages: int, microbatches: int) -> float:
    """The share of a step in which a stage of a pipeline waits: (p − 1)/(m + p − 1).

    For stages that take equally long, forward and backward once per micro-batch (GPipe, Huang et
    al. 2019; 1F1B has the same bubble).
    """
    stages, microbatches = count("stages", stages), count("microbatches", microbatches)
    return within_floats("stages", lambda: (stages - 1) / (microbatches + stages - 1))


def tensor_parallel_bytes(
    tokens: int, width: int, layers: int, devices: int, *, element_bytes: int = 2
) -> float:
    """Bytes that each device sends in a training step when every block is split over `devices`.

    Two all-reduces of the signal in the forward pass of a block, after attention and after the
    feed-forward part, and two in the backward pass (Megatron-LM, Shoeybi et al. 2019, section 3).
    """
    signal = count("tokens", tokens) * count("width", width) * count("element_bytes", element_bytes)
    others, passed = count("devices", devices) - 1, 8 * count("layers", layers) * signal
    names = "tokens, width, layers, devices and element_bytes"
    return within_floats(names, lambda: passed * others / (others + 1))


def checkpoint_interval(save_seconds: float, seconds_between_failures: float) -> float:
    """Seconds of work between two checkpoints that lose least: √(2·δ·M) (Young 1974).

    δ is the time to save, M the mean time between failures of the whole machine. A first-order
    result for δ well below M; `lost_share` is what it makes smallest.
    """
    save = positive("save_seconds", save_seconds)
    between = positive("seconds_between_failures", seconds_between_failures)
    names = "save_seconds and seconds_between_failures"
    return within_floats(names, lambda: sqrt(2 * save) * sqrt(between))


def lost_share(
    interval: float,
    save_seconds: float,
    seconds_between_failures: float,
    restart_seconds: float = 0,
) -> float:
    """The share of the time that checkpoints and failures cost, to first order: δ/τ + (τ/2 + R)/M.

    Saving takes δ of every τ = `interval` seconds; a failure, every M seconds, throws away half an
    interval in the mean and takes R to start again. May exceed 1 where the order does not hold.
    """
    every, save = positive("interval", interval), positive("save_seconds", save_seconds)
    between = positive("seconds_between_failures", seconds_between_failures)
    restart = number("restart_seconds", restart_seconds, at_least=0)
    names = "interval, save_seconds, seconds_between_failures and restart_seconds"
    return within_floats(names, lambda: save / every + (every / 2 + restart) / between)


def _stage(stage: int) -> int:
    return int(number("stage", stage, at_least=0, at_most=3, whole=True))
