"""The recipes of number formats: what each casts, what it leaves in fp32, where each one fails."""

import contextlib
import copy
import itertools
import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import mse_loss

from course_utils import formats, measure
from course_utils.train import Diverged, evaluate, models, one_step, optimizers, precision, train

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
AUTOCAST = {"autocast bf16": torch.bfloat16, "fp16": torch.float16, "fp16 scaled": torch.float16}
quick = settings(max_examples=60)


def data(rows=16, width=8):
    """Endless batches of one smooth problem."""
    generator = torch.Generator().manual_seed(0)
    while True:
        x = torch.randn(rows, width, generator=generator)
        yield x, x.sum(1, keepdim=True).tanh()


def mlp(*sizes, seed=0):
    torch.manual_seed(seed)
    return models.MLP(*(sizes or (8, 16, 1)))


def prepared(name, model=None, make=optimizers.Adam, **settings):
    recipe = precision.choose(name)
    model = recipe.prepare(mlp() if model is None else model)
    return recipe, model, make(model.parameters(), **({"lr": 0.01} | settings))


def run(name, steps=40, **given):
    recipe, model, optimizer = prepared(name, **given)
    history = train(model, optimizer, data(), mse_loss, steps=steps, precision=recipe)
    return recipe, model, optimizer, history.losses


def vector(model):
    return nn.utils.parameters_to_vector(model.parameters()).detach().clone()


# Every recipe


@pytest.mark.parametrize("name", precision.NAMES)
def test_every_recipe_learns_and_does_so_again(name):
    first, again = (run(name, steps=60) for _ in range(2))
    losses = first[-1]
    assert sum(losses[-5:]) < 0.4 * sum(losses[:5])
    assert losses == again[-1] and torch.equal(vector(first[1]), vector(again[1]))
    assert first[0].skipped <= 3 * (name == "fp16 scaled") and first[0].name == name


@pytest.mark.parametrize("name", precision.NAMES)
def test_a_model_is_evaluated_in_the_recipe_it_was_trained_in(name):
    (recipe, model, _, _), batches = run(name, steps=3), data()
    with torch.no_grad():
        losses = [recipe.forward(model, *next(batches), mse_loss).item() for _ in range(4)]
    assert evaluate(model, data(), mse_loss, steps=4, precision=recipe) == sum(losses) / 4


def test_a_narrow_model_takes_no_wide_inputs_without_its_recipe():
    _, model, _, _ = run("bf16", steps=1)
    with pytest.raises(RuntimeError, match="(?i)dtype"):
        evaluate(model, data(), mse_loss, steps=1)


@pytest.mark.parametrize("name", precision.NAMES)
def test_tokens_stay_whole_numbers(name):
    torch.manual_seed(0)
    recipe, model, optimizer = prepared(name, models.Bigram(4, dropout=0.0), lr=0.1)
    tokens = torch.randint(0, 256, (2, 9))
    batch = itertools.repeat((tokens[:, :-1], tokens[:, 1:]))
    losses = train(
        model, optimizer, batch, models.next_token_loss, steps=8, precision=recipe
    ).losses
    assert losses[-1] < losses[0] - 1


def test_the_names():
    assert precision.NAMES == (
        "fp32", "bf16", "autocast bf16", "fp16", "fp16 scaled", "fp8 simulated"
    )  # fmt: skip


def test_only_scaling_has_a_scale():
    scales = {name: precision.choose(name).scale for name in precision.NAMES}
    assert scales.pop("fp16 scaled") == 65536 and set(scales.values()) == {1.0}


@pytest.mark.parametrize("name", precision.NAMES)
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_stops_before_anything_changes(name, value):
    recipe, model, optimizer = prepared(name)
    before, (x, y) = vector(model), next(data())
    with pytest.raises(Diverged, match=f"the loss is {value} at step 7: .* may help"):
        one_step(model, optimizer, x, y, lambda p, y: (p * 0).sum() + value, 7, recipe)
    assert torch.equal(vector(model), before) and not optimizer.state
    assert all(p.grad is None for p in model.parameters()) and recipe.skipped == 0


def test_two_recipes_do_not_share_what_they_count():
    first, second = precision.choose("fp16 scaled"), precision.choose("fp16 scaled")
    first.skipped, first.scaler = 3, None
    assert second.skipped == 0 and second.scale == 65536


# fp32


def test_fp32_is_the_plain_loop_bit_for_bit():
    model = mlp()
    optimizer = optimizers.Adam(model.parameters(), lr=0.01)
    plain = train(model, optimizer, data(), mse_loss, steps=20).losses
    _, ours, _, losses = run("fp32", steps=20)
    assert losses == plain and torch.equal(vector(ours), vector(model))


@pytest.mark.parametrize("wrong", ["bf16", torch.bfloat16, 16])
def test_a_recipe_must_be_one(wrong):
    _, model, optimizer = prepared("fp32")
    with pytest.raises(TypeError, match=r"precision must come from precision\.choose\(name\), got"):
        train(model, optimizer, data(), mse_loss, steps=1, precision=wrong)


# Pure bf16


def test_pure_bf16_keeps_everything_in_bf16():
    recipe, model, optimizer, _ = run("bf16", steps=3)
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    assert {p.grad.dtype for p in model.parameters()} == {torch.bfloat16}
    state = [v for entry in optimizer.state.values() for v in entry.values()]
    assert {v.dtype for v in state if isinstance(v, torch.Tensor)} == {torch.bfloat16}
    x, y = next(data())
    assert recipe.forward(model, x, y, mse_loss).dtype == torch.bfloat16


def test_pure_bf16_loses_small_updates():
    """1 + 0.001 is 1 in bf16: half a unit in the last place is 0.0039 there."""
    moved = {}
    for name in ("fp32", "bf16"):
        layer = nn.Linear(1, 1, bias=False)
        nn.init.ones_(layer.weight)
        recipe, model, optimizer = prepared(name, layer, optimizers.SGD, lr=0.001)
        for _ in range(20):
            one = torch.ones(1, 1)
            one_step(model, optimizer, one, one, lambda p, y: -p.sum(), precision=recipe)
        moved[name] = layer.weight.item()
    assert moved == {"fp32": pytest.approx(1.02), "bf16": 1.0}


# Autocast


@pytest.mark.parametrize("name", AUTOCAST)
def test_autocast_keeps_parameters_gradients_and_state_in_fp32(name):
    _, model, optimizer, _ = run(name, steps=3)
    tensors = [t for p in model.parameters() for t in (p, p.grad)]
    tensors += [v for entry in optimizer.state.values() for v in entry.values()]
    assert {t.dtype for t in tensors if isinstance(t, torch.Tensor)} == {torch.float32}


@pytest.mark.parametrize("name", AUTOCAST)
def test_autocast_computes_layers_in_its_format_and_the_loss_in_fp32(name):
    recipe, model, _ = prepared(name)
    x, y = next(data())
    ran = measure.dtypes(lambda: recipe.forward(model, x, y, mse_loss).backward())
    kind = str(AUTOCAST[name]).removeprefix("torch.")
    assert ran.of("addmm") == ran.of("mm") == ran.of("relu") == {kind}
    assert ran.of("mse_loss") == ran.of("mse_loss_backward") == {"float32"}


@pytest.mark.parametrize("name", ["autocast bf16", "bf16", "fp16 scaled", "fp8 simulated"])
def test_narrow_formats_stay_near_fp32(name):
    near, fp32 = run(name)[-1], run("fp32")[-1]
    assert near != fp32
    assert all(abs(a - b) < 0.05 * (fp32[0] + b) for a, b in zip(near, fp32, strict=True))


# fp16: underflow and overflow


def small(p, y):
    """A loss so small that its gradients lie below 2**-25, half of fp16's smallest number."""
    return mse_loss(p, y) * 1e-8


@pytest.mark.parametrize("name", ["fp32", "fp16", "fp16 scaled"])
def test_small_gradients_underflow_without_scaling(name):
    settings = {"model": mlp(8, 1), "make": optimizers.SGD, "lr": 1e7}
    recipe, model, optimizer = prepared(name, **settings)
    start, batches = vector(model), data()
    losses = [
        one_step(model, optimizer, *next(batches), small, precision=recipe) for _ in range(30)
    ]
    if name == "fp16":
        assert all(p.grad.count_nonzero() == 0 for p in model.parameters())
        assert torch.equal(vector(model), start)
        return
    assert losses[-1] < 0.5 * losses[0]
    expected = mlp(8, 1)
    train(expected, optimizers.SGD(expected.parameters(), lr=1e7), data(), small, steps=30)
    torch.testing.assert_close(vector(model), vector(expected), rtol=0.01, atol=0.003)
    assert recipe.skipped == 0


def test_overflow_skips_steps_halves_the_scale_and_recovers():
    recipe, model, optimizer = prepared("fp16 scaled", mlp(8, 1), optimizers.SGD, lr=0.1)
    x, y = next(data())
    start, far = vector(model), y + 100  # gradients of the scores: 2 · 100 / 16, too large scaled
    scale, losses = 65536.0, []
    while not recipe.skipped or recipe.scale < scale:
        assert torch.equal(vector(model), start) and not optimizer.state
        scale = recipe.scale
        losses.append(one_step(model, optimizer, x, far, mse_loss, precision=recipe))
        assert recipe.scale in (scale, scale / 2)
    assert recipe.skipped == len(losses) - 1 >= 3 and len(set(losses)) == 1
    assert recipe.scale == 65536 / 2**recipe.skipped
    skipped, moved = recipe.skipped, vector(model)
    assert not torch.equal(moved, start) and moved.isfinite().all()
    later = [one_step(model, optimizer, x, far, mse_loss, precision=recipe) for _ in range(20)]
    assert later[-1] < 0.3 * losses[0] and recipe.skipped == skipped


def test_a_skipped_step_does_not_stop_the_loop():
    recipe, model, optimizer = prepared("fp16 scaled", mlp(8, 1), optimizers.SGD, lr=0.1)
    far, seen = ((x, y + 100) for x, y in data()), []
    history = train(
        model, optimizer, far, mse_loss, steps=30, precision=recipe,
        callbacks=(lambda step: seen.append(recipe.skipped),),
    )  # fmt: skip
    assert seen[0] == 1 and seen == sorted(seen) and seen[-1] == seen[10] > 3
    assert history.losses[-1] < 0.3 * history.losses[0]


@pytest.mark.parametrize("name", ["fp16", "fp16 scaled"])
def test_without_scaling_infinite_gradients_reach_the_parameters(name):
    """The loss is finite: its gradient, 100 · 1000 for the weight, is not in fp16."""
    layer = nn.Linear(1, 1, bias=False)
    recipe, model, optimizer = prepared(name, layer, optimizers.SGD, lr=1e-9)
    batch = (torch.full((1, 1), 100.0), torch.zeros(1, 1), lambda p, y: 1000 * p.float().sum())
    one_step(model, optimizer, *batch, precision=recipe)
    if name == "fp16 scaled":
        assert vector(model).isfinite().all() and recipe.skipped == 1
        return
    assert not vector(model).isfinite().any()
    with pytest.raises(Diverged, match="at step 2: fp16 ends at 65504: bf16, or a smaller lr"):
        one_step(model, optimizer, *batch, 2, precision=recipe)


@pytest.mark.parametrize("name", ["fp16", "fp16 scaled"])
def test_a_forward_pass_beyond_65504_stops_the_run(name):
    recipe, model, optimizer = prepared(name)
    before, (x, y) = vector(model), next(data())
    with pytest.raises(Diverged, match="the loss is (inf|nan) at step 1: fp16 ends at 65504"):
        one_step(model, optimizer, x * 1e7, y, mse_loss, precision=recipe)
    assert torch.equal(vector(model), before) and recipe.skipped == 0


def test_gradients_that_are_nan_at_every_scale_end_the_run():
    recipe, model, optimizer = prepared("fp16 scaled", mlp(8, 1))
    start, (x, y) = vector(model), next(data())

    def loss(p, y):  # finite; its gradient is 0 times infinity
        return (p.float() * 0).sum().sqrt()

    with pytest.raises(Diverged, match="not finite at any loss scale; 1[67][0-9] skipped"):
        for _ in range(300):
            one_step(model, optimizer, x, y, loss, precision=recipe)
    assert torch.equal(vector(model), start)


# fp8: rounding


def table(name):
    """Every finite number of a format, its magnitudes by pattern, in exact fractions."""
    form = formats.format_named(name)
    patterns = range(1 << (form.bits - 1))
    values = [formats.decode(pattern, name) for pattern in patterns]
    return [Fraction(value) for value in values if math.isfinite(value)]


TABLES = {E4M3: table("float8_e4m3fn"), E5M2: table("float8_e5m2")}


def nearest(value, dtype):
    """The nearest number of the format by search; a tie takes the even pattern; saturates."""
    numbers = TABLES[dtype]
    best = min(range(len(numbers)), key=lambda n: (abs(numbers[n] - abs(Fraction(value))), n % 2))
    return math.copysign(float(numbers[best]), value)


@pytest.mark.parametrize("dtype", TABLES)
def test_what_fp8_holds_stays(dtype):
    values = torch.tensor([float(v) for v in TABLES[dtype]])
    assert torch.equal(formats.round_fp8(values, dtype, 1.0), values)
    assert torch.equal(formats.round_fp8(-values / 8, dtype, 0.125), -values / 8)
    assert torch.equal(formats.round_fp8(values, dtype), values)  # its scale is 1


@pytest.mark.parametrize("dtype", TABLES)
def test_ties_go_to_the_even_pattern(dtype):
    middles = [float(a + b) / 2 for a, b in itertools.pairwise(TABLES[dtype])]
    came = formats.round_fp8(torch.tensor(middles), dtype, 1.0).tolist()
    assert came == [nearest(value, dtype) for value in middles]


@quick
@given(st.sampled_from(list(TABLES)), st.floats(-70_000, 70_000, width=32))
def test_fp8_rounds_to_the_nearest(dtype, value):
    assert formats.round_fp8(torch.tensor(value), dtype, 1.0).item() == nearest(value, dtype)


@quick
@given(
    st.sampled_from(list(TABLES)),
    st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=9),
)
def test_the_scale_is_the_tensors_own(dtype, values):
    x = torch.tensor(values)
    came = formats.round_fp8(x, dtype)
    largest = torch.tensor(float(TABLES[dtype][-1]))
    scale = (x.abs().max() / largest).clamp(min=2.0**-126)
    expected = torch.tensor([nearest(v, dtype) for v in (x / scale).tolist()]) * scale
    assert torch.equal(came, expected)
    half = {E4M3: 2**-4, E5M2: 2**-3}[dtype]
    assert came.abs().max().item() == pytest.approx(x.abs().max().item(), rel=1e-6, abs=1e-38)
    assert torch.all((came - x).abs() <= half * x.abs() + scale * float(TABLES[dtype][1]))


@pytest.mark.parametrize("dtype", TABLES)
def test_beyond_the_largest_fp8_saturates(dtype):
    largest = float(TABLES[dtype][-1])
    values = torch.tensor([largest * 1.01, -largest * 3, math.inf, -math.inf, math.nan])
    came = formats.round_fp8(values, dtype, 1.0).tolist()
    assert came[:4] == [largest, -largest, largest, -largest] and math.isnan(came[4])


@pytest.mark.parametrize("dtype", TABLES)
def test_zeros_and_what_is_not_finite_without_a_scale(dtype):
    assert torch.equal(formats.round_fp8(torch.zeros(3), dtype), torch.zeros(3))
    for value in (math.nan, math.inf):
        assert formats.round_fp8(torch.tensor([1.0, value]), dtype).isnan().all()


def test_fp8_comes_back_in_fp32_without_a_gradient():
    x = torch.linspace(-1, 1, 9, dtype=torch.bfloat16, requires_grad=True)
    came = formats.round_fp8(x, E4M3)
    assert came.dtype == torch.float32 and not came.requires_grad and came.shape == x.shape


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((torch.ones(2), torch.float16), "dtype must be one of torch.float8_e4m3fn, torch.float8_"),
        ((torch.ones(2), "float8_e4m3fn"), "dtype must be one of"),
        (([1.0], E4M3), "x must be a tensor of floats"),
        ((torch.ones(2, dtype=torch.int64), E4M3), "x must be a tensor of floats"),
        ((torch.ones(0, 2), E4M3), r"x must have at least one element, got the shape \(0, 2\)"),
        ((torch.ones(2), E4M3, 0.0), "scale must be a finite number above 0"),
        ((torch.ones(2), E4M3, -1), "scale must be a finite number above 0"),
        ((torch.ones(2), E4M3, math.inf), "scale must be a finite number above 0"),
        ((torch.ones(2), E4M3, "1"), "scale must be a finite number above 0"),
    ],
)
def test_what_fp8_cannot_round(given, words):
    with pytest.raises((TypeError, ValueError), match=words):
        formats.round_fp8(*given)


# fp8: the layers


@pytest.mark.parametrize("shape", [(8,), (5, 8), (2, 3, 8)])
@pytest.mark.parametrize("bias", [True, False])
def test_fp8_gradients_are_products_of_rounded_factors(shape, bias):
    torch.manual_seed(0)
    plain, x = nn.Linear(8, 4, bias=bias), torch.randn(shape, requires_grad=True)
    layer = precision.choose("fp8 simulated").prepare(copy.deepcopy(plain))
    grad = torch.randn(*shape[:-1], 4)
    layer(x).backward(grad)
    rounded = formats.round_fp8
    x8, w8, g8 = rounded(x, E4M3), rounded(plain.weight, E4M3), rounded(grad, E5M2)
    assert torch.equal(x.grad, g8 @ w8) and x.grad.shape == x.shape
    by_hand = torch.einsum("no,ni->oi", g8.reshape(-1, 4), x8.reshape(-1, 8))
    torch.testing.assert_close(layer.weight.grad, by_hand)
    values = x8 @ w8.T + plain.bias if bias else x8 @ w8.T
    assert torch.equal(layer(x), values)
    if bias:
        torch.testing.assert_close(layer.bias.grad, grad.reshape(-1, 4).sum(0))
    exact = torch.autograd.grad(plain(x), [x, plain.weight], grad)
    for ours, theirs in zip((x.grad, layer.weight.grad), exact, strict=True):
        assert 1e-3 < (ours - theirs).norm() / theirs.norm() < 0.15


def test_fp8_multiplies_as_often_as_fp32():
    """Nothing is computed for data without a gradient, nor for a frozen weight."""
    x = torch.randn(3, 8)
    for frozen in ((), (0,), (2,)):
        counted = []
        for name in ("fp32", "fp8 simulated"):
            model = precision.choose(name).prepare(mlp())
            for place in frozen:
                model[place].weight.requires_grad_(False)
            counted.append(measure.flops(lambda model=model: model(x).sum().backward()))
        assert counted[0].forward == counted[1].forward > 0
        assert counted[0].backward == counted[1].backward > 0


def test_fp8_changes_linear_layers_in_place_and_keeps_their_parameters():
    class Own(nn.Linear):
        pass

    body = nn.Linear(4, 4)
    model = nn.Sequential(body, nn.Sequential(nn.ReLU(), nn.Linear(4, 4)), Own(4, 4), body)
    held, names = list(model.parameters()), list(model.state_dict())
    assert precision.choose("fp8 simulated").prepare(model) is model
    assert all(a is b for a, b in zip(model.parameters(), held, strict=True))
    assert list(model.state_dict()) == names and model[3] is model[0] is body
    kinds = [type(model[place]).__name__ for place in (0, 2, 3)] + [type(model[1][1]).__name__]
    assert kinds == ["Fp8Linear", "Own", "Fp8Linear", "Fp8Linear"]
    assert isinstance(body, nn.Linear) and "in_features=4" in repr(body)


def test_gradients_that_are_not_finite_reach_the_loop_as_nan():
    recipe, model, optimizer = prepared("fp8 simulated")
    x, y = next(data())
    infinite = lambda p, y: (p - p.detach()).sum().sqrt()  # noqa: E731
    one_step(model, optimizer, x, y, infinite, precision=recipe)
    with pytest.raises(Diverged, match="the loss is nan at step 2"):
        one_step(model, optimizer, x, y, mse_loss, 2, precision=recipe)


# What cannot be chosen or prepared


@pytest.mark.parametrize("name", ["fp64", "BF16", "", None, torch.bfloat16])
def test_an_unknown_name(name):
    with pytest.raises(ValueError, match="name must be one of 'fp32', 'bf16', 'autocast bf16', "):
        precision.choose(name)


@pytest.mark.parametrize(
    ("name", "device", "words"),
    [
        ("bf16", "nowhere", "'nowhere' cannot compute in torch.bfloat16 here: "),
        ("fp32", 1.5, "'1.5' cannot compute in torch.float32 here: "),
        ("autocast bf16", "meta", "'meta' cannot compute in torch.bfloat16 here: .*autocast"),
        ("fp16 scaled", torch.device("meta"), "'meta' cannot compute in torch.float16 here: "),
    ],
)
def test_a_device_that_cannot(name, device, words):
    with pytest.raises(ValueError, match=words):
        precision.choose(name, device)


@pytest.mark.skipif(torch.accelerator.is_available(), reason="there is an accelerator")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("device", ["cuda", "mps", "xpu"])
@pytest.mark.parametrize("name", precision.NAMES)
def test_an_accelerator_that_is_not_there(name, device):
    with pytest.raises(ValueError, match=rf"'{device}' cannot compute in torch\.\w+ here: .+"):
        precision.choose(name, device)


def test_a_device_without_the_format(monkeypatch):
    def refuse(*_):
        raise RuntimeError('"addmm_impl_cpu_"\nnot implemented for Half')

    monkeypatch.setattr(torch.Tensor, "__matmul__", refuse)
    words = "'cpu' cannot compute in torch.float16 here: not implemented for Half$"
    with pytest.raises(ValueError, match=words):
        precision.choose("fp16")


def test_autocast_that_does_nothing_is_found(monkeypatch):
    monkeypatch.setattr(torch, "autocast", lambda *_: contextlib.nullcontext())
    with pytest.raises(
        ValueError, match="'cpu' cannot .* autocast left a product in torch.float32"
    ):
        precision.choose("autocast bf16")


@pytest.mark.parametrize("name", precision.NAMES)
def test_a_model_on_another_device(name):
    model = nn.Linear(2, 2, device="meta")
    words = f"the model is on meta, the recipe for cpu: precision.choose\\('{name}', device='meta'"
    with pytest.raises(ValueError, match=words):
        precision.choose(name).prepare(model)


@pytest.mark.parametrize("name", precision.NAMES)
def test_a_model_that_is_not_plain_fp32(name):
    recipe = precision.choose(name)
    for dtype in (torch.bfloat16, torch.float64):
        with pytest.raises(ValueError, match=f"the model is in {dtype}: start from one in"):
            recipe.prepare(mlp().to(dtype))
    with pytest.raises(ValueError, match="the model was prepared for fp8: start from a new one"):
        recipe.prepare(precision.choose("fp8 simulated").prepare(mlp()))


def test_fp8_needs_a_linear_layer():
    with pytest.raises(ValueError, match=r"the model has no nn\.Linear: nothing in it"):
        precision.choose("fp8 simulated").prepare(models.DeepLinear(4, 2))


@pytest.mark.parametrize("name", ["fp32", "bf16", "autocast bf16", "fp8 simulated"])
def test_fake_models_are_prepared_and_weighed(name):
    """Parameters, gradients and the two averages of Adam; the scaler alone must read numbers."""
    size = sum(p.numel() for p in mlp().parameters())
    with measure.fake():
        recipe, model, optimizer = prepared(name)
        x, y = torch.ones(4, 8), torch.ones(4, 1)

        def step():
            optimizer.zero_grad()
            recipe.update(recipe.forward(model, x, y, mse_loss), optimizer)

        held = measure.memory(step).largest
    each = 2 if name == "bf16" else 4
    assert (held["parameters"], held["gradients"]) == (each * size, each * size)
    assert held["optimizer"] == 2 * each * size


def test_buffers_of_whole_numbers_stay():
    model = nn.BatchNorm1d(4)
    precision.choose("bf16").prepare(model)
    assert model.num_batches_tracked.dtype == torch.int64
    assert model.running_mean.dtype == model.weight.dtype == torch.bfloat16


def test_models_without_memory_take_formats_that_need_no_autocast():
    model = mlp().to("meta")
    recipe = precision.choose("bf16", "meta")
    x, y = torch.ones(4, 8, device="meta"), torch.ones(4, 1, device="meta")
    wrong = recipe.forward(recipe.prepare(model), x, y, mse_loss)
    recipe.update(wrong, optimizers.SGD(model.parameters()))
    assert {p.grad.dtype for p in model.parameters()} == {torch.bfloat16}
