"""The loss-scale explorer: its shares against casts of drawn numbers, its limits, its words."""

import math
from statistics import NormalDist

import numpy as np
import pytest
import torch

from course_utils import explore, formats
from course_utils.explore import gradients

DTYPES = {
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "E4M3": torch.float8_e4m3fn,
    "E5M2": torch.float8_e5m2,
}
N, V = 8192, 50_257
START = -math.log2(N * V * math.e**0.5)


def shown(name="fp16", typical=-10, spread=2.0, scale=0):
    """The explorer with these values."""
    explorer = explore.loss_scale()
    explorer.write(name=name, typical=typical, spread=spread, scale=scale)
    assert explorer.values() == explorer._drawn
    return explorer


def said(explorer):
    """The share of each region, as the words say it."""
    line = explorer.current.text.splitlines()[1].partition("left to right: ")[2]
    parts = dict(part.rsplit(": ", 1) for part in line.rstrip(".").split("; "))
    return {kind: float(share.strip("<> %")) / 100 for kind, share in parts.items()}


def sentence(explorer):
    """Which scales will do."""
    return explorer.current.text.splitlines()[4]


def ends(name):
    return gradients._ends(formats.FORMATS[gradients.FORMATS[name]])


def held(value, name):
    """What the format makes of a value, by the bits of chapter 02."""
    kind = gradients.FORMATS[name]
    return formats.decode(formats.encode(value, kind), kind)


@pytest.mark.parametrize("name", DTYPES)
def test_the_regions_end_where_the_format_says(name):
    lost, normal, top = (2.0**end for end in ends(name))
    info = torch.finfo(DTYPES[name])
    assert normal == info.smallest_normal
    assert held(lost, name) == 0 < held(lost * 1.00001, name) < normal
    assert held(top * 0.99999, name) == info.max and not math.isfinite(held(top * 1.00001, name))


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize(("typical", "spread", "scale"), [(-20, 3.0, 5), (0, 6.0, 4), (-8, 2.0, 0)])
def test_shares_are_those_of_a_million_gradients_that_are_cast(name, typical, spread, scale):
    """But for what lies beyond E4M3's largest: this torch cuts it, another one makes it NaN."""
    drawn = torch.randn(10**6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    scaled = 2.0 ** (typical + spread * drawn + scale)
    cast = scaled.to(DTYPES[name]).double()
    beyond = scaled > 448 + 32 / 2 if name == "E4M3" else cast.isinf()
    small = (cast != 0) & (scaled < torch.finfo(DTYPES[name]).smallest_normal)
    masks = (cast == 0, small, (cast != 0) & ~small & ~beyond, beyond)
    counted = [mask.double().mean().item() for mask in masks]
    shares = list(said(shown(name, typical, spread, scale)).values())
    assert shares == pytest.approx(counted, abs=2e-3) and sum(shares) == pytest.approx(1, abs=2e-4)


def test_the_button_s_language_model_is_the_closed_form_of_the_chapter():
    explorer = shown()
    button = explorer.box.children[1].children[1]
    assert button.description == "language model at its start"
    button.click()
    assert explorer.values() == {
        "name": "fp16", "typical": START, "spread": math.log2(math.e), "scale": 0
    }  # fmt: skip
    for power in range(0, 31, 6):
        explorer.controls["scale"].value = power
        edge = 2**-25 / 2.0**power * N * V * math.e**0.5
        expected = NormalDist().cdf(math.log(edge))
        assert said(explorer)["becomes 0"] == pytest.approx(expected, rel=0.05, abs=1e-6)
    assert "99.87 % of the gradients become 0" in explore.loss_scale().current.text


def test_the_button_draws_once():
    explorer, drawn = shown(), []
    draw = explorer._picture
    explorer._picture = lambda **values: drawn.append(values) or draw(**values)
    explorer.box.children[1].children[1].click()
    assert len(drawn) == 1 and drawn[0]["typical"] == START


def test_a_measured_gradient_loses_what_the_language_model_foretells():
    scores = torch.randn(64, V, generator=torch.Generator().manual_seed(0))
    gradient = scores.softmax(-1) / N  # of every token's logit that is not the right one
    for power in (0, 4, 8):
        lost = ((gradient * 2.0**power).half() == 0).float().mean().item()
        share = said(shown("fp16", START, math.log2(math.e), power))["becomes 0"]
        assert lost == pytest.approx(share, rel=0.03, abs=1e-4)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("spread", gradients.SPREADS)
@pytest.mark.parametrize("typical", [-40, -29, START, -12, 0])
def test_the_scales_that_will_do_are_those_whose_shares_say_so(name, spread, typical):
    lost, _, top = ends(name)
    at_start = (typical, spread) == (START, math.log2(math.e))
    good = [
        power
        for power in range(-200, 201)
        if NormalDist().cdf((lost - typical - power) / spread) < 1e-3
        and NormalDist().cdf((typical + power - top) / spread) < 1e-9
        and not (at_start and power - 13 >= top)
    ]
    words = gradients._which(name, NormalDist(typical, spread), ends(name), at_start)
    here = [power for power in good if 0 <= power <= 30]
    if not good:
        assert words.startswith("No S leaves ") and "too few powers of two" in words
        return
    first, last = (gradients._power((here or good)[place]) for place in (0, -1))
    named = f"S = {first} alone" if first == last else f"S from {first} to {last}"
    assert words.startswith(f"{named} leaves") if here else words.endswith(f"; {named} would.")


def test_the_right_tokens_gradients_of_a_language_model_are_counted_too():
    """About 1/N: 2¹⁶ once scaled by 2²⁹, which fp16 cannot hold."""
    explorer = shown("fp16", START, math.log2(math.e))
    assert sentence(explorer).startswith("S from 2⁹ to 2²⁸ leaves")
    assert "about 1/N = 2⁻¹³ and not drawn. They are too large from S = 2²⁹ on." in (
        explorer.current.text
    )
    right = torch.tensor((1 - 1 / V) / N)
    assert (right * 2.0**29).half().isinf() and (right * 2.0**28).half().isfinite()
    explorer.controls["name"].value = "bf16"
    assert "They are too large" not in explorer.current.text
    explorer.controls["spread"].value = 2.0
    assert "language model" not in explorer.current.text


def test_the_words():
    assert shown("E4M3", -10, 2.0, 7).current.text.splitlines() == [
        "Histogram, the x axis in powers of two. E4M3 at S = 2⁷: 0.023 % of the gradients become "
        "0, < 0.0001 % too large",
        "The fullest bin begins at 2^-3.50. An outline shows them before. Regions from left to "
        "right: becomes 0: 0.023 %; subnormal, fewer digits: 6.657 %; normal: 93.32 %; too large: "
        "< 0.0001 %.",
        "E4M3: up to 2⁻¹⁰ a number becomes 0, below 2⁻⁶ it is subnormal, and what is rounded "
        "beyond 448 is cut to 448 or NaN, since E4M3 has no infinity.",
        "Gradients are log-normal: two thirds lie within a factor of 2² of 2⁻¹⁰. Shares are "
        "closed forms; 0 % is less than one in a billion.",
        "No S leaves fewer than 0.1 % at 0 and none too large (less than one in a billion): E4M3 "
        "has too few powers of two for these gradients.",
    ]
    assert gradients._range([3]) == "= 2³ alone"


@pytest.mark.parametrize(
    ("share", "words"),
    [(0.0, "0 %"), (9e-10, "0 %"), (2e-9, "< 0.0001 %"), (1.5e-6, "0.00015 %"), (0.5, "50 %"),
     (0.99868, "99.87 %"), (0.999999, "> 99.99 %"), (1.0, "100 %"), (0.012345, "1.234 %")],
)  # fmt: skip
def test_shares_in_words(share, words):
    assert gradients._percent(share) == words


def test_the_histogram_moves_with_the_scale():
    tops = []
    for power in (0, 7, 30):
        (ax,) = shown(scale=power).current.figure.axes
        polygon = next(patch for patch in ax.patches if patch.get_zorder() == 2)
        x, y = np.array(polygon.get_xy()).T
        tops.append(x[y.argmax()])
    assert [top - tops[0] for top in tops] == [0, 7, 30]
