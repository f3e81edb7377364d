"""What a random layer does to a signal's scale: by other formulas, and by drawing it."""

import math

import numpy as np
import pytest
import torch

from course_utils import predict


@pytest.mark.parametrize("D", [1, 2, 3, 16, 37, 256, 1000])
def test_without_an_activation_it_is_the_logarithm_of_chi_squared(D):
    found = predict.layer_scale(D, 0.3, "none")
    half = torch.tensor(D / 2, dtype=torch.float64)
    mean = math.log(0.09 * 2) + torch.digamma(half).item()
    assert found.factor == pytest.approx(0.3 * D**0.5, rel=1e-12)
    assert math.log(found.typical) == pytest.approx(mean / 2, rel=1e-9, abs=1e-9)
    assert found.spread == pytest.approx(torch.polygamma(1, half).sqrt().item() / 2, rel=1e-9)


@pytest.mark.parametrize("activation", ["none", "relu"])
@pytest.mark.parametrize("D", [8, 16, 100])
def test_it_is_what_drawn_layers_do(D, activation):
    """One row of numbers through 4000 weight matrices, each drawn whole."""
    source, s = np.random.default_rng(D), 0.7 * D**-0.5
    x = source.standard_normal(D)
    drawn = np.array([x @ source.normal(0, s, (D, D)) for _ in range(4000)])
    squares = (np.maximum(drawn, 0) if activation == "relu" else drawn) ** 2
    ratio = squares.mean(1) / (x * x).mean()
    found = predict.layer_scale(D, s, activation)
    logs = np.log(ratio[ratio > 0]) / 2
    assert found.factor**2 == pytest.approx(ratio.mean(), abs=4 * ratio.std() / 4000**0.5)
    assert math.log(found.typical) == pytest.approx(logs.mean(), abs=4 * found.spread / 4000**0.5)
    assert found.spread == pytest.approx(logs.std(), rel=0.07)


@pytest.mark.parametrize(("activation", "numerator"), [("none", 2), ("relu", 5)])
def test_a_wide_layer_s_mean_square_has_a_variance_of_2_or_5_over_D(activation, numerator):
    for D in (512, 4096, 65_536):
        found = predict.layer_scale(D, (2 / D) ** 0.5, activation)
        assert 4 * found.spread**2 == pytest.approx(numerator / D, rel=10 / D)
        sinks = 2 * math.log(found.factor / found.typical)
        assert sinks == pytest.approx(numerator / D / 2, rel=10 / D)


def test_only_activations_with_a_closed_form_are_known():
    with pytest.raises(ValueError, match="activation must be one of 'none', 'relu', got 'tanh'"):
        predict.layer_scale(16, 1.0, "tanh")
    with pytest.raises(ValueError, match="D must be"):
        predict.layer_scale(65_537, 1.0)
