"""Numbers that the chapters state in their prose and no cell prints: recomputed here."""

import math

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from course_utils import hardware, measure, predict
from course_utils.train.models import Bigram


def test_chapter_00_what_the_training_run_takes():
    flops, h100 = 6 * 70e9 * 15e12, hardware.find("H100 SXM").promised("bf16")
    days = {peak: flops / (1024 * peak * 0.5) / 86400 for peak in (h100, 1979e12)}
    assert days[1979e12] == pytest.approx(72, abs=0.05)  # with the rate that counts zeros
    assert math.ceil(days[h100] * 1024 / 30) == 4913  # devices for 30 days
    assert 16 * 70e9 == 1.12e12 and 16 * 70e9 / 80e9 == 14


def test_chapter_02_the_table_of_formats():
    largest = {torch.float64: "1.8e308", torch.float32: "3.4e38", torch.bfloat16: "3.4e38"}
    assert {d: f"{torch.finfo(d).max:.1e}".replace("+", "") for d in largest} == largest
    whole = {torch.float16: 65504, torch.float8_e4m3fn: 448, torch.float8_e5m2: 57344}
    assert {d: torch.finfo(d).max for d in whole} == whole
    steps = {torch.float64: "2.2e-16", torch.float32: "1.2e-07", torch.float16: "9.8e-04",
             torch.bfloat16: "7.8e-03", torch.float8_e4m3fn: "1.2e-01",
             torch.float8_e5m2: "2.5e-01"}  # fmt: skip
    assert {d: f"{torch.finfo(d).eps:.1e}" for d in steps} == steps
    share = torch.finfo(torch.bfloat16).max / torch.finfo(torch.float32).max
    assert share == pytest.approx(0.996, abs=5e-4)
    assert torch.tensor(2.0**24) + 1 == 16_777_216


def test_chapter_04_how_accelerators_grew():
    a100, h100, b200 = map(hardware.find, ("A100 80GB SXM", "H100 SXM", "B200"))
    for old, new, arithmetic, memory in ((a100, h100, 3.2, 1.6), (h100, b200, 2.3, 2.3)):
        assert new.promised("bf16") / old.promised("bf16") == pytest.approx(arithmetic, abs=0.05)
        assert new.bandwidth / old.bandwidth == pytest.approx(memory, abs=0.1)
    ridges = [row.promised("bf16") / row.bandwidth for row in (a100, h100, b200)]
    assert ridges[1] / ridges[0] == pytest.approx(2, abs=0.1)  # doubled
    assert ridges[2] / ridges[1] == pytest.approx(1, abs=0.05)  # kept
    rtx = hardware.find("RTX 3070")
    assert rtx.promised("bf16") == 40.6e12 and "81.3 TFLOP/s" in rtx.note
    x, w = torch.ones(4096), torch.ones(4096, 4096)
    assert 2 * w.numel() / (2 * (w.numel() + 2 * x.numel())) == pytest.approx(1, abs=1e-3)


class Operations(TorchDispatchMode):
    """Counts the operations that reach PyTorch's dispatcher."""

    def __init__(self):
        super().__init__()
        self.seen = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen += 1
        return func(*args, **(kwargs or {}))


def test_chapter_05_backward_starts_three_times_as_many_operations():
    stack = torch.nn.Sequential(*(torch.nn.Linear(32, 32, bias=False) for _ in range(4)))
    rows = torch.randn(64, 32)
    with Operations() as forward:
        loss = stack(rows).sum()
    with Operations() as backward:
        loss.backward()
    assert backward.seen / forward.seen == pytest.approx(3, abs=0.5)


def peak_of(blocks, rows, again):
    """Bytes at the peak of a step through the same block, with its results kept or recomputed."""
    block = torch.nn.Sequential(*(torch.nn.Linear(64, 64, bias=False) for _ in range(8)))
    block.append(torch.nn.ReLU())
    data = torch.randn(rows, 64, requires_grad=True)

    def step():
        h = data
        for _ in range(blocks):
            h = checkpoint(block, h, use_reentrant=False) if again else block(h)
        h.sum().backward()

    return measure.memory(step).peak


def test_chapter_05_checkpointing_halves_the_peak_of_four_blocks_and_of_one_saves_nothing():
    assert (peak_of(4, 512, False), peak_of(4, 512, True)) == (4_997_128, 2_359_304)
    assert peak_of(1, 512, True) >= peak_of(1, 512, False)


def test_chapter_05_an_untied_embedding():
    untied = 124_439_808 + 50257 * 768
    assert untied == 163_037_184
    assert 874_944_921_600 / predict.training_flops(untied, 1024) == pytest.approx(0.873, abs=5e-4)


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
