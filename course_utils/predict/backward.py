"""What the backward pass of `train.transformer` allocates (+) and frees (−), in its order.

A term is a product of sizes: r rows (batch × tokens), d width, q and k the widths of queries and of
keys, h hidden, H heads, V vocabulary, C context, T tokens, w a head's width; ½ is a half of it. So
"+rd" is a gradient of the layer's input, "+dh" one of a weight, "-rh" an activation that is freed.
The lists are what autograd does in the processor's kernels; tests hold them to measured steps.
"""

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import accumulate
from math import prod

from course_utils.predict.configs import TransformerConfig

# x + norm(x): the norm's own gradients, then the sum of both ways.
_GPT_NORM = "+rd +d +d -rd -rd -r -r"
_RMS_IN = "+rd +rd +d -rd -rd -rd +rd +rd +r -rd -rd"
_RMS_OUT = "+r +r +r -r -r -r -r +rd -r +rd +rd +rd -rd -rd -rd -rd +rd -rd -rd"
_SUM = "+rd -rd -rd"
_LOSS = "+rV -1 +rV -rV -rV +Vd +rd -rV"  # and the output layer

OUTPUT = {
    "gpt": f"{_LOSS} -rd {_GPT_NORM}",
    "llama": f"{_LOSS} -rd {_RMS_IN} {_RMS_OUT}",
}
_ROTATED = "+r{0} {1} +½r{0} +r{0} -r{0} {1} +r{0} -r{0} -½r{0} +r{0} -r{0} -r{0}"
LAYER = {
    "gpt": f"""+rh +dh +d -rh  +rh -rh -rh  +rd +dh +h -rh -rd  {_GPT_NORM} {_SUM}
        +rq +dq +d  +rq +rk +rk -rq -rq -2rk -rH -rq  +rq +2rk -rq -rk -rk
        +rd +dq +2dk +q +2k -rq -2rk -rd  {_GPT_NORM} {_SUM}""",
    "llama": f"""+dh +rh -rh +rh +rh -rh -rh -rh +dh +rd -rh +rh -rh -rh +dh +rd -rh -rd +rd -rd -rd
        {_RMS_IN} {_SUM} {_RMS_OUT}
        +dq +rq +rq +rk +rk -rq -rk -rq -rk -rH -rq
        {_ROTATED.format("k", "")} {_ROTATED.format("q", "(table)")}
        +dk +rd -rk +dk +rd -rk +rd -rd -rd +dq +rd -rq -rd +rd -rd -rd
        {_RMS_IN} {_SUM} {_RMS_OUT}""",
}
EMBEDDING = {"gpt": "+Td +Cd -Td -2T +Vd -rd", "llama": "+Vd -rd"}
TIED = "+Vd -Vd -Vd"  # its gradient is a sum of two
TERM = re.compile(r"([+-])(\d*)(½?)([a-zA-Z]*)")


def moments(config: TransformerConfig, batch: int, tokens: int) -> dict[str, int]:
    """The most numbers held in each part of the backward pass, less those at its beginning.

    From one layer to the next the amounts change by the same number, so that the first or the last
    one holds the most.
    """
    sizes = {
        "r": batch * tokens, "d": config.width, "q": config.q_width, "k": config.kv_width,
        "h": config.hidden, "H": config.heads, "V": config.vocabulary, "C": config.context,
        "T": tokens, "w": config.head_width,
    }  # fmt: skip
    layer = LAYER[config.style]
    between, first = layer.replace("(table)", ""), layer.replace("(table)", "-Tw")
    end = f"{EMBEDDING[config.style]} {TIED if config.tied else ''}"
    at, found = 0, {}
    for name, terms, times in (
        ("loss", OUTPUT[config.style], 1),
        ("last layer", between if config.layers > 1 else first, 1),
        ("", between, max(0, config.layers - 2)),
        ("first layer", first, int(config.layers > 1)),
        ("embedding", end, 1),
    ):
        held = list(accumulate(_numbers(terms, sizes)))
        if name and times:
            found[f"backward, {name}"] = at + max(held)
        at += times * held[-1]
    return found


def _numbers(terms: str, sizes: Mapping[str, int]) -> Iterator[int]:
    """How many numbers each term adds or takes away."""
    for term in terms.split():
        sign, times, half, letters = TERM.fullmatch(term).groups()
        count = Fraction(int(times or 1), 2 if half else 1) * prod(sizes[s] for s in letters)
        yield int(count if sign == "+" else -count)
