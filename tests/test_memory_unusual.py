"""Memory of steps out of the ordinary: changes in place, storages that grow, graphs that stay."""

import gc
import json
import weakref

import pytest
import torch
from torch import nn
from torch.optim import SGD, AdamW
from torch.profiler import ProfilerActivity, profile, record_function

from course_utils import measure
from course_utils.measure.storages import StorageTracker
from tests.bench.weighing import MEASURED, peak_of
from tests.test_memory import linear, measured

X = torch.randn(512, 64)  # 131,072 bytes
SQUARE = 64 * 64 * 4  # bytes of a linear layer
ROWS = 512 * 64 * 4
last = -1


def by_profiler(build, folder):
    """The second step's peak by the profiler's events, scratch within one operation apart."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        step = build()
        step()
        with record_function(MEASURED):
            step()
    seen.export_chrome_trace(str(folder / "trace.json"))
    return peak_of(json.loads((folder / "trace.json").read_text())["traceEvents"], scratch=False)


# An error of the step is the step's


def changed_result():
    a = torch.ones(3, requires_grad=True)
    b = a.exp()
    b.add_(1)
    b.sum().backward()


def changed_input():
    a, c = torch.ones(3, requires_grad=True), torch.ones(3)
    b = a * c
    c.add_(1)
    b.sum().backward()


def changed_parameter():
    w = nn.Parameter(torch.ones(3))
    loss = (w * w).sum()
    w.grad = torch.ones(3)
    SGD([w], lr=0.1).step()
    loss.backward()


def changed_fake():
    with measure.fake():
        changed_result()


@pytest.mark.parametrize("warm_steps", [0, 1])
@pytest.mark.parametrize("step", [changed_result, changed_input, changed_parameter, changed_fake])
def test_a_change_in_place_that_autograd_forbids(step, warm_steps):
    with pytest.raises(RuntimeError) as plain:
        step()
    with pytest.raises(RuntimeError) as watched:
        measure.memory(step, warm_steps=warm_steps)
    # Which operation returned the tensor is all that torch's message has beyond this one.
    beginning, versions = str(watched.value).split("] ")
    assert str(plain.value).startswith(beginning)
    assert str(plain.value).endswith(versions)


def test_changes_in_place_that_autograd_allows():
    w = torch.ones(64, 64, requires_grad=True)

    def step():
        w.grad = None
        norm(torch.relu_(X @ w)).exp_().sum().backward()

    norm = nn.BatchNorm1d(64, affine=False)  # changes its statistics
    step()
    expected = w.grad.clone()
    assert measured(step).parameters == SQUARE
    assert torch.equal(w.grad, expected)


def test_what_torch_does_not_save_is_torchs_to_explain():
    with torch.inference_mode():
        made = torch.ones(3)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
        measure.memory(lambda: torch.ones(3, requires_grad=True) * made)


def test_gradients_by_torch_func_are_refused():
    gradient = torch.func.grad(lambda w: (X @ w).sum())
    with pytest.raises(NotImplementedError, match=r"torch\.autograd\.grad"):
        measure.memory(lambda: gradient(torch.ones(64)))


# Storages that grow and shrink; tensors that are not one block of numbers


def sparse_adam():
    embedding, tokens = nn.Embedding(1000, 64, sparse=True), torch.arange(100)
    optimizer = torch.optim.SparseAdam(embedding.parameters())

    def step():
        optimizer.zero_grad()
        embedding(tokens).sum().backward()
        optimizer.step()

    return step


def emptied():
    x = torch.randn(512, 64)

    def step():
        made = x * 2
        made.untyped_storage().resize_(0)
        return x + x

    return step


def on_rows(operation):
    def build():
        x = torch.randn(512, 64)
        return lambda: operation(x)

    return build


UNUSUAL = {
    "mm into an empty tensor": on_rows(lambda x: torch.mm(x.T, x, out=torch.empty(0))),
    "cat into an empty tensor": on_rows(lambda x: torch.cat([x, x], out=torch.empty(0))),
    "resize_": on_rows(lambda x: x.new_empty(0).resize_(1000)),
    "an emptied storage": emptied,
    "sparse": on_rows(lambda x: x.to_sparse()),
    "sparse csr": on_rows(lambda x: x.to_sparse_csr()),
    "sparse csc": on_rows(lambda x: x.to_sparse_csc()),
    "sparse bsr": on_rows(lambda x: x.to_sparse_bsr((8, 8))),
    "sparse product": on_rows(lambda x: x.to_sparse() @ x.T),
    "SparseAdam": sparse_adam,
}
BY_HAND = {
    "mm into an empty tensor": ROWS + SQUARE,
    "cat into an empty tensor": ROWS + 2 * ROWS,
    "resize_": ROWS + 4000,
    "an emptied storage": ROWS + ROWS,
    "sparse": ROWS + ROWS + 2 * 8 * 512 * 64,  # the values, and two indices for each
}


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("name", UNUSUAL)
def test_not_a_byte_from_the_profiler(name, tmp_path):
    found = measured(UNUSUAL[name]())
    assert found.peak == by_profiler(UNUSUAL[name], tmp_path)
    assert found.peak == BY_HAND.get(name, found.peak)


def test_a_jagged_tensor_weighs_what_it_wraps(tmp_path):
    def build():
        rows, layer = [torch.randn(n, 64) for n in (3, 5)], linear()
        return lambda: layer(torch.nested.nested_tensor(rows, layout=torch.jagged))

    build()()  # torch keeps 60 bytes from its first jagged tensor on
    assert measured(build()).peak == by_profiler(build, tmp_path) == 22_552


def test_sparse_gradients_are_gradients():
    found = measured(sparse_adam())
    assert found.gradients == 100 * (8 + 64 * 4)  # an index and a row for each token


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="has no such layout")
def test_a_layout_that_shows_no_storage_is_refused_by_name():
    with pytest.raises(NotImplementedError, match=r"torch\._mkldnn"):
        measure.memory(lambda: X.to_mkldnn())


def test_a_gradient_that_grew_was_small_before():
    w = torch.randn(64, 64, requires_grad=True)

    def step():
        w.grad = None
        rows = (X @ w).detach()
        w.grad = torch.mm(X.T, rows, out=torch.empty(4).resize_(0))

    found = measured(step)
    assert found.largest["gradients"] == found.timeline[last].parts["gradients"] == SQUARE
    held = [event.parts["temporaries"] for event in found.timeline]
    assert max(held) == ROWS + 16


# What one step leaves to the next


def test_a_graph_that_the_next_step_runs_backward():
    layer, kept = linear(), []

    def step():
        if kept:
            kept.pop().backward()
        else:
            kept.append(layer(X).pow(2).sum())

    found = measured(step)
    first, end = found.timeline[0].parts, found.timeline[last].parts
    # Kept from the warm-up step: what the layer read, and what it returned.
    assert (first["activations"], first["inputs"]) == (2 * ROWS, 4)  # the loss
    assert (end["activations"], end["inputs"], end["gradients"]) == (0, ROWS, SQUARE)


def forward_only():
    x, layer = torch.randn(512, 64), linear()
    return lambda: torch.relu(layer(x))


def test_a_graph_without_a_backward_pass_goes_with_its_step(tmp_path):
    found = measured(forward_only())
    assert found.peak == by_profiler(forward_only, tmp_path) == SQUARE + 3 * ROWS
    assert found.timeline[last].parts["activations"] == 0


def leaking(make):
    def build():
        x, layer, kept = torch.randn(512, 64), linear(), []
        return lambda: kept.append(make(x, layer))

    return build


@pytest.mark.parametrize(
    ("make", "unread"),
    [(lambda x, layer: x * 2, SQUARE), (lambda x, layer: layer(x).pow(2).sum(), 0)],
    ids=["tensors", "graphs"],
)
def test_what_a_step_leaves_is_there_in_the_next(make, unread, tmp_path):
    assert measured(leaking(make)()).peak + unread == by_profiler(leaking(make), tmp_path)


def test_a_graph_that_a_smaller_one_replaces():
    layer, sizes, kept = linear(), [512, 64], {}

    def step():
        kept["y"] = layer(X[: sizes.pop(0)]).pow(2)

    found = measured(step)
    assert found.timeline[0].parts["activations"] == 2 * ROWS  # X and what the layer returned
    assert found.timeline[last].parts["activations"] == ROWS + ROWS // 8  # of X all the storage
    assert found.timeline[last].parts["temporaries"] == ROWS // 8


def test_what_an_earlier_step_only_read_is_not_in_the_next():
    batches = [torch.randn(n, 64) for n in (512, 8)]
    order = list(batches)
    assert measured(lambda: order.pop(0) * 2).inputs == 8 * 64 * 4


def test_a_batch_that_the_measured_step_lets_go():
    batches = [torch.randn(512, 64)]

    def step(calls=[]):  # noqa: B006
        batches[0] * 2
        calls.append(1)
        if len(calls) > 1:
            batches.clear()

    assert measured(step).timeline[last].total == 0


def test_an_optimizer_step_that_fails_in_a_warm_up_step():
    class Failing(SGD):
        def step(self):
            raise ValueError

    layer, optimizers = linear(), [Failing([torch.ones(1)])]

    def step():
        if optimizers:
            with pytest.raises(ValueError):
                optimizers.pop().step()
        layer(X)

    assert {event.phase for event in measured(step).timeline} == {"forward"}


# Parameters that are replaced, assigned, or not read


def test_a_parameter_that_is_replaced_is_let_go():
    model, x, alive = nn.Sequential(linear()), torch.randn(8, 64), []

    def step():
        old = weakref.ref(model[0].weight)
        model[0].weight = nn.Parameter(model[0].weight.detach() * 0.9)
        gc.collect()
        alive.append(old() is not None)
        model(x).sum().backward()

    # At the peak: the old weight with its gradient, the new one, the batch.
    assert measured(step).peak == 3 * SQUARE + 8 * 64 * 4 == 51_200
    assert alive == [False, False]


def test_an_optimizer_that_is_replaced_is_let_go():
    layer, alive = linear(), []
    kept = [AdamW(layer.parameters())]

    def step():
        old = weakref.ref(kept[0])
        kept[0] = AdamW(layer.parameters())
        gc.collect()
        alive.append(old() is not None)
        layer(X).sum().backward()
        kept[0].step()

    measured(step)
    assert alive == [False, False]


def data_of_a_parameter(w):
    w.grad = None
    (X @ w).pow(2).mean().backward()
    w.data = w.data - 0.1 * w.grad


def gradient_of_a_parameter(w):
    (w.grad,) = torch.autograd.grad((X @ w).pow(2).mean(), w)


def gradient_that_an_optimizer_uses(w):
    gradient_of_a_parameter(w)
    SGD([w], lr=0.1).step()
    w.grad = None


def gradient_that_is_used_by_hand(w):
    gradient_of_a_parameter(w)
    with torch.no_grad():
        w.mul_(0.9).sub_(0.1 * w.grad)
    w.grad = None


@pytest.mark.parametrize("make", [nn.Parameter, torch.Tensor.requires_grad_])
@pytest.mark.parametrize("step", [data_of_a_parameter, gradient_of_a_parameter])
def test_what_is_assigned_to_a_parameter_is_its_own(step, make):
    w = make(torch.randn(64, 64))
    end = measured(lambda: step(w)).timeline[last].parts
    assert (end["parameters"], end["gradients"]) == (SQUARE, SQUARE)
    assert (end["inputs"], end["temporaries"]) == (ROWS, 0)


@pytest.mark.parametrize("step", [gradient_that_an_optimizer_uses, gradient_that_is_used_by_hand])
def test_a_gradient_that_is_assigned_for_a_while(step):
    w = torch.randn(64, 64, requires_grad=True)
    assert measured(lambda: step(w)).largest["gradients"] == SQUARE


def test_a_parameter_that_each_step_makes_anew():
    weights = [torch.randn(64, 64, requires_grad=True)]

    def step():
        (gradient,) = torch.autograd.grad((X @ weights[0]).pow(2).mean(), weights)
        weights[0] = (weights[0].detach() - 0.1 * gradient).requires_grad_()

    for warm_steps in (0, 1, 2):
        found = measured(step, warm_steps=warm_steps)
        assert found.parameters == SQUARE and found.inputs == 0  # X is saved: an activation


def test_an_input_that_requires_a_gradient_for_a_while():
    rows = [X]

    def step():
        x = rows[0].detach().requires_grad_()
        rows[0] = X * 1  # for the next step
        return torch.autograd.grad(x.exp().sum(), x)

    for warm_steps in (0, 1):
        assert measured(step, warm_steps=warm_steps).largest["parameters"] == 0


def test_a_parameter_that_only_the_optimizer_knows():
    used, unused = linear(), linear()
    optimizer = AdamW([*used.parameters(), *unused.parameters()])

    def step():
        optimizer.zero_grad()
        used(X).sum().backward()
        optimizer.step()

    for warm_steps in (0, 1):
        found = measured(step, warm_steps=warm_steps)
        assert {event.parts["parameters"] for event in found.timeline} == {2 * SQUARE}


# The instrument itself


def test_resizing_by_hand_is_torchs_own_again():
    def bad():
        raise ZeroDivisionError

    before = dict(vars(torch.UntypedStorage))
    measured(lambda: X * 2)
    with pytest.raises(ZeroDivisionError):
        measure.memory(bad)
    assert vars(torch.UntypedStorage) == before


def test_no_tracker_stays(monkeypatch):
    layer, kept, trackers = linear(), [], []
    new = StorageTracker.__init__
    told = lambda tracker: trackers.append(weakref.ref(tracker)) or new(tracker)  # noqa: E731
    monkeypatch.setattr(StorageTracker, "__init__", told)
    measured(lambda: kept.append(layer(X).detach()))
    gc.collect()
    assert [tracker() for tracker in trackers] == [None]


def test_a_measurement_can_be_a_key():
    found = measure.memory(lambda: X * 2)
    assert {found: "here"}[found] == "here"


class Allocator:
    """A simulated CUDA allocator with a step that uses it, its storages on the processor.

    It shows which bytes are charged to the step, not what CUDA does.
    """

    def __init__(self, monkeypatch, foreign):
        self.held = self.most = foreign
        device = property(lambda _: "cuda", lambda *_: None)
        monkeypatch.setattr(StorageTracker, "device", device, raising=False)
        self.resets = 0
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
        monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", self.reset)
        monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: self.held)
        monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: self.most)

    def reset(self):
        self.resets += 1
        self.most = self.held

    def take(self, nbytes):
        self.held += -(-nbytes // 512) * 512  # whole blocks
        self.most = max(self.most, self.held)


@pytest.mark.parametrize("foreign", [0, 10**9])
@pytest.mark.parametrize("workspace", [0, 4096])
def test_the_allocators_growth_is_the_steps(monkeypatch, foreign, workspace):
    device = Allocator(monkeypatch, foreign)
    x = torch.randn(1000)
    device.take(4000)

    def step():
        device.take(workspace)
        made = x * 2
        device.take(4000)
        del made
        device.take(-4096)
        device.take(-workspace)

    found = measured(step)
    assert found.inputs == 4000
    assert found.temporaries == found.largest["temporaries"] == 4096 + workspace
    assert found.peak == 4000 + 4096 + workspace


def test_a_step_on_the_processor_leaves_cuda_s_statistics_alone(monkeypatch):
    device = Allocator(monkeypatch, 10**9)
    device.most = 2 * 10**9
    monkeypatch.setattr(StorageTracker, "device", "cpu")
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    for warm in (0, 1):  # torch.cuda.is_initialized() is False: nothing has begun to use it
        assert measure.memory(lambda: X * 2, warm_steps=warm).peak == 2 * ROWS
    assert device.resets == 0 and device.most == 2 * 10**9


def test_an_allocator_that_saw_nothing_adds_nothing(monkeypatch):
    """As with fake tensors on a machine that has CUDA."""
    Allocator(monkeypatch, 10**9)
    assert measured(lambda: X * 2).peak == 2 * ROWS
