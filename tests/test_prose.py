"""Numbers that chapters 06 to 10 state in their prose and no cell prints: recomputed here."""

import math

import numpy as np
import pytest
import torch

from course_utils import hardware, predict
from course_utils.train.models import Bigram


def test_chapter_06_where_fp32_is_passed_and_what_a_cut_leaves():
    assert 128.0**18 < torch.finfo(torch.float32).max < 128.0**19  # "in the 19th"
    assert 3 / (1 / 16384**0.5) == 384  # standard deviations to ±3
    density = math.exp(-4.5) / math.sqrt(2 * math.pi)
    within = math.erf(3 / math.sqrt(2))
    assert math.sqrt(1 - 6 * density / within) == pytest.approx(0.987, abs=5e-4)


def test_chapter_07_from_which_batch_on_the_backward_pass_makes_the_peak():
    def at(batch):
        return predict.deep_linear_memory(batch, 512, 4, optimizer="AdamW").peak_at

    assert at(614) == "optimizer" and at(615).startswith("backward")


def typical_factor(lr, runs=40_000, D=16, B=4):
    """exp of the mean logarithm of a step's factor, for errors in a random direction."""
    random = np.random.default_rng(0)
    error = np.zeros((runs, D))
    error[:, 0] = 1
    x = random.standard_normal((runs, B, D))
    step = error - lr * 2 / B * np.einsum("rbd,rb->rd", x, np.einsum("rbd,rd->rb", x, error))
    return math.exp(np.log(np.square(step).sum(1)).mean())


def test_chapter_08_what_a_typical_run_does():
    assert typical_factor(0.19) < 1 < typical_factor(0.21)  # "about 0.20"
    assert typical_factor(0.22) > 1
    assert typical_factor(3.0) == pytest.approx(116, rel=0.03)
    assert 1240 * 178.0**15 < torch.finfo(torch.float32).max < 1240 * 178.0**16  # step 17


def test_chapter_08_what_a_checkpoint_holds():
    assert sum(p.numel() for p in Bigram(64).parameters()) == 33_024
    assert torch.get_rng_state().nbytes == 5056


def test_chapter_09_where_half_of_the_updates_are_lost():
    weights = 0.02 * torch.randn(200_000, generator=torch.Generator().manual_seed(0))
    for dtype, edge in ((torch.bfloat16, 3e-5), (torch.float16, 4e-6)):
        w = weights.to(dtype)
        lost = [((w + lr).to(dtype) == w).float().mean().item() for lr in (edge / 1.4, edge * 1.4)]
        assert lost[0] > 0.5 > lost[1]
    h100 = hardware.find("H100 SXM")
    assert h100.promised("bf16") / h100.promised("fp32") == pytest.approx(15, abs=0.3)


def test_chapter_10_what_the_rule_forgets_and_what_it_counts_too_much():
    small, large = predict.preset("small"), predict.preset("Llama-3 70B")
    for shape, batch, attention, idle in ((small, 32, 0.101, 0.028), (large, 1, 0.152, 0.015)):
        parameters = sum(predict.transformer_parameters(shape).values())
        rule = predict.training_flops(parameters, batch * shape.context)
        found = predict.transformer_flops(shape, batch, shape.context)
        assert found.attention / rule == pytest.approx(attention, abs=6e-4)
        share = 1 - predict.transformer_products(shape) / parameters
        assert share == pytest.approx(idle, abs=6e-4)


def test_chapter_10_the_two_peaks_and_what_they_are_made_of():
    small, large = predict.preset("small"), predict.preset("Llama-3 70B")
    low, high = (predict.transformer_memory(s, b, s.context) for s, b in ((small, 32), (large, 1)))
    assert high.peak / low.peak == pytest.approx(27_000, rel=0.02)
    assert high.activations / (4 * high.parameters) == pytest.approx(0.43, abs=5e-3)
    for shape, tokens, widths in ((small, 64, 16), (large, 8192, 22)):
        each = predict.activations(shape, 1, tokens) / 4 / tokens
        layers = (each - shape.vocabulary - 3 * shape.width) / shape.layers
        assert layers / shape.width == pytest.approx(widths, abs=0.5)
