"""The explorer of initial scales: its networks against drawn weights, its words and buttons."""

import math
from itertools import product

import ipywidgets as widgets
import numpy as np
import pytest

from course_utils import explore, predict
from course_utils.explore import initialisation, networks

ACTIVATIONS = ["none", "relu", "tanh"]


def shown(activation="relu", depth=30, width=256, scale=1.0):
    """The explorer's picture with these values."""
    return initialisation._picture(activation, depth, width, scale)


def many(monkeypatch, draws, depth, width, seed=0):
    """Let the explorer's networks have other draws, and more of them."""
    noise = np.random.default_rng(seed).standard_normal((2, depth + 1, draws, width))
    monkeypatch.setattr(networks, "noise", lambda: noise)


def through_weights(activation, depth, width, s, source):
    """RMS of each output and of its gradient in one network, every weight drawn."""
    apply = {"none": lambda z: z, "relu": lambda z: z * (z > 0), "tanh": np.tanh}[activation]
    slope = {"none": np.ones_like, "relu": lambda z: z > 0, "tanh": lambda z: 1 - np.tanh(z) ** 2}
    outputs, entered = [source.standard_normal(width)], []
    outputs[0] /= np.sqrt((outputs[0] ** 2).mean())
    weights = source.normal(0, s, (depth, width, width))
    for w in weights:
        entered.append(outputs[-1] @ w)
        outputs.append(apply(entered[-1]))
    gradients = [source.standard_normal(width)]
    gradients[0] /= np.sqrt((gradients[0] ** 2).mean())
    for w, z in zip(weights[::-1], entered[::-1], strict=True):
        gradients.append(w @ (slope[activation](z) * gradients[-1]))
    return [[np.sqrt((x**2).mean()) for x in way] for way in (outputs, gradients[::-1])]


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_networks_have_the_distribution_of_drawn_weights(monkeypatch, activation):
    depth, width, s, count = 6, 16, 1.3 * 16**-0.5, 3000
    many(monkeypatch, count, depth, width)
    found = np.log(np.maximum(networks.scales(activation, depth, width, s), 1e-300))
    source = np.random.default_rng(1)
    whole = [through_weights(activation, depth, width, s, source) for _ in range(count)]
    whole = np.log(np.maximum(whole, 1e-300)).transpose(1, 0, 2)
    alive = [(x[..., [0, -1]] > -300).all(-1) for x in (found, whole)]
    for way, layer in product((0, 1), range(depth + 1)):
        one, other = (x[way, ok[way], layer] for x, ok in zip((found, whole), alive, strict=True))
        assert _farthest(one, other) < 1.95 * (2 / count) ** 0.5, (way, layer)  # one in 1000


def _farthest(one, other):
    """The distance of Kolmogorov and Smirnov between two samples."""
    every = np.sort(np.concatenate([one, other]))
    shares = (np.searchsorted(np.sort(x), every, "right") / len(x) for x in (one, other))
    first, second = shares
    return abs(first - second).max() if every[-1] > every[0] + 1e-12 else 0.0


@pytest.mark.parametrize(("activation", "depth", "width"),
                         [("none", 20, 16), ("relu", 20, 32), ("relu", 60, 64), ("none", 60, 512),
                          ("relu", 60, 16)])  # fmt: skip
def test_the_band_holds_95_of_100_draws_and_half_lie_below_its_middle(
    monkeypatch, activation, depth, width
):
    count = 400
    many(monkeypatch, count, depth, width)
    s = (2 / width) ** 0.5
    drawn = networks.scales(activation, depth, width, s)
    found = predict.layer_scale(width, s, activation)
    _, middle, low, high = initialisation._over_layers(found, depth)
    for scales, at in ((drawn[0], -1), (drawn[0], depth // 2), (drawn[1][:, ::-1], -1)):
        inside = (scales[:, at] > low[at]) & (scales[:, at] < high[at])
        assert abs(inside.mean() - 0.95) < 4 * (0.05 * 0.95 / count) ** 0.5
        assert abs((scales[:, at] < middle[at]).mean() - 0.5) < 0.11


def test_the_panels_are_the_draws_the_arithmetic_and_the_band():
    figure = shown("relu", 12, 64, 1.2).figure
    drawn = networks.scales("relu", 12, 64, 1.2 * (2 / 64) ** 0.5)
    for ax, draws, way in zip(figure.axes, drawn, (1, -1), strict=True):
        (dashed,) = (line for line in ax.lines if line.get_linestyle() == "--")
        (thin,) = (line for line in ax.lines if np.isnan(line.get_xdata()).any())
        values = np.array(thin.get_ydata())
        values = values[~np.isnan(values)]
        assert np.array_equal(values, draws.ravel())
        assert np.allclose(dashed.get_ydata()[::way], 1.2 ** np.arange(13), rtol=1e-12, atol=0)
        top = ax.collections[0].get_paths()[0].vertices.max(0)[1]
        assert top > dashed.get_ydata().max()
    assert [draws[:, at].tolist() for draws, at in zip(drawn, (0, -1), strict=True)] == [
        pytest.approx([1] * 5, rel=1e-12)
    ] * 2


def test_tanh_shows_draws_alone_and_says_so():
    picture = shown("tanh", 60, 512)
    for ax in picture.figure.axes:
        assert not ax.collections and not any(line.get_linestyle() == "--" for line in ax.lines)
    assert "one factor for all layers does not exist: the lines are 5 draws" in picture.text
    assert "signal kept, gradients exploding" in picture.text
    signal, gradient = networks.scales("tanh", 60, 512, (2 / 512) ** 0.5)
    assert f"RMS ends at {np.median(signal[:, -1]):.3g}, " in picture.text
    assert f"at the input, at {np.median(gradient[:, 0]):.3g}, " in picture.text


def test_the_words_of_a_kept_signal():
    assert explore.signals().current.text.splitlines() == [
        "Two charts over the layers, y logarithmic. ReLU, 30 layers of width 256, s = 0.08839: "
        "kept",
        "Arithmetic: on average a layer multiplies the RMS by s·√(D/2) = 1, all 30 by 1; the "
        "signal's on the way to the last layer, the gradient's on the way back to the first.",
        "Draws of the weights differ: half of them end below 0.863, and 95 % between 0.405 and "
        "1.84. The wider the layers, the narrower the band.",
        "Both stay in the range of fp32.",
    ]


@pytest.mark.parametrize(
    ("values", "fate"),
    [(("relu", 30, 256, 0.7071), "vanishing"), (("relu", 30, 256, 2.0), "exploding"),
     (("relu", 6, 256, 0.7071), "kept"), (("none", 30, 256, 0.7071), "kept"),
     (("none", 30, 256, 1.0), "exploding"), (("relu", 60, 16, 1.0), "vanishing"),
     (("tanh", 60, 256, 0.5), "vanishing"), (("tanh", 30, 256, 0.75), "kept")],
)  # fmt: skip
def test_what_becomes_of_it_is_said_in_a_word(values, fate):
    assert shown(*values).text.splitlines()[0].endswith(f": {fate}")


@pytest.mark.parametrize("scale", [15.0, 4.0, 0.1, 0.02])
def test_the_layer_that_leaves_fp32_is_named(scale):
    text = shown("relu", 60, 512, scale).text.splitlines()[-1]
    limit, how = (3.4028e38, "passes the largest") if scale > 1 else (1.4013e-45, "becomes 0")
    layer = math.ceil(math.log(limit) / math.log(scale))
    if layer > 60:
        assert text == "Both stay in the range of fp32."
    else:
        assert f"In fp32 the signal {how}" in text and f"in layer {layer}; so does" in text
        assert text.endswith(f"the gradient, on its way back, in layer {60 - layer}.")


def test_one_of_the_two_may_leave_fp32_alone():
    fine, small, large = np.ones(9), np.r_[np.ones(5), [1e-50] * 4], np.r_[np.ones(7), [1e39] * 2]
    words = initialisation._in_fp32
    assert words(fine, fine) == "Both stay in the range of fp32."
    assert words(small, fine).startswith("In fp32 the signal becomes 0, below")
    assert words(small, fine).endswith("in layer 5.")
    assert words(fine, large[::-1]).startswith("In fp32 the gradient, on its way back, passes")
    assert words(fine, large[::-1]).endswith("in layer 1.")
    both = words(small, large[::-1])
    assert "in layer 5; the gradient, on its way back, passes" in both and both.endswith("layer 1.")


EXTREMES = list(product(ACTIVATIONS, (1, 60), (16, 512), (0.01, 1.0, 32.0)))


@pytest.mark.parametrize("values", EXTREMES)
def test_nothing_overflows_and_nothing_is_lost(values):
    activation, depth, width, scale = values
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        drawn = networks.scales(activation, depth, width, scale * (2 / width) ** 0.5)
        assert "nan" not in shown(*values).text
    assert all(np.isfinite(each).all() and (each > 0).all() for each in drawn)
    assert all(each.shape == (5, depth + 1) and each.dtype == float for each in drawn)


def test_a_network_without_an_active_unit_ends_there(monkeypatch):
    many(monkeypatch, 5, 60, 16)
    networks.noise()[0, 3] = -1  # no unit of layer 3 is active, in any draw
    signal, gradient = networks.scales("relu", 8, 16, 1.0)
    assert (signal[:, 3:] == 0).all() and (gradient[:, :8] == 0).all()
    assert (signal[:, :3] > 0).all() and (gradient[:, 8] > 0).all()
    assert "nan" not in shown("relu", 8, 16).text


def test_the_same_values_have_the_same_picture_and_deeper_ones_the_same_first_layers():
    assert shown().quick() == shown().quick()
    short, long = (networks.scales("relu", depth, 64, 0.2)[0] for depth in (10, 20))
    assert np.array_equal(short, long[:, :11])


@pytest.mark.parametrize("width", [16, 80, 512])
def test_a_scheme_s_button_writes_its_scale_for_the_width_and_draws_once(monkeypatch, width):
    explorer, drawn = explore.signals(), []
    explorer.controls["width"].value = width
    explorer.controls["scale"].value = 1.5
    draw = explorer._picture
    monkeypatch.setattr(explorer, "_picture", lambda **v: drawn.append(v) or draw(**v))
    stds = {
        "LeCun, Xavier": width**-0.5,
        "Kaiming": (2 / width) ** 0.5,
        "s = 1": 1,
        "s = 0.01": 0.01,
    }
    assert list(explorer._schemes) == list(stds)
    for name, button in explorer._schemes.items():
        drawn.clear()
        button.click()
        (values,) = drawn
        assert values["scale"] * (2 / width) ** 0.5 == pytest.approx(stds[name], rel=1e-5)
        assert f"s = {stds[name]:.4g}:" in explorer.current.text
        assert name in button.tooltip


def test_the_scale_is_fine_near_kaiming_s_and_the_buttons_stand_above_it():
    explorer = explore.signals()
    grid = explorer.controls["scale"]._grid
    assert grid[0] == 0.5 and grid[-1] == 2 and {0.98, 0.99, 1, 1.01, 1.02} < set(grid)
    row, scale = explorer.box.children[3:5]
    assert scale is explorer.controls["scale"].box
    assert [child.description for child in row.children[1:]] == list(initialisation.SCHEMES)
    assert isinstance(row.children[0], widgets.Label) and row.children[0].value == "scale of"


@pytest.mark.parametrize(
    ("typed", "message"),
    [("0", "s / Kaiming&#x27;s must be from 0.01 to 32"), ("33", "from 0.01 to 32, got"),
     ("much", "must read as a number")],
)  # fmt: skip
def test_a_scale_that_cannot_be_used_is_explained(typed, message):
    explorer = explore.signals()
    before = explorer._image.value
    explorer.controls["scale"].text.value = typed
    assert message in explorer._words.value and explorer._image.value == before
