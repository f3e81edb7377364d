"""The deep linear model's costs by formula, against the instruments: to the FLOP and the byte."""

import inspect
import random
from functools import partial
from itertools import product

import pytest
import torch
from torch import optim
from torch.nn.functional import mse_loss

from course_utils import measure, predict
from course_utils.predict import deep_linear_flops, deep_linear_memory, deep_linear_parameters
from course_utils.predict.optimizers import COUNTS_STEPS
from course_utils.train.models import DeepLinear

MAKERS = {
    "SGD": optim.SGD,
    "momentum": partial(optim.SGD, momentum=0.9),
    "AdaGrad": optim.Adagrad,
    "RMSProp": optim.RMSprop,
    "Adam": optim.Adam,
    "AdamW": optim.AdamW,
}
FORMS = {"for-loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
CASES = [pair for pair in product(MAKERS, FORMS) if pair != ("RMSProp", "fused")]
# Rows, width, depth: the corners, where another moment or another layer holds most, and others.
SIZES = [(1, 1, 1), (1, 1, 4), (1, 64, 1), (500, 1, 3), (500, 16, 1), (64, 64, 6), (2, 4, 2)]
RANDOM = random.Random(0)
SIZES += [
    (RANDOM.choice([1, 2, 7, 64, 300]), RANDOM.randint(1, 48), RANDOM.randint(1, 7))
    for _ in range(8)
]


def step_of(B, D, L, make):
    torch.manual_seed(0)
    model, x, y = DeepLinear(D, L), torch.randn(B, D), torch.randn(B)
    optimizer = make(model.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad()
        loss = mse_loss(model(x), y)
        loss.backward()
        optimizer.step()

    return step


# Memory


@pytest.mark.parametrize(("B", "D", "L"), SIZES, ids=str)
@pytest.mark.parametrize(("optimizer", "form"), CASES)
def test_every_category_and_the_peak_are_exact(optimizer, form, B, D, L):
    found = measure.memory(step_of(B, D, L, partial(MAKERS[optimizer], **FORMS[form])))
    said = deep_linear_memory(B, D, L, optimizer=optimizer, form=form)
    parts = ("parameters", "gradients", "optimizer", "activations")
    assert {part: getattr(said, part) for part in parts} == {
        part: found.largest[part] for part in parts
    }
    assert said.peak == found.peak


@pytest.mark.parametrize(
    ("optimizer", "form", "B", "phase"),
    [
        ("Adam", "for-loop", 2, "optimizer"),
        ("Adam", "foreach", 2, "optimizer"),
        ("SGD", "fused", 2, "backward, layer 1"),
        ("Adam", "for-loop", 2000, "backward, layer 4"),
        ("Adam", "fused", 2000, "backward, layer 4"),
    ],
)
def test_the_peak_is_where_the_formula_says(optimizer, form, B, phase):
    """Few rows: the optimizer's scratch, or all gradients. Many: the activations."""
    found = measure.memory(step_of(B, 64, 4, partial(MAKERS[optimizer], **FORMS[form])))
    assert deep_linear_memory(B, 64, 4, optimizer=optimizer, form=form).peak_at == phase
    phases = {event.phase for event in found.timeline if event.total == found.peak}
    assert phases == {phase.split(",")[0]}


@pytest.mark.parametrize(
    ("formats", "dtype"), [("all fp32", torch.float32), ("all bf16", torch.bfloat16)]
)
@pytest.mark.parametrize(("optimizer", "form"), CASES)
def test_bytes_per_parameter_and_the_scratch_of_a_step(optimizer, form, formats, dtype):
    """Two tensors of one size: the second finds the first one's denominator still there."""
    one = 10_000
    parameters = [torch.nn.Parameter(torch.ones(one, dtype=dtype)) for _ in range(2)]
    for p in parameters:
        p.grad = torch.ones_like(p)
    found = measure.memory(MAKERS[optimizer](parameters, lr=0.01, **FORMS[form]).step)
    said = predict.optimizer_recipe(optimizer, formats)
    counters = 2 * 4 if optimizer in COUNTS_STEPS else 0
    assert found.largest["parameters"] == said.parameters * 2 * one
    assert found.largest["gradients"] == said.gradients * 2 * one
    assert found.largest["optimizer"] == said.optimizer * 2 * one + counters
    copies = predict.scratch_copies(optimizer, form)
    expected = {
        "for-loop": copies * one * dtype.itemsize,
        "foreach": predict.foreach_scratch(optimizer, formats) * 2 * one,
        "fused": 0,
    }
    assert found.largest["temporaries"] == pytest.approx(expected[form], abs=100)


def test_the_one_number_of_the_loss_has_a_storage_of_b():
    """Mean squared error computes its B squares in the storage of its one number."""
    assert mse_loss(torch.ones(7), torch.zeros(7)).untyped_storage().nbytes() == 4 * 7


def test_the_default_form_is_torchs_on_the_processor():
    for name, make in MAKERS.items():
        peaks = {
            measure.memory(step_of(8, 16, 3, partial(make, **settings))).peak
            for settings in ({}, {"foreach": False})
        }
        assert peaks == {deep_linear_memory(8, 16, 3, optimizer=name).peak}


def test_of_the_same_state_adam_takes_most_and_fused_least():
    peaks = {
        pair: deep_linear_memory(4, 64, 4, optimizer=pair[0], form=pair[1]).peak for pair in CASES
    }
    assert peaks["Adam", "fused"] < peaks["Adam", "for-loop"] < peaks["Adam", "foreach"]
    assert peaks["SGD", "for-loop"] == peaks["SGD", "fused"] < peaks["momentum", "for-loop"]
    assert peaks["Adam", "foreach"] == peaks["AdamW", "foreach"]


def test_the_lectures_example():
    """B = 2, D = 4, L = 2: 36 parameters, 368 FLOPs, activations of 28 numbers."""
    assert deep_linear_parameters(4, 2) == 36
    assert deep_linear_flops(2, 4, 2) == 6 * 2 * 36 - 2 * 2 * 4 * 4 == 368
    said = deep_linear_memory(2, 4, 2)
    assert said.activations == 4 * 28 and 28 == 3 * 2 * 4 + 2 * 2
    assert said.parameters == said.gradients == 4 * 36
    assert said.optimizer == 4 * (2 * 36 + 3)  # two numbers per parameter, a counter a tensor


# FLOPs and parameters


@pytest.mark.parametrize(("B", "D", "L"), [*SIZES, (3, 5, 0), (1, 1, 0)], ids=str)
def test_flops_and_parameters_are_exact(B, D, L):
    model, x, y = DeepLinear(D, L), torch.randn(B, D), torch.randn(B)
    found = measure.flops(lambda: mse_loss(model(x), y).backward())
    assert deep_linear_flops(B, D, L) == found.total
    assert deep_linear_parameters(D, L) == sum(p.numel() for p in model.parameters())


def test_for_deep_models_it_is_the_rule_of_six():
    B, D, L = 64, 256, 20
    ratio = deep_linear_flops(B, D, L) / (6 * B * deep_linear_parameters(D, L))
    assert 0.98 < ratio < 1
    assert predict.training_flops(deep_linear_parameters(D, L), B) * ratio == pytest.approx(
        deep_linear_flops(B, D, L)
    )


# Types and bad input


def test_counts_are_whole_numbers_whatever_came_in():
    assert [deep_linear_parameters(4.0, 2.0), deep_linear_flops(2.0, 4.0, 2.0)] == [36, 368]
    said = deep_linear_memory(2.0, 4.0, 2.0)
    assert said == deep_linear_memory(2, 4, 2)
    numbers = [deep_linear_parameters(4.0, 2.0), deep_linear_flops(2.0, 4.0, 2.0), said.peak]
    numbers += [said.parameters, said.optimizer, said.activations, *said.moments.values()]
    assert {type(number) for number in numbers} == {int}


def test_the_peak_is_one_of_the_moments():
    said = deep_linear_memory(5, 7, 3)
    assert said.moments[said.peak_at] == said.peak == max(said.moments.values())
    assert list(said.moments) == [
        "end of the forward pass", "backward, head", "backward, layer 3", "backward, layer 2",
        "backward, layer 1", "optimizer",
    ]  # fmt: skip


@pytest.mark.parametrize("bad", [0, -1, 2.5, "4", None, True, float("nan")], ids=repr)
@pytest.mark.parametrize(
    "function", [deep_linear_parameters, deep_linear_flops, deep_linear_memory]
)
def test_sizes_that_are_none(function, bad):
    positional = [p.name for p in inspect.signature(function).parameters.values() if p.kind == 1]
    for name in positional:
        if (name, bad) == ("L", 0) and function is not deep_linear_memory:
            continue  # no layers but the head
        sizes = {**dict.fromkeys(positional, 2), name: bad}
        with pytest.raises((TypeError, ValueError), match=f"^{name} must be a whole number"):
            function(**sizes)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"optimizer": "adam"}, "optimizer must be one of 'SGD', 'momentum'"),
        ({"optimizer": None}, "optimizer must be one of"),
        ({"form": "default"}, "form must be one of 'for-loop', 'foreach', 'fused'"),
        ({"form": None}, "form must be one of"),
        ({"optimizer": "RMSProp", "form": "fused"}, "form must be 'for-loop' or 'foreach' for RMS"),
    ],
    ids=str,
)
def test_choices_that_are_none(settings, words):
    with pytest.raises(ValueError, match=words):
        deep_linear_memory(2, 4, 2, **settings)
