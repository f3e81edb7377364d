"""The loss-scale explorer: which gradients a format keeps, and which S moves them into range."""

from collections.abc import Sequence
from itertools import pairwise
from math import e, inf, log2
from statistics import NormalDist

import ipywidgets as widgets

from course_utils import draw, formats, predict, units
from course_utils.draw.picture import Picture
from course_utils.explore.panel import Explorer, buttons, slider

FORMATS = {"fp16": "float16", "bf16": "bfloat16", "E4M3": "float8_e4m3fn", "E5M2": "float8_e5m2"}
# A language model at its start: its logits are standard normal, so a token's p is e^z / (V·√e), and
# the gradient of a wrong token's logit is p / N. In powers of two this is normal again.
TOKENS, VOCABULARY = 8192, predict.preset("GPT-2 small").vocabulary
START = {"typical": -log2(TOKENS * VOCABULARY * e**0.5), "spread": log2(e)}
TYPICAL = sorted([*range(-40, 1), START["typical"]])
SPREADS = sorted([0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, START["spread"]])
SCALES = range(31)
SEARCHED = range(-200, 201)  # where a scale is looked for if none of the slider's will do
FIRST, BIN, BINS = -60, 0.5, 200  # of the histogram, in powers of two
FEW, NOTHING = 1e-3, 1e-9  # the shares that count as few, and as nothing
Ends = tuple[float, float, float]


class ScaleExplorer(Explorer):
    """A format, a distribution of gradients and a loss scale; a button for a language model's."""

    def __init__(self) -> None:
        kind = widgets.SelectionSlider
        sizes, scales = ([(units.power_of_two(n), n) for n in each] for each in (TYPICAL, SCALES))
        spreads = [(f"{spread:.3g}", spread) for spread in SPREADS]
        controls = {
            "name": buttons("format", list(FORMATS), "fp16"),
            "typical": slider(kind, "typical size", options=sizes, value=START["typical"]),
            "spread": slider(kind, "spread", options=spreads, value=START["spread"]),
            "scale": slider(kind, "loss scale S", options=scales, value=0),
        }
        super().__init__(controls, _picture)
        button = widgets.Button(
            description="language model at its start",
            tooltip=f"write its typical size and spread, for {TOKENS:,} tokens",
            layout={"width": "auto"},
        )
        button.on_click(lambda _: self.write(**START))
        label = widgets.Label(
            "gradients of", layout={"width": "11em", "justify_content": "flex-end"}
        )
        name, *shown = self.box.children
        self.box.children = (name, widgets.HBox([label, button]), *shown)


def loss_scale() -> ScaleExplorer:
    """Gradients times a loss scale S: how many become 0 or infinite in fp16, bf16 and fp8.

    They are log-normal, so that every share is a closed form: nothing is drawn at random.
    """
    return ScaleExplorer()


def _picture(name: str, typical: float, spread: float, scale: int) -> Picture:
    form = formats.FORMATS[FORMATS[name]]
    before, gradients = NormalDist(typical, spread), NormalDist(typical + scale, spread)
    ends = _ends(form)
    shares = [_percent(share) for share in _shares(gradients, ends)]
    too_large = "infinite" if form.infinite else "too large"
    kinds = ("becomes 0", "subnormal, fewer digits", "normal", too_large)
    named = [f"{kind}: {share}" for kind, share in zip(kinds, shares, strict=True)]
    lost = f"{shares[0]} of the gradients become 0, {shares[-1]} {too_large}"
    picture = draw.magnitudes(
        _bins(gradients),
        FIRST,
        BIN,
        dict(zip(named, pairwise((-inf, *ends, inf)), strict=True)),
        title=f"{name} at S = {units.power_of_two(scale)}: {lost}",
        before=_bins(before) if scale else (),
    )
    at_start = (typical, spread) == (*START.values(),)
    lines = [
        picture.text,
        _edges(name, form),
        f"Gradients are log-normal: two thirds lie within a factor of {_power(spread)} of "
        f"{_power(typical)}. Shares are closed forms; 0 % is less than one in a billion.",
        _which(name, before, ends, at_start),
        *([_language_model(ends)] if at_start else []),
    ]
    return Picture(picture.figure, "\n".join(lines))


def _power(exponent: float) -> str:
    return units.power_of_two(exponent)


def _ends(form: formats.Format) -> Ends:
    """The powers of two from which on a number stays, is normal, and is too large.

    Half of the smallest number is a tie, which goes to 0. Half a step above the largest is one,
    too, which leaves the format.
    """
    step = 2.0 ** (form.largest_exponent - form.mantissa_bits)
    top = log2(float(form.largest) + step / 2)
    return log2(form.smallest_subnormal) - 1, float(form.smallest_exponent), top


def _shares(gradients: NormalDist, ends: Ends) -> list[float]:
    """Of gradients with such exponents: those that become 0, subnormal, normal, too large."""
    lost, subnormal, top = (gradients.cdf(end) for end in ends)
    mirrored = NormalDist(-gradients.mean, gradients.stdev)  # 1 − cdf would end at 1e-16
    return [lost, subnormal - lost, top - subnormal, mirrored.cdf(-ends[-1])]


def _bins(gradients: NormalDist) -> list[float]:
    """The share of gradients in each bin of the histogram."""
    edges = (FIRST + BIN * i for i in range(BINS + 1))
    return [max(0.0, high - low) for low, high in pairwise(map(gradients.cdf, edges))]


def _percent(share: float) -> str:
    if share < NOTHING:
        return "0 %"
    words = units.digits(100 * share, 4 if share >= 0.01 else 2)
    if words == "100" and share < 1 - NOTHING:
        return "> 99.99 %"
    return f"{words} %" if share >= 1e-6 else "< 0.0001 %"


def _edges(name: str, form: formats.Format) -> str:
    """Where the regions of the format end."""
    lost, normal, top = _ends(form)
    largest = units.digits(float(form.largest), 5)
    cut = f"is cut to {largest} or NaN, since {name} has no infinity"
    ends = "is infinite" if form.infinite else cut
    return (
        f"{name}: up to {_power(lost)} a number becomes 0, below {_power(normal)} it is subnormal, "
        f"and what is rounded beyond {largest} {ends}."
    )


def _which(name: str, gradients: NormalDist, ends: Ends, at_start: bool) -> str:
    """Which loss scales keep nearly all gradients."""
    here = _good(gradients, ends, SCALES, at_start)
    kept = "fewer than 0.1 % at 0 and none too large (less than one in a billion)"
    if here:
        return f"S {_range(here)} leaves {kept}."
    other = _good(gradients, ends, SEARCHED, at_start)
    if other:
        return f"No S of the slider leaves {kept}; S {_range(other)} would."
    return f"No S leaves {kept}: {name} has too few powers of two for these gradients."


def _good(gradients: NormalDist, ends: Ends, scales: Sequence[int], at_start: bool) -> list[int]:
    """The scales, as powers of two, that lose few gradients to 0 and make none too large."""
    good = []
    for scale in scales:
        moved = NormalDist(gradients.mean + scale, gradients.stdev)
        lost, *_, beyond = _shares(moved, ends)
        right_token = at_start and scale - log2(TOKENS) >= ends[-1]
        if lost < FEW and beyond < NOTHING and not right_token:
            good.append(scale)
    return good


def _range(scales: Sequence[int]) -> str:
    """From the first scale to the last: there is no gap between them."""
    first, last = (_power(scales[place]) for place in (0, -1))
    return f"= {first} alone" if first == last else f"from {first} to {last}"


def _language_model(ends: Ends) -> str:
    """What the distribution stands for at the start, and which gradients it leaves out."""
    too_large = next((n for n in SCALES if n - log2(TOKENS) >= ends[-1]), None)
    limit = f" They are too large from S = {_power(too_large)} on." if too_large is not None else ""
    return (
        f"A language model at its start: a wrong token's logit has the gradient p / N, with N = "
        f"{TOKENS:,} tokens and p about 1/V, V = {VOCABULARY:,}. The right tokens', one in V, are "
        f"about 1/N = {_power(-log2(TOKENS))} and not drawn.{limit}"
    )
