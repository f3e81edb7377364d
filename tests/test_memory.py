"""The storage tracker against byte counts made by hand, torch's MemTracker and the profiler."""

import contextlib
import gc
import weakref
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker
from torch.optim import SGD, AdamW
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

from course_utils import measure

OPTIMIZERS = {
    "default": AdamW,
    "for-loop": partial(AdamW, foreach=False),
    "foreach": partial(AdamW, foreach=True),
    "fused": partial(AdamW, fused=True),
    "sgd": partial(SGD, lr=0.1),
    "momentum": partial(SGD, lr=0.1, momentum=0.9),
}
PER_PARAMETER = {"sgd": 0, "momentum": 4}  # bytes of state; AdamW has 8
B, D, LAYERS = 64, 128, 4
P = LAYERS * D * D + D
BATCH = B * D * 4 + B * 4  # the inputs and the targets


class Mlp:
    """A model of square layers with a head, its optimizer and a batch; calling it is a step."""

    def __init__(self, optimizer=AdamW, batch=B, width=D, loss=F.mse_loss, set_to_none=True):
        layers = [m for _ in range(LAYERS) for m in (nn.Linear(width, width, False), nn.ReLU())]
        self.model = nn.Sequential(*layers, nn.Linear(width, 1, bias=False))
        self.optimizer = optimizer(self.model.parameters())
        self.x, self.y = torch.randn(batch, width), torch.randn(batch, 1)
        self.loss, self.set_to_none = loss, set_to_none

    def __call__(self):
        self.optimizer.zero_grad(set_to_none=self.set_to_none)
        self.loss(self.model(self.x), self.y).backward()
        self.optimizer.step()


def measured(step, **options):
    """The measurement, after what must hold for every one."""
    found = measure.memory(step, **options)
    assert found.peak == sum(found.parts().values()) == found.value
    assert found.peak == max(event.total for event in found.timeline)
    for name, held in found.parts().items():
        assert 0 <= held <= found.largest[name]
        assert found.largest[name] == max(event.parts[name] for event in found.timeline)
        assert all(event.parts[name] >= 0 for event in found.timeline)
    return found


# The step of the reference: by formula, by MemTracker, by the profiler


@pytest.mark.parametrize("warm_steps", [0, 1, 2])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_categories_are_exact(name, warm_steps):
    found = measured(Mlp(OPTIMIZERS[name]), warm_steps=warm_steps)
    assert found.largest["parameters"] == found.parameters == 4 * P
    assert found.largest["gradients"] == 4 * P
    counters = 4 * (LAYERS + 1) if "sgd" != name != "momentum" else 0
    assert found.largest["optimizer"] == PER_PARAMETER.get(name, 8) * P + counters
    # Kept for the backward pass: each layer's input, the predictions and the targets.
    assert found.largest["activations"] == (LAYERS + 1) * B * D * 4 + 2 * B * 4
    assert found.largest["inputs"] == BATCH
    last = found.timeline[-1].parts  # the graph is gone, the batch stays
    assert (last["activations"], last["inputs"]) == (0, BATCH)


@pytest.mark.parametrize(
    ("name", "peak"), [("default", 20_456_468), ("foreach", 21_507_092), ("fused", 17_836_056)]
)
def test_the_peak_of_the_reference(name, peak):
    assert measured(Mlp(OPTIMIZERS[name], 256, 512)).peak == peak


def test_the_parts_of_the_adam_peak():
    found = measured(Mlp())
    assert found.gradients == 4 * P and found.optimizer == 8 * P + 4 * (LAYERS + 1)
    assert found.activations == 0 and found.inputs == BATCH
    assert found.temporaries == 3 * D * D * 4  # three temporaries of the largest layer


def by_mem_tracker(step, batch):
    tracker = MemTracker()
    tracker.track_external(step.model, step.optimizer)
    with tracker:
        step()
    (peak,) = tracker.get_tracker_snapshot("peak").values()
    return peak["Total"] + batch  # it does not know of the batch


@pytest.mark.parametrize("batch", [1, 64, 1024])
@pytest.mark.parametrize("warm", [0, 1])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_not_a_byte_from_mem_tracker(name, warm, batch):
    steps = [Mlp(OPTIMIZERS[name], batch, 128) for _ in range(2)]
    for _ in range(warm):
        steps[0]()
    expected = by_mem_tracker(steps[0], batch * 128 * 4 + batch * 4)
    assert measured(steps[1], warm_steps=warm).peak == expected


@pytest.mark.parametrize(("name", "scratch"), [("default", 12), ("foreach", 12), ("fused", 0)])
def test_not_a_byte_from_the_profiler(name, scratch):
    """Dividing by a Python number takes 12 bytes inside the kernel, which no operation returns."""
    step = Mlp(OPTIMIZERS[name])
    step()
    step.optimizer.zero_grad()
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
        step.optimizer.zero_grad()
    held, most = 0, 0
    for event in profiler.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    state = 8 * P + 4 * (LAYERS + 1)
    assert measured(Mlp(OPTIMIZERS[name])).peak + scratch == 4 * P + state + BATCH + most


@settings(max_examples=10)
@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from(sorted(OPTIMIZERS)))
def test_any_width_and_batch(batch, width, name):
    found = measured(Mlp(OPTIMIZERS[name], batch, width))
    parameters = LAYERS * width**2 + width
    assert found.parameters == found.largest["gradients"] == 4 * parameters
    kept = 4 * ((LAYERS + 1) * batch * width + 2 * batch)
    assert found.largest["activations"] == kept


# Storages, not tensors

X = torch.randn(64, 64)


def test_a_view_does_not_count_twice():
    found = measured(lambda: (X.T, X[1:], X.view(-1), X.detach()))
    assert found.parts() == {**dict.fromkeys(found.parts(), 0), "inputs": 64 * 64 * 4}


def test_an_expanded_tensor_counts_its_storage():
    row = torch.randn(1, 64)
    assert measured(lambda: row.expand(64, 64).view(64, 64)).peak == 64 * 4


def test_a_scalar_that_keeps_a_large_storage():
    kept = []

    def step():
        kept[:] = [torch.ones(1000)[3]]
        torch.ones(10)

    assert measured(step).timeline[-1].parts["temporaries"] == 4000
    kept.clear()


def test_a_saved_tensor_counts_once():
    w = torch.randn(64, 64, requires_grad=True)

    def step():
        h = X @ w
        (h * h * h.T).sum().backward()
        w.grad = None

    # h and h·h are saved several times; X is kept for the gradient of w.
    assert measured(step).largest["activations"] == 3 * 64 * 64 * 4


def test_what_the_step_makes_is_not_an_input():
    def step():
        return torch.tensor([1.0] * 100) * 2

    found = measured(step)
    assert (found.inputs, found.temporaries) == (0, 800)
    assert found.timeline[0].total == 0


# Kinds of training steps


def test_gradients_that_are_kept_as_zeros():
    found = measured(Mlp(set_to_none=False))
    assert {event.parts["gradients"] for event in found.timeline} == {4 * P}


def linear(m=64, n=64, **options):
    return nn.Linear(m, n, bias=False, **options)


@pytest.mark.parametrize("warm_steps", [0, 1])
def test_gradient_accumulation(warm_steps):
    layer, size = linear(), 64 * 64 * 4

    def step():
        for _ in range(3):
            layer(X).sum().backward()

    found = measured(step, warm_steps=warm_steps)
    assert found.largest["gradients"] == size
    assert found.timeline[-1].parts["gradients"] == size
    if warm_steps:
        assert found.timeline[0].parts["gradients"] == size


def test_gradients_and_states_that_exist_before_a_cold_measurement():
    step = Mlp(set_to_none=False)
    step()
    found = measured(step, warm_steps=0)
    assert found.timeline[0].parts["gradients"] == 4 * P
    assert found.timeline[0].parts["optimizer"] == 8 * P + 4 * (LAYERS + 1)


def test_gradients_that_the_step_does_not_touch_are_held_too():
    layer = linear()
    layer(X).sum().backward()
    with torch.no_grad():
        assert measured(lambda: layer(X), warm_steps=0).gradients == 64 * 64 * 4


def test_the_first_step_makes_the_state_and_the_second_has_it():
    cold, warm = (measured(Mlp(), warm_steps=n).timeline[0].parts for n in (0, 1))
    assert cold["optimizer"] == 0 and warm["optimizer"] == 8 * P + 4 * (LAYERS + 1)


@pytest.mark.parametrize("warm_steps", [0, 1])
def test_frozen_layers_are_parameters_without_gradients(warm_steps):
    model = nn.Sequential(linear().requires_grad_(False), linear())
    found = measured(lambda: model(X).sum().backward(), warm_steps=warm_steps)
    assert found.parameters == 2 * 64 * 64 * 4
    assert found.largest["gradients"] == 64 * 64 * 4
    assert found.largest["inputs"] == 64 * 64 * 4


def test_tied_weights_count_once():
    head = linear(64, 100)
    embedding = nn.Embedding(100, 64)
    embedding.weight = head.weight
    optimizer, tokens = AdamW(head.parameters()), torch.arange(10)

    def step():
        optimizer.zero_grad()
        head(embedding(tokens)).sum().backward()
        optimizer.step()

    found = measured(step)
    assert found.parameters == 6400 * 4 and found.largest["optimizer"] == 2 * 6400 * 4 + 4
    assert found.largest["gradients"] == 6400 * 4


def test_a_parameter_first_touched_through_its_data():
    layer = linear()

    def step():
        layer.weight.data.mul_(0.9)
        layer(X).sum().backward()
        layer.weight.grad = None

    found = measured(step, warm_steps=0)
    assert found.parameters == found.largest["gradients"] == 64 * 64 * 4


def test_a_parameter_that_is_made_and_saved_before_it_is_one():
    v = torch.ones(64, requires_grad=True)

    def step():
        w = torch.ones(64) * 2
        kept = v * w
        return nn.Parameter(w) * kept

    assert measured(step).largest["parameters"] == 2 * 64 * 4


def test_parameters_that_are_plain_tensors():
    w = torch.randn(64, 64, requires_grad=True)
    found = measured(lambda: (X @ w).sum().backward())
    assert found.parameters == found.largest["gradients"] == 64 * 64 * 4


def test_no_parameters():
    found = measured(lambda: (X @ X).sum())
    size = 64 * 64 * 4
    assert found.parts() == {
        **dict.fromkeys(found.parts(), 0), "inputs": size, "temporaries": size + 4,
    }  # fmt: skip
    assert measured(lambda: None).peak == 0


def test_a_step_that_changes_its_inputs_in_place():
    x, layer = torch.randn(64, 64), linear()

    def step():
        x.mul_(0.5)
        layer(x).sum().backward()
        layer.zero_grad()

    assert measured(step).largest["inputs"] == 64 * 64 * 4
    assert measured(step) == measured(step)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing_keeps_only_the_blocks_input(reentrant):
    blocks = [nn.Sequential(linear(), nn.GELU(), linear(), nn.GELU()) for _ in range(3)]
    x = torch.randn(32, 64, requires_grad=True)

    def step(run):
        h = x
        for block in blocks:
            h = run(block, h)
        h.sum().backward()

    plain = measured(lambda: step(lambda block, h: block(h)))
    run = partial(checkpoint, use_reentrant=reentrant)
    saving = measured(lambda: step(run))
    assert saving.largest["activations"] < plain.largest["activations"] / 2
    assert saving.parameters == plain.parameters


def test_sparse_gradients():
    embedding = nn.Embedding(100, 8, sparse=True)
    optimizer = torch.optim.SparseAdam(embedding.parameters())

    def step():
        optimizer.zero_grad()
        embedding(torch.tensor([1, 2, 3])).sum().backward()
        optimizer.step()

    found = measured(step)
    assert (found.parameters, found.optimizer) == (3200, 6400)


def test_a_graph_kept_from_step_to_step():
    layer, losses = linear(), []

    def step():
        losses.append(layer(X).pow(2).sum())
        if len(losses) > 1:
            losses.pop(0).backward()
        layer.zero_grad()

    assert measured(step).parameters == 64 * 64 * 4


# Tensors without data


def mean_square(made, wanted):
    return (made - wanted).pow(2).mean()


@pytest.mark.parametrize("name", ["default", "for-loop", "sgd", "momentum"])
def test_fake_and_meta_tensors_hold_what_real_ones_would(name):
    make = partial(Mlp, OPTIMIZERS[name], loss=mean_square)
    real = measured(make())
    with FakeTensorMode():
        inside, outside = measured(make()), make()
    with torch.device("meta"):
        meta = make()
    for found in (inside, measured(outside), measured(meta)):
        assert (found.parts(), found.largest) == (real.parts(), real.largest)


def test_a_large_model_needs_no_memory():
    with FakeTensorMode():
        step = Mlp(batch=8192, width=65536, loss=mean_square)
        found = measured(step)
    assert found.parameters == 4 * (LAYERS * 65536**2 + 65536) > 60e9


# The tracker leaves nothing behind


def test_measuring_twice_gives_the_same():
    step = Mlp()
    assert measured(step) == measured(step)


def test_the_tracker_keeps_nothing_alive():
    step = Mlp()
    found = measure.memory(step)
    tensors = [*step.model.parameters(), step.x]
    tensors += [v for state in step.optimizer.state.values() for v in state.values()]
    tensors += [p.grad for p in step.model.parameters()]
    left = [weakref.ref(t.untyped_storage()) for t in tensors]
    del step, tensors
    gc.collect()
    assert not any(ref() for ref in left) and found.peak


def hooks_of(step):
    weights = [p for p in step.model.parameters()]
    return [p for p in weights if p._post_accumulate_grad_hooks]


def test_a_step_that_raises_leaves_nothing_behind():
    good = Mlp()
    expected = measured(good)

    def bad(calls=[]):  # noqa: B006
        calls.append(1)
        good.optimizer.zero_grad()
        good.model(good.x).sum().backward()
        if len(calls) > 1:
            raise ZeroDivisionError
        good.optimizer.step()

    for options in ({}, {"warm_steps": 0}):
        with pytest.raises(ZeroDivisionError):
            measure.memory(bad, **options)
    assert not hooks_of(good)
    assert not _global_optimizer_pre_hooks
    assert not _global_optimizer_post_hooks
    assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()
    assert torch._C._autograd._top_saved_tensors_default_hooks(False) is None
    assert measured(good) == expected


def test_the_step_runs_once_more_than_the_warm_steps():
    for warm in (0, 1, 3):
        calls = []
        measure.memory(lambda calls=calls: calls.append(1), warm_steps=warm)
        assert len(calls) == warm + 1


def test_measuring_changes_no_result():
    torch.manual_seed(0)
    plain, watched = Mlp(), Mlp()
    watched.model.load_state_dict(plain.model.state_dict())
    watched.x, watched.y = plain.x, plain.y
    plain(), plain()
    measure.memory(watched)
    for a, b in zip(plain.model.parameters(), watched.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_the_phases_of_a_step():
    phases = [event.phase for event in measured(Mlp()).timeline]
    firsts = [p for n, p in enumerate(phases) if n == 0 or p != phases[n - 1]]
    assert firsts == ["forward", "backward", "optimizer"]


def test_the_forms_of_a_measurement():
    found = measured(lambda: torch.ones(5_000_000))
    assert "20,000,000" in repr(found) and "20 MB" in found._repr_html_()
    assert found.unit == "B"


# Bad input


@pytest.mark.parametrize("step", [X, None, 3, "step"])
def test_what_is_not_a_function_is_refused(step):
    with pytest.raises(TypeError, match="step must be a function"):
        measure.memory(step)


@pytest.mark.parametrize("warm", [-1, 1.5, float("nan"), float("inf"), True, None, "1"])
def test_bad_warm_steps(warm):
    with pytest.raises((TypeError, ValueError), match="warm_steps must be a whole number"):
        measure.memory(lambda: None, warm_steps=warm)


def test_a_freed_graph_is_torchs_to_explain():
    loss = (X @ torch.ones(64, 1, requires_grad=True)).pow(2).sum()
    with contextlib.suppress(RuntimeError):
        measure.memory(loss.backward)  # frees the graph, so that its second call cannot run
    with pytest.raises(RuntimeError, match="second time"):
        measure.memory(loss.backward)
