"""The course's optimizers: torch's to the last bit, the textbooks' by the switches, bad input."""

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn

from course_utils.train import models, optimizers
from course_utils.train.optimizers import SGD, AdaGrad, Adam, AdamW, Momentum, RMSProp

STEPS = 200


@pytest.fixture(autouse=True)
def one_thread():
    """The tensors are small: beside other programs a second thread only waits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


COURSE = {
    "SGD": SGD, "Momentum": Momentum, "AdaGrad": AdaGrad, "RMSProp": RMSProp, "Adam": Adam,
    "AdamW": AdamW,
}  # fmt: skip
TORCH = {
    "SGD": torch.optim.SGD, "Momentum": torch.optim.SGD, "AdaGrad": torch.optim.Adagrad,
    "RMSProp": torch.optim.RMSprop, "Adam": torch.optim.Adam, "AdamW": torch.optim.AdamW,
}  # fmt: skip
# By name, the settings that both take under the same names.
SETTINGS = [
    ("SGD", {"lr": 0.05}),
    ("SGD", {"lr": 0.3}),
    ("Momentum", {"lr": 0.01, "momentum": 0.9}),
    ("Momentum", {"lr": 0.05, "momentum": 0.9, "dampening": 0.9}),
    ("Momentum", {"lr": 0.03, "momentum": 0.5, "dampening": 0.25}),
    ("Momentum", {"lr": 0.05, "momentum": 0.0}),
    ("AdaGrad", {"lr": 0.1}),
    ("AdaGrad", {"lr": 0.5, "eps": 1e-3}),
    ("RMSProp", {"lr": 0.01}),
    ("RMSProp", {"lr": 0.003, "alpha": 0.9, "eps": 1e-4}),
    ("RMSProp", {"lr": 0.003, "alpha": 0.0}),
    ("Adam", {"lr": 0.01}),
    ("Adam", {"lr": 0.003, "betas": (0.8, 0.95), "eps": 1e-6}),
    ("Adam", {"lr": 0.01, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.01, "betas": (0.0, 0.0)}),
    ("AdamW", {"lr": 0.01}),
    ("AdamW", {"lr": 0.01, "weight_decay": 0.3, "betas": (0.85, 0.98)}),
    ("AdamW", {"lr": 0.01, "weight_decay": 0.0}),
]
TYPES = [torch.float32, torch.float64]


class Curved(nn.Module):
    """Two parameters of different shapes, and a curved function of them."""

    def __init__(self, kind):
        super().__init__()
        self.inner = nn.Parameter(torch.randn(5, 7, dtype=kind) / 2)
        self.outer = nn.Parameter(torch.randn(7, dtype=kind))

    def forward(self, x):
        return (x @ self.inner).tanh() @ self.outer


def problem(kind=torch.float32):
    """A model, inputs and targets that no such model fits."""
    torch.manual_seed(0)
    return Curved(kind), torch.randn(16, 5, dtype=kind), torch.randn(16, dtype=kind)


def loss_of(model, x, y):
    return nn.functional.mse_loss(model(x), y)


def walk(make, steps=STEPS, kind=torch.float32, model=None, x=None, y=None):
    """The parameters after each step, as one vector a step, with the optimizer."""
    if model is None:
        model, x, y = problem(kind)
    optimizer, path = make(model.parameters()), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(model, x, y).backward()
        optimizer.step()
        path.append(nn.utils.parameters_to_vector(model.parameters()).detach().clone())
    return torch.stack(path), optimizer


# Torch's, step by step


@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=str)
def test_every_step_is_torchs_to_the_last_bit(name, settings, kind):
    ours, _ = walk(lambda p: COURSE[name](p, **settings), kind=kind)
    theirs, _ = walk(lambda p: TORCH[name](p, **settings, foreach=False), kind=kind)
    assert ours.isfinite().all() and (ours[0] != ours[-1]).all()
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=str)
def test_foreach_gives_the_same_bits_and_fused_differs_by_rounding(name, settings, kind):
    """Given gradients, so that a rounding does not grow; in units in the last place: 2 seen."""
    given = torch.randn(STEPS, 37, dtype=kind, generator=torch.Generator().manual_seed(0)).numpy()
    start = torch.linspace(-1, 1, 37, dtype=kind).numpy()
    ours = follow(lambda ps: COURSE[name](ps, **settings), given, start)
    assert (
        ours == follow(lambda ps: TORCH[name](ps, **settings, foreach=True), given, start)
    ).all()
    if name != "RMSProp":  # torch has no fused one
        fused = follow(lambda ps: TORCH[name](ps, **settings, fused=True), given, start)
        assert abs(ours - fused).max() <= 8 * torch.finfo(kind).eps * abs(ours).max()


@pytest.mark.parametrize("name", COURSE)
def test_the_defaults_are_torchs(name):
    settings = {"momentum": 0.9} if name == "Momentum" else {}
    ours, _ = walk(COURSE[name], 20)
    theirs, _ = walk(lambda p: TORCH[name](p, **settings, foreach=False), 20)
    assert torch.equal(ours, theirs)


# The textbooks' conventions, against NumPy


def gradients(steps=30, size=6):
    return np.random.default_rng(0).standard_normal((steps, size))


def follow(optimizer_of, given, start):
    """The path of one parameter that is handed the gradients of `given`."""
    p, path = nn.Parameter(torch.tensor(start)), []
    optimizer = optimizer_of([p])
    for g in given:
        p.grad = torch.tensor(g)
        optimizer.step()
        path.append(p.detach().numpy().copy())
    return np.array(path)


def close(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-13)


START = np.linspace(-1, 1, 6)


def test_momentum_as_a_running_average():
    v, p, path = None, START.copy(), []
    for g in gradients():
        v = g if v is None else 0.8 * v + 0.2 * g
        p = p - 0.1 * v
        path.append(p)
    close(follow(lambda ps: Momentum(ps, 0.1, 0.8, dampening=0.8), gradients(), START), path)


@pytest.mark.parametrize("inside", [False, True])
def test_eps_inside_the_root_of_adagrad(inside):
    s, p, path = np.zeros(6), START.copy(), []
    for g in gradients():
        s = s + g**2
        p = p - 0.1 * g / (np.sqrt(s + 0.1) if inside else np.sqrt(s) + 0.1)
        path.append(p)
    close(follow(lambda ps: AdaGrad(ps, 0.1, eps=0.1, eps_inside=inside), gradients(), START), path)


@pytest.mark.parametrize("inside", [False, True])
def test_eps_inside_the_root_of_rmsprop(inside):
    s, p, path = np.zeros(6), START.copy(), []
    for g in gradients():
        s = 0.9 * s + 0.1 * g**2
        p = p - 0.1 * g / (np.sqrt(s + 0.1) if inside else np.sqrt(s) + 0.1)
        path.append(p)
    close(
        follow(lambda ps: RMSProp(ps, 0.1, 0.9, eps=0.1, eps_inside=inside), gradients(), START),
        path,
    )


@pytest.mark.parametrize("correct", [True, False])
@pytest.mark.parametrize("decoupled", [True, False])
def test_adam_by_hand(correct, decoupled):
    m, s, p, path = np.zeros(6), np.zeros(6), START.copy(), []
    for t, g in enumerate(gradients(), start=1):
        if decoupled:
            p = p - 0.1 * 0.2 * p
        else:
            g = g + 0.2 * p
        m, s = 0.7 * m + 0.3 * g, 0.95 * s + 0.05 * g**2
        m_hat, s_hat = (m / (1 - 0.7**t), s / (1 - 0.95**t)) if correct else (m, s)
        p = p - 0.1 * m_hat / (np.sqrt(s_hat) + 1e-3)
        path.append(p)
    settings = {"betas": (0.7, 0.95), "eps": 1e-3, "weight_decay": 0.2, "bias_correction": correct}
    rule = AdamW if decoupled else Adam
    close(follow(lambda ps: rule(ps, 0.1, **settings), gradients(), START), path)


def test_each_switch_changes_the_path():
    for rule, switch in [
        (AdaGrad, {"eps_inside": True}), (RMSProp, {"eps_inside": True}),
        (Adam, {"bias_correction": False}), (Momentum, {"dampening": 0.9}),
    ]:  # fmt: skip
        plain, switched = (
            follow(lambda ps, r=rule, s=s: r(ps, **s), gradients(), START) for s in ({}, switch)
        )
        assert (plain[-1] != switched[-1]).all(), rule


# What each rule is known for


def test_adagrads_steps_shrink_as_one_over_root_t():
    path = follow(lambda ps: AdaGrad(ps, 1.0), np.full((4, 1), 3.0), np.zeros(1))
    steps = -np.diff(path[:, 0], prepend=0.0)
    assert [round(step, 2) for step in steps] == [1.0, 0.71, 0.58, 0.5]


def test_adams_first_step_is_lr_whatever_the_gradient():
    for size in (1e-3, 1.0, 1e6):
        path = follow(lambda ps: Adam(ps, 0.1), np.array([[size]]), np.zeros(1))
        assert path[0, 0] == pytest.approx(-0.1, rel=1e-4)


def test_weight_decay_is_scaled_in_adam_and_not_in_adamw():
    """One step, gradient 1 and weights 1, 10, 100: Adam moves all by lr, AdamW shrinks them too."""
    start, given = np.array([1.0, 10.0, 100.0]), np.ones((1, 3))
    settings = {"lr": 0.1, "weight_decay": 0.5, "eps": 0.0}
    adam = follow(lambda ps: Adam(ps, **settings), given, start)[0]
    adamw = follow(lambda ps: AdamW(ps, **settings), given, start)[0]
    close(adam, start - 0.1)
    close(adamw, start * (1 - 0.1 * 0.5) - 0.1)


def test_without_weight_decay_adam_and_adamw_are_the_same():
    adam, adamw = (walk(lambda p, r=r: r(p, weight_decay=0.0), 20)[0] for r in (Adam, AdamW))
    assert torch.equal(adam, adamw)


def test_momentum_adds_up_to_ten_gradients():
    path = follow(lambda ps: Momentum(ps, 1.0, 0.9), np.ones((200, 1)), np.zeros(1))
    assert path[-2, 0] - path[-1, 0] == pytest.approx(10)


# Gradients that are missing, groups, closures, schedulers, state


@pytest.mark.parametrize("name", COURSE)
def test_a_parameter_without_gradient_is_left_alone(name):
    used, unused = (nn.Parameter(torch.ones(3)) for _ in range(2))
    optimizer = COURSE[name]([used, unused], lr=0.1)
    used.grad = torch.ones(3)
    optimizer.step()
    assert (used != 1).all() and (unused == 1).all()
    assert unused not in optimizer.state
    unused.grad = torch.ones(3)
    optimizer.step()
    assert (unused != 1).all()


@pytest.mark.parametrize("name", COURSE)
def test_no_gradients_at_all_change_nothing(name):
    p = nn.Parameter(torch.ones(3))
    optimizer = COURSE[name]([p], lr=0.1)
    assert optimizer.step() is None
    assert (p == 1).all() and not optimizer.state


@pytest.mark.parametrize("name", COURSE)
def test_a_frozen_layer_agrees_with_torch(name):
    def make(rule, **settings):
        def build(parameters):
            first, *rest = parameters
            first.requires_grad_(False)
            return rule([first, *rest], lr=0.01, **settings)

        return build

    extra = {"momentum": 0.9} if name == "Momentum" else {}
    ours, _ = walk(make(COURSE[name]), 20)
    theirs, _ = walk(make(TORCH[name], foreach=False, **extra), 20)
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("name", COURSE)
def test_lr_zero_changes_nothing(name):
    model, x, y = problem()
    before = copy.deepcopy(model.state_dict())
    walk(lambda p: COURSE[name](p, lr=0), 3, model=model, x=x, y=y)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


@pytest.mark.parametrize("name", COURSE)
def test_groups_have_settings_of_their_own(name):
    slow, fast = (nn.Parameter(torch.zeros(1)) for _ in range(2))
    optimizer = COURSE[name]([{"params": [slow], "lr": 0.1}, {"params": [fast]}], lr=1.0)
    slow.grad, fast.grad = torch.ones(1), torch.ones(1)
    optimizer.step()
    assert fast.item() == pytest.approx(10 * slow.item()) and fast.item() < 0


@pytest.mark.parametrize("name", COURSE)
def test_a_closure_is_called_with_gradients_on_and_its_loss_returned(name):
    model, x, y = problem()
    optimizer, calls = COURSE[name](model.parameters(), lr=0.01), []

    def closure():
        calls.append(torch.is_grad_enabled())
        optimizer.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        return loss

    with torch.no_grad():
        loss = optimizer.step(closure)
    assert calls == [True]
    assert loss_of(model, x, y).item() != loss.item()


@pytest.mark.parametrize("name", COURSE)
def test_a_learning_rate_schedule_works(name):
    model, x, y = problem()
    optimizer = COURSE[name](model.parameters(), lr=0.5)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
    for _ in range(3):
        optimizer.zero_grad()
        loss_of(model, x, y).backward()
        optimizer.step()
        schedule.step()
    assert optimizer.param_groups[0]["lr"] == 0.5**4


@pytest.mark.parametrize("name", COURSE)
def test_a_run_goes_on_from_its_state_as_if_nothing_had_happened(name):
    whole, _ = walk(lambda p: COURSE[name](p, lr=0.01), 20)
    model, x, y = problem()
    _, first = walk(lambda p: COURSE[name](p, lr=0.01), 8, model=model, x=x, y=y)
    saved = copy.deepcopy(first.state_dict())

    def resumed(parameters):
        optimizer = COURSE[name](parameters, lr=123.0)
        optimizer.load_state_dict(saved)
        return optimizer

    rest, _ = walk(resumed, 12, model=model, x=x, y=y)
    assert torch.equal(whole[8:], rest)


class Named(optimizers.Optimizer):
    """A learner's rule that names what it needs."""

    def update(self, p, g, state, lr):
        p.add_(g, alpha=-lr)


class Any(optimizers.Optimizer):
    """One that takes whatever its group holds."""

    def update(self, p, g, state, **settings):
        assert set(settings) == {"lr", "other"}
        p.add_(g, alpha=-settings["lr"])


@pytest.mark.parametrize("rule", [Named, Any])
def test_a_rule_of_ones_own_goes_on_from_its_state_too(rule):
    expected, _ = walk(lambda p: SGD(p, lr=0.1), 6)
    model, x, y = problem()
    _, first = walk(lambda p: rule(p, lr=0.1, other=1), 3, model=model, x=x, y=y)
    saved = copy.deepcopy(first.state_dict())

    def resumed(parameters):
        optimizer = rule(parameters, lr=9.0, other=2)
        optimizer.load_state_dict(saved)
        torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
        return optimizer

    rest, _ = walk(resumed, 3, model=model, x=x, y=y)
    assert torch.equal(rest, expected[3:])


def test_a_rule_that_asks_for_what_it_was_not_given():
    class Asking(optimizers.Optimizer):
        def update(self, p, g, state, lr, momentum):
            pass

    p = nn.Parameter(torch.ones(1))
    p.grad = torch.ones(1)
    with pytest.raises(TypeError, match="update asks for momentum, the optimizer was made with lr"):
        Asking([p], lr=0.1).step()


def test_what_each_rule_remembers():
    remembered = {}
    for name, rule in COURSE.items():
        _, optimizer = walk(lambda p, r=rule: r(p, lr=0.01), 1)
        states = list(optimizer.state.values())
        remembered[name] = sorted(states[0])
        assert all(
            not isinstance(value, torch.Tensor) or value.shape == p.shape
            for p, state in optimizer.state.items()
            for value in state.values()
        )
    assert remembered == {
        "SGD": [], "Momentum": ["v"], "AdaGrad": ["s"], "RMSProp": ["s"],
        "Adam": ["m", "s", "t"], "AdamW": ["m", "s", "t"],
    }  # fmt: skip


def test_the_gradient_itself_is_not_changed():
    for name, rule in COURSE.items():
        p = nn.Parameter(torch.ones(3))
        p.grad = torch.full((3,), 2.0)
        optimizer = rule([p], lr=0.1)
        optimizer.step()
        optimizer.step()
        assert (p.grad == 2).all(), name


def test_all_train_the_deep_linear_model():
    torch.manual_seed(0)
    x = torch.randn(64, 4)
    y = x @ torch.tensor([1.0, -2.0, 0.5, 3.0])
    rates = {"SGD": 0.02, "Momentum": 0.005, "AdaGrad": 0.1}
    for name, rule in COURSE.items():
        torch.manual_seed(1)
        model = models.DeepLinear(4, 2)
        optimizer = rule(model.parameters(), lr=rates.get(name, 0.01))
        losses = []
        for _ in range(300):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < losses[0] / 20, name


# Bad input


@pytest.mark.parametrize("name", COURSE)
@pytest.mark.parametrize(
    ("lr", "error"),
    [
        (-0.1, ValueError), (math.nan, ValueError), (math.inf, ValueError), (None, TypeError),
        (True, TypeError), ("0.1", TypeError), (torch.tensor(0.1), TypeError),
    ],
    ids=str,
)  # fmt: skip
def test_a_learning_rate_that_is_none(name, lr, error):
    with pytest.raises(error, match="^lr must be a finite number at least 0, got"):
        COURSE[name]([nn.Parameter(torch.ones(1))], lr=lr)


@pytest.mark.parametrize(
    ("rule", "settings", "error", "words"),
    [
        (Momentum, {"momentum": 1}, ValueError, "momentum must be below 1"),
        (Momentum, {"momentum": 1.5}, ValueError, "momentum must be .* at most 1"),
        (Momentum, {"momentum": -0.1}, ValueError, "momentum must be .* at least 0"),
        (Momentum, {"momentum": math.nan}, ValueError, "momentum must be"),
        (Momentum, {"dampening": 1}, ValueError, "dampening must be below 1"),
        (RMSProp, {"alpha": 1.0}, ValueError, "alpha must be below 1"),
        (RMSProp, {"eps": -1e-8}, ValueError, "eps must be"),
        (RMSProp, {"eps_inside": "yes"}, TypeError, "eps_inside must be True or False"),
        (AdaGrad, {"eps": None}, TypeError, "eps must be"),
        (AdaGrad, {"eps_inside": 1}, TypeError, "eps_inside must be True or False"),
        (Adam, {"betas": (0.9, 1.0)}, ValueError, r"betas\[1\] must be below 1"),
        (Adam, {"betas": (-0.1, 0.9)}, ValueError, r"betas\[0\] must be"),
        (Adam, {"betas": (0.9, 2)}, ValueError, r"betas\[1\] must be"),
        (Adam, {"betas": (0.9, math.nan)}, ValueError, r"betas\[1\] must be"),
        (Adam, {"betas": 0.9}, TypeError, "betas must be two numbers"),
        (Adam, {"betas": (0.9,)}, TypeError, "betas must be two numbers"),
        (Adam, {"betas": (0.9, 0.99, 0.999)}, TypeError, "betas must be two numbers"),
        (Adam, {"betas": ("0.9", 0.99)}, TypeError, r"betas\[0\] must be"),
        (Adam, {"weight_decay": -0.1}, ValueError, "weight_decay must be"),
        (Adam, {"eps": math.inf}, ValueError, "eps must be"),
        (AdamW, {"weight_decay": math.nan}, ValueError, "weight_decay must be"),
        (AdamW, {"bias_correction": "no"}, TypeError, "bias_correction must be True or False"),
    ],
    ids=str,
)
def test_settings_that_are_none(rule, settings, error, words):
    with pytest.raises(error, match=words):
        rule([nn.Parameter(torch.ones(1))], **settings)


def test_no_parameters_and_an_unfinished_rule():
    with pytest.raises(ValueError, match="empty parameter list"):
        SGD([])
    p = nn.Parameter(torch.ones(1))
    p.grad = torch.ones(1)
    with pytest.raises(NotImplementedError):
        optimizers.Optimizer([p], lr=0.1).step()
