"""The models and the loop: parameters by formula, steps bit for bit, a loss that turns NaN."""

import copy
import math
from itertools import repeat

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss

from course_utils.train import (
    Checkpoints,
    Diverged,
    History,
    Step,
    evaluate,
    loop,
    models,
    one_step,
    optimizers,
    train,
)


def data(rows=8, width=4, count=50, bad=()):
    """`count` batches of a linear problem; the targets of those numbered in `bad` are NaN."""
    generator = torch.Generator().manual_seed(0)
    for number in range(1, count + 1):
        x = torch.randn(rows, width, generator=generator)
        y = x.sum(1)
        yield x, y * math.nan if number in bad else y


def linear(seed=0):
    torch.manual_seed(seed)
    model = models.DeepLinear(4, 2)
    return model, optimizers.Adam(model.parameters(), lr=0.01)


def vector(model):
    return nn.utils.parameters_to_vector(model.parameters()).detach().clone()


# Models


@pytest.mark.parametrize(("width", "depth"), [(1, 0), (1, 1), (4, 2), (7, 3), (16, 0)])
def test_the_deep_linear_model_has_ddl_plus_d_parameters(width, depth):
    model = models.DeepLinear(width, depth)
    assert sum(p.numel() for p in model.parameters()) == width * width * depth + width
    assert model(torch.randn(5, width)).shape == (5,)


def test_the_deep_linear_model_is_linear():
    model, x = models.DeepLinear(6, 3), torch.randn(10, 6)
    weights = [layer.weight for layer in model.layers]
    together = torch.linalg.multi_dot([*weights, model.head.weight]).squeeze(-1)
    assert torch.allclose(model(x), x @ together, atol=1e-5)
    assert torch.allclose(model(2 * x), 2 * model(x))


def test_outputs_are_as_large_as_inputs_at_any_depth():
    torch.manual_seed(0)
    model, x = models.DeepLinear(256, 8), torch.randn(1000, 256)
    for layer in model.layers:
        x = layer(x)
    assert 0.7 < x.std() < 1.4
    assert models.Linear(100, 400).weight.std().item() == pytest.approx(0.1, rel=0.05)


def test_the_mlps_layers():
    model = models.MLP(8, 16, 4, 2)
    kinds = [type(layer).__name__ for layer in model]
    assert kinds == ["Linear", "ReLU", "Linear", "ReLU", "Linear"]
    assert sum(p.numel() for p in model.parameters()) == (8 + 1) * 16 + (16 + 1) * 4 + (4 + 1) * 2
    assert model(torch.randn(3, 8)).shape == (3, 2)
    assert len(models.MLP(3, 1)) == 1


def test_the_bigram_model():
    model = models.Bigram(12)
    assert sum(p.numel() for p in model.parameters()) == 256 * 12 + (12 + 1) * 256
    tokens = torch.randint(0, 256, (3, 5))
    scores = model(tokens)
    assert scores.shape == (3, 5, 256)
    loss = models.next_token_loss(torch.zeros(3, 5, 256), tokens)
    assert loss.item() == pytest.approx(math.log(256))
    by_hand = -scores.log_softmax(-1).gather(-1, tokens[..., None]).mean()
    assert models.next_token_loss(scores, tokens).item() == pytest.approx(by_hand.item())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: models.Linear(0, 1), "inputs must be a whole number at least 1"),
        (lambda: models.Linear(1, 2.5), "outputs must be a whole number"),
        (lambda: models.DeepLinear(4, -1), "depth must be a whole number at least 0"),
        (lambda: models.DeepLinear(True, 1), "width must be a whole number"),
        (lambda: models.DeepLinear("4", 0), "width must be a whole number"),
        (lambda: models.MLP(), "sizes must name at least an input and an output"),
        (lambda: models.MLP(3), "sizes must name at least an input and an output"),
        (lambda: models.MLP(3, 0, 1), "size must be a whole number at least 1"),
        (lambda: models.MLP(3, None), r"sizes\[1\] must be a whole number"),
        (lambda: models.Bigram(0), "width must be a whole number at least 1"),
    ],
)
def test_sizes_that_are_none(make, words):
    with pytest.raises((TypeError, ValueError), match=words):
        make()


# The loop


def test_the_loop_is_the_one_written_by_hand():
    (model, optimizer), (ours, its) = linear(), linear()
    losses = []
    for x, y in data(count=30):
        optimizer.zero_grad()
        loss = mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    history = train(ours, its, data(), mse_loss, steps=30)
    assert history.losses == losses and losses[-1] < losses[0]
    assert torch.equal(vector(ours), vector(model))


def test_what_a_step_says():
    model, optimizer = linear()
    history = train(model, optimizer, data(rows=8), mse_loss, steps=5)
    assert [step.number for step in history.steps] == [1, 2, 3, 4, 5]
    assert {step.targets for step in history.steps} == {8}
    assert all(0 < step.seconds < 60 for step in history.steps)


def test_the_loss_is_that_before_the_step():
    model, optimizer = linear()
    (x, y), *_ = data()
    before = mse_loss(model(x), y).item()
    assert one_step(model, optimizer, x, y, mse_loss) == before
    assert mse_loss(model(x), y).item() < before


def test_callbacks_are_called_in_order_after_each_step():
    (model, optimizer), calls, seen = linear(), [], [vector(linear()[0])]

    def changed(step):
        calls.append(("first", step.number))
        assert not torch.equal(vector(model), seen[-1])  # the step has been taken
        seen.append(vector(model))

    history = train(
        model, optimizer, data(), mse_loss, steps=3,
        callbacks=(changed, lambda step: calls.append(("second", step))),
    )  # fmt: skip
    assert [name for name, _ in calls] == ["first", "second"] * 3
    assert tuple(step for name, step in calls if name == "second") == history.steps
    assert [number for name, number in calls if name == "first"] == [1, 2, 3]


def test_an_error_in_a_callback_ends_the_run():
    def broken(step):
        raise KeyError(step.number)

    model, optimizer = linear()
    with pytest.raises(KeyError, match="1"):
        train(model, optimizer, data(), mse_loss, steps=3, callbacks=(broken,))


def test_numbers_begin_at_first():
    model, optimizer = linear()
    history = train(model, optimizer, data(), mse_loss, steps=3, first=11)
    assert [step.number for step in history.steps] == [11, 12, 13]


def test_two_parts_are_one_run():
    (model, optimizer), (ours, its) = linear(), linear()
    whole = train(model, optimizer, data(), mse_loss, steps=20)
    batches = data()
    parts = [train(ours, its, batches, mse_loss, steps=10, first=first) for first in (1, 11)]
    assert parts[0].losses + parts[1].losses == whole.losses


@pytest.mark.parametrize(("seconds", "taken"), [(None, 5), (9, 5), (2.5, 3), (1.5, 2), (1e-9, 1)])
def test_after_its_seconds_no_step_begins(monkeypatch, seconds, taken):
    (model, optimizer), now = linear(), [0.0]

    def passes(seconds):
        now[0] += seconds
        return now[0]

    monkeypatch.setattr(loop, "perf_counter", lambda: passes(1e-6))
    settings = {"steps": 5, "seconds": seconds, "callbacks": (lambda step: passes(1),)}
    assert len(train(model, optimizer, data(), mse_loss, **settings).steps) == taken


def test_no_steps():
    (model, optimizer), called = linear(), []
    before = vector(model)
    history = train(model, optimizer, data(), mse_loss, steps=0, callbacks=(called.append,))
    assert history == History(()) and not called and torch.equal(vector(model), before)


def test_batches_that_end_early():
    model, optimizer = linear()
    with pytest.raises(ValueError, match="^the batches ended before step 4 of 10$"):
        train(model, optimizer, data(count=3), mse_loss, steps=10)
    with pytest.raises(ValueError, match="^the batches ended before step 24 of 30$"):
        train(model, optimizer, data(count=3), mse_loss, steps=10, first=21)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"steps": -1}, "steps must be a whole number at least 0"),
        ({"steps": 2.5}, "steps must be a whole number"),
        ({"steps": None}, "steps must be a whole number"),
        ({"steps": True}, "steps must be a whole number"),
        ({"steps": 3, "first": -1}, "first must be a whole number at least 0"),
        ({"steps": 3, "first": "1"}, "first must be a whole number"),
        ({"steps": 3, "seconds": 0}, "seconds must be a finite number above 0"),
    ],
    ids=str,
)
def test_numbers_of_steps_that_are_none(settings, words):
    model, optimizer = linear()
    with pytest.raises((TypeError, ValueError), match=words):
        train(model, optimizer, data(), mse_loss, **settings)


def test_training_is_in_training_mode():
    model, modes = nn.Sequential(nn.Linear(4, 1), nn.Flatten(0)), []
    model.eval()
    optimizer = optimizers.SGD(model.parameters())
    train(
        model, optimizer, data(), mse_loss, steps=1,
        callbacks=(lambda step: modes.append(model.training),),
    )  # fmt: skip
    assert modes == [True]


# A loss that is no number


@pytest.mark.parametrize("bad", [1, 2, 7])
@pytest.mark.parametrize("first", [1, 11])
def test_a_loss_that_turns_nan_stops_the_run(tmp_path, bad, first):
    model, optimizer = linear()
    kept = Checkpoints(tmp_path, model=model, optimizer=optimizer, keep=3)
    seen, states = [], [vector(model)]

    def watch(step):
        seen.append(step.number)
        states.append(vector(model))

    step = first + bad - 1
    with pytest.raises(Diverged, match=f"^the loss is nan at step {step}: a smaller lr may help$"):
        train(
            model, optimizer, data(bad=(bad,)), mse_loss, steps=10, first=first,
            callbacks=(watch, kept.every(1)),
        )  # fmt: skip
    assert seen == list(range(first, step))
    assert torch.equal(vector(model), states[-1]) and len(states) == bad
    again, its = linear(seed=5)
    last = Checkpoints(tmp_path, model=again, optimizer=its).load()
    assert last == (step - 1 if bad > 1 else 0)
    assert bad == 1 or torch.equal(vector(again), states[-1])


def test_a_run_that_diverges_by_itself(tmp_path):
    """Too large a learning rate: the parameters grow until the loss is infinite."""
    torch.manual_seed(0)
    model = models.DeepLinear(4, 2)
    optimizer = optimizers.SGD(model.parameters(), lr=5.0)
    kept = Checkpoints(tmp_path, model=model, optimizer=optimizer)
    with pytest.raises(Diverged, match=r"the loss is (inf|nan) at step \d+|is not finite after"):
        train(model, optimizer, data(), mse_loss, steps=50, callbacks=(kept.every(1),))
    assert kept.load() >= 1 and vector(model).isfinite().all()


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_one_step_refuses_it_before_the_optimizer_acts(value):
    model, optimizer = linear()
    before, (x, y) = vector(model), next(data())
    with pytest.raises(Diverged, match=f"the loss is {value} at step 5"):
        one_step(model, optimizer, x, y, lambda p, y: (p * 0).sum() + value, 5)
    assert torch.equal(vector(model), before) and not optimizer.state
    assert issubclass(Diverged, RuntimeError)


# Evaluating


def test_evaluation_is_the_mean_loss_without_dropout_or_gradients():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 1), nn.Dropout(0.5), nn.Flatten(0))
    before = copy.deepcopy(model.state_dict())
    grads = []

    def loss(p, y):
        grads.append(p.requires_grad)
        return mse_loss(p, y)

    mean = evaluate(model, data(), loss, steps=4)
    model.eval()
    by_hand = [mse_loss(model(x), y).item() for x, y in data(count=4)]
    assert mean == pytest.approx(sum(by_hand) / 4)
    assert grads == [False] * 4
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


@pytest.mark.parametrize("training", [True, False])
def test_the_mode_is_restored_whatever_happens(training):
    model = linear()[0].train(training)
    inside = []

    def loss(p, y):
        inside.append(model.training)
        if len(inside) == 2:
            raise ZeroDivisionError
        return mse_loss(p, y)

    evaluate(model, data(), loss, steps=1)
    assert model.training is training and inside == [False]
    with pytest.raises(ZeroDivisionError):
        evaluate(model, data(), loss, steps=1)
    assert model.training is training and torch.is_grad_enabled()


@pytest.mark.parametrize("steps", [0, -1, 1.5, None, True])
def test_evaluation_needs_steps(steps):
    with pytest.raises((TypeError, ValueError), match="steps must be a whole number at least 1"):
        evaluate(linear()[0], data(), mse_loss, steps=steps)


def test_evaluation_of_batches_that_end_early():
    with pytest.raises(ValueError, match="the batches ended before step 3 of 5"):
        evaluate(linear()[0], data(count=2), mse_loss, steps=5)


def test_evaluating_during_training_does_not_change_it():
    runs = []
    for look in (False, True):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1), nn.Flatten(0))
        optimizer = optimizers.SGD(model.parameters(), lr=0.01)

        def glance(step, model=model, look=look):
            if look:
                evaluate(model, data(), mse_loss, steps=2)

        runs.append(train(model, optimizer, data(), mse_loss, steps=10, callbacks=(glance,)))
    assert runs[0].losses == runs[1].losses


# The history


def test_the_history():
    pairs = zip((4.0, 2.0, 1.0), (0.9, 0.1, 0.2), strict=True)
    steps = tuple(Step(n, loss, took, 50) for n, (loss, took) in enumerate(pairs, start=1))
    history = History(steps)
    assert history.losses == [4.0, 2.0, 1.0]
    assert history.seconds == 0.2  # the median: the slow first step does not count
    assert history.tokens_per_second == 250
    with pytest.raises(AttributeError):
        history.steps = ()


def test_tokens_of_a_run_are_the_targets():
    torch.manual_seed(0)
    model = models.Bigram(4)
    optimizer = optimizers.AdamW(model.parameters())
    batch = (torch.randint(0, 256, (3, 7)), torch.randint(0, 256, (3, 7)))
    history = train(model, optimizer, repeat(batch), models.next_token_loss, steps=3)
    assert {step.targets for step in history.steps} == {21}
    assert history.tokens_per_second == 21 / history.seconds


def test_a_run_says_when_its_steps_took_different_times():
    def doubt(*seconds):
        return History(tuple(Step(n, 1.0, s, 1) for n, s in enumerate(seconds))).doubt

    assert doubt(*[0.01] * 7) == "only 7 steps"
    assert doubt(*[0.01] * 10, 0.5, 0.5) == ""  # a few slow ones do not move the median
    assert doubt(*[0.01, 0.02] * 8) == "its steps took different times"
