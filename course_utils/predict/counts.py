"""Bytes, strides, FLOPs and seconds of tensors and operations, and of a whole training run."""

from dataclasses import dataclass, fields
from math import ceil, inf, prod

from course_utils.arguments import (
    choice,
    count,
    number,
    one_of,
    positive,
    shape,
    share,
    within_floats,
)

SECONDS_PER_DAY = 24 * 60 * 60

ELEMENT_BYTES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}


@dataclass(frozen=True)
class Recipe:
    """Bytes that a training recipe keeps for each parameter, by what they are for.

    Raises TypeError or ValueError for what is not a finite number of at least 0.
    """

    parameters: float
    gradients: float
    master_copy: float
    optimizer: float

    def __post_init__(self) -> None:
        for kept in fields(self):
            value = number(kept.name, getattr(self, kept.name), at_least=0)
            object.__setattr__(self, kept.name, value)

    @property
    def total(self) -> float:
        """Bytes per parameter, activations not counted."""
        return self.parameters + self.gradients + self.master_copy + self.optimizer


RECIPES = {
    "SGD, fp32": Recipe(4, 4, 0, 0),
    "AdamW, fp32": Recipe(4, 4, 0, 8),
    "AdamW, bf16 + fp32 master": Recipe(2, 2, 4, 8),
    "AdamW, bf16 + fp32 master and gradients": Recipe(2, 4, 4, 8),
    "AdamW, bf16, fp32 state": Recipe(2, 2, 0, 8),
    # torch.optim's, for a model of bf16 parameters: its state has the parameters' format.
    "AdamW, all in bf16": Recipe(2, 2, 0, 4),
}


def elements(sizes: tuple[int, ...]) -> int:
    """Number of elements of a tensor of shape `sizes`; 1 for the empty shape ()."""
    return prod(shape("sizes", sizes))


def tensor_bytes(sizes: tuple[int, ...], dtype: str = "float32") -> int:
    """Bytes of the elements of a tensor of shape `sizes`: elements × bytes per element."""
    return elements(sizes) * ELEMENT_BYTES[one_of("dtype", dtype, ELEMENT_BYTES)]


def position(index: tuple[int, ...], stride: tuple[int, ...], offset: int = 0) -> int:
    """Where element `index` lies in storage: offset + Σ index·stride, counted in elements."""
    index, stride = shape("index", index), shape("stride", stride)
    if len(index) != len(stride):
        raise ValueError(
            f"index and stride must have the same length, got {len(index)} and {len(stride)}"
        )
    steps = (i * s for i, s in zip(index, stride, strict=True))
    return count("offset", offset, at_least=0) + sum(steps)


def matmul_flops(B: int, D: int, K: int, *, batch: int = 1) -> int:
    """FLOPs of (B×D) @ (D×K), `batch` times: 2·B·D·K, a multiply and an add per term.

    The exact count is (2D − 1)·B·K, since a sum of D terms needs D − 1 additions; the usual
    formula exceeds it by a share of about 1/(2D).
    """
    return 2 * count("B", B) * count("D", D) * count("K", K) * count("batch", batch)


def training_flops(parameters: float, tokens: float) -> float:
    """FLOPs of a training run by the 6·N·T rule: per parameter and token 2 forward, 4 backward.

    Attention's matmuls between tokens are left out (chapter 10 counts them). Source: Kaplan et al.
    2020, "Scaling Laws for Neural Language Models", section 2.1.
    """
    parameters, tokens = positive("parameters", parameters), positive("tokens", tokens)
    return within_floats("parameters and tokens", lambda: 6 * parameters * tokens)


def training_days(
    parameters: float, tokens: float, *, devices: int, peak: float, mfu: float
) -> float:
    """Days that 6·N·T FLOPs take on `devices` devices of `peak` FLOP/s, at an `mfu` in (0, 1]."""
    devices, peak, mfu = count("devices", devices), positive("peak", peak), share("mfu", mfu)
    work = training_flops(parameters, tokens)
    return within_floats(
        "parameters, tokens, devices, peak and mfu",
        lambda: _ratio(work, devices * peak * mfu * SECONDS_PER_DAY),
    )


def largest_model(
    memory: float, bytes_per_parameter: float, *, devices: int = 1, sharded: bool = True
) -> float:
    """Parameters that fit on `devices` devices of `memory` bytes, activations not counted.

    Sharded, each device holds its part of the model; copied (`sharded=False`), each holds the
    whole, so that more devices do not help.
    """
    devices, memory = count("devices", devices), positive("memory", memory)
    each = positive("bytes_per_parameter", bytes_per_parameter)
    together = devices if choice("sharded", sharded) else 1
    return within_floats(
        "memory, bytes_per_parameter and devices", lambda: _ratio(memory * together, each)
    )


def seconds(work: float, rate: float) -> float:
    """Seconds that `work` (FLOPs or bytes) takes at `rate` (FLOP/s or B/s)."""
    work, rate = number("work", work, at_least=0), positive("rate", rate)
    return within_floats("work and rate", lambda: _ratio(work, rate))


def ceil_to_whole(value: float) -> int:
    """The smallest whole number that is at least `value`."""
    return ceil(number("value", value))


def intensity(flops: float, nbytes: float) -> float:
    """Arithmetic intensity: FLOPs for each byte that is moved to and from memory."""
    flops, nbytes = number("flops", flops, at_least=0), positive("nbytes", nbytes)
    return within_floats("flops and nbytes", lambda: _ratio(flops, nbytes))


def roofline_seconds(flops: float, nbytes: float, *, peak: float, bandwidth: float) -> float:
    """Seconds by the roofline: computing and moving overlap fully, so the longer of the two counts.

    Source: Williams, Waterman, Patterson 2009, "Roofline: an insightful visual performance model".
    """
    flops, nbytes = number("flops", flops, at_least=0), number("nbytes", nbytes, at_least=0)
    peak, bandwidth = positive("peak", peak), positive("bandwidth", bandwidth)
    return within_floats(
        "flops, nbytes, peak and bandwidth",
        lambda: max(_ratio(flops, peak), _ratio(nbytes, bandwidth)),
    )


def _ratio(work: float, rate: float) -> float:
    """The work over its rate; OverflowError where a float cannot hold the rate, or the result."""
    if rate in (0, inf) or (work and not work / rate):
        raise OverflowError
    return work / rate
