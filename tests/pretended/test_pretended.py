"""The pretended accelerator itself, and every public function that is given a device, on it."""

import inspect
import json

import pytest
import torch

import course_utils
from course_utils import hardware, measure, predict
from course_utils.measure.record import record
from course_utils.train import Batches, Checkpoints, optimizers, precision, text_tokens, train
from course_utils.train.models import MLP, Bigram, next_token_loss
from course_utils.train.transformer import rotary_embedding, transformer
from tests.pretended import WORKSPACE, Module, native

MODULE = torch.get_device_module("pretend")


# What it pretends


def test_it_is_this_machine_s_accelerator():
    assert hardware.backend() == hardware.device_type(None) == "pretend"
    assert hardware.device_type("pretend:0") == "pretend" and hardware.refusals("pretend") == {}
    card = hardware.machine()
    assert card.name == "Pretended accelerator" and card.promise is None


def test_tensors_of_two_devices_do_not_mix():
    here, there = torch.ones(2, 2, device="pretend"), torch.ones(2, 2)
    for mixed in (lambda: here @ there, lambda: here + there, lambda: torch.cat([here, there])):
        with pytest.raises(RuntimeError, match="same device.*pretend:0 and cpu"):
            mixed()
    ids = torch.tensor([0, 1])
    table = torch.nn.Embedding(4, 2, device="pretend")
    for mixed in (lambda: table(ids), lambda: here.index_select(0, ids)):
        with pytest.raises(RuntimeError, match="same device.*pretend:0 and cpu"):
            mixed()
    assert torch.equal(here[ids].cpu(), there[ids])  # indices may come along, as on CUDA,
    assert (here * torch.tensor(3.0)).sum().item() == 12  # and a number
    with pytest.raises(TypeError, match="pretend"):
        here.numpy()


def test_its_random_numbers_are_others_than_the_processor_s():
    def drawn(device):
        torch.manual_seed(7)
        first = torch.randn(8, device=device).cpu()
        generator = torch.Generator(device).manual_seed(7)
        return first, torch.rand(8, device=device, generator=generator).cpu()

    first, again, other = drawn("pretend"), drawn("pretend"), drawn("cpu")
    for ours, same, cpu in zip(first, again, other, strict=True):
        assert torch.equal(ours, same) and not torch.equal(ours, cpu)
    with pytest.raises(RuntimeError, match="Expected a 'pretend' device type for generator"):
        torch.rand(2, device="pretend", generator=torch.Generator("cpu"))


def test_dropout_draws_from_the_device_s_generator():
    def dropped(device):
        torch.manual_seed(7)
        return torch.nn.functional.dropout(torch.ones(1000, device=device)).cpu()

    ours = dropped("pretend")
    assert torch.equal(ours, dropped("pretend")) and not torch.equal(ours, dropped("cpu"))
    assert set(ours.tolist()) == {0.0, 2.0} and 400 < ours.count_nonzero() < 600
    before = native.generator().get_state()
    torch.nn.functional.dropout(torch.ones(4, device="pretend"))
    assert not torch.equal(before, native.generator().get_state())


def test_memory_comes_in_blocks_from_segments_and_ends():
    before = MODULE.memory_allocated()
    one = torch.ones(1, device="pretend")
    assert MODULE.memory_allocated() - before == 512
    many = torch.ones(1025, dtype=torch.uint8, device="pretend")
    assert MODULE.memory_allocated() - before == 512 + 3 * 512
    assert MODULE.memory_reserved() % 2**21 == 0
    assert MODULE.memory_reserved() >= MODULE.max_memory_allocated() >= MODULE.memory_allocated()
    del one, many
    assert MODULE.memory_allocated() == before
    native.set_limit(before + 1000)
    try:
        with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate 4096 bytes"):
            torch.ones(1000, device="pretend")
    finally:
        native.set_limit(-1)
    torch.ones(1000, device="pretend")


def test_the_first_matmul_takes_a_workspace():
    native.set_workspace(WORKSPACE)
    x = torch.ones(4, 4, device="pretend")
    before = MODULE.memory_allocated()
    y = x @ x
    assert MODULE.memory_allocated() - before == 512 + WORKSPACE
    del y
    assert MODULE.memory_allocated() - before == WORKSPACE


# Every function that is given a device


def layers():
    model = MLP(64, 3).to("pretend")
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    x = torch.randn(32, 64, device="pretend")

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return model, x, step


def test_time_waits_for_the_device():
    x = torch.randn(64, 64, device="pretend")
    found = measure.time(lambda: x @ x, budget=0.05)
    assert found.device == "pretend" and found.clock == "wall" and found.value > 0


def test_the_sweep_the_peak_and_the_limits():
    def product(n):
        x = torch.randn(n, n, device="pretend")
        return lambda: x @ x

    series = {"fp32": product}
    sweep = measure.sweep(series, (16, 64), budget=2.0, work=lambda n: n**3)  # room for a pause
    assert [found.device for _, _, found in sweep] == ["pretend"] * 2
    assert measure.measured_peak("pretend", budget=0.2).value > 0
    assert measure.reference_peak("pretend", torch.bfloat16, budget=0.2).kind == "measured"
    assert measure.measured_bandwidth(budget=0.1).value > 0
    assert measure.reference_bandwidth(budget=0.1).kind == "measured"
    bounds = measure.limits(budget=0.4)
    assert bounds.overhead.device == "pretend" and bounds.ridge.value > 0


def test_copies_from_pageable_memory_and_none_from_pinned():
    found = measure.host_copies(2**20, budget=0.1)
    assert found.device == "pretend" and found.pageable.value > 0 and found.pinned is None
    assert "this accelerator has no pinned memory" in repr(found) and "B/s" in repr(found)


def test_what_is_launched_there_is_not_seen():
    _, _, step = layers()
    found = measure.kernels(step, budget=0.05)
    assert found.device == "pretend" and found.operations > 10 and found.whole > 0
    assert found.launched is found.busy is found.gaps is None
    assert repr(found).count("the profiler does not see this device") == 3


def test_flops_are_counted_there():
    model, x, step = layers()
    found, same = measure.flops(step), measure.flops(lambda: model.cpu()(x.cpu()))
    assert found.forward == same.forward > 0 and found.backward > 0


def test_memory_is_the_tracker_s_and_the_allocator_s():
    """The storages, in whole blocks of 512 bytes."""
    model, _, step = layers()
    found = measure.memory(step)
    parts = sum(p.numel() * 4 for p in model.parameters())
    assert found.parameters == found.largest["gradients"] == parts
    MODULE.reset_peak_memory_stats()
    before = MODULE.memory_allocated()
    step()
    assert 0 < MODULE.max_memory_allocated() - before <= found.peak
    unrounded = sum(found.parts().values()) - found.temporaries
    assert unrounded < found.peak


def test_a_step_on_the_processor_leaves_its_statistics_alone():
    model = MLP(8, 1)
    kept = torch.ones(10**6, device="pretend")
    del kept
    most = MODULE.max_memory_allocated()
    assert measure.memory(lambda: model(torch.ones(2, 8)).sum().backward()).peak < 10_000
    assert MODULE.max_memory_allocated() == most


def test_formats_are_watched_there():
    x = torch.randn(4, 4, device="pretend")
    with torch.autocast("pretend", torch.bfloat16):
        assert (x @ x).dtype is torch.bfloat16
        assert "bf16" in repr(measure.dtypes(lambda: x @ x)) or measure.dtypes(lambda: x @ x)


@pytest.mark.parametrize("name", precision.NAMES)
def test_training_in_every_precision(name):
    torch.manual_seed(0)
    recipe = precision.choose(name, "pretend")
    model = recipe.prepare(Bigram(8).to("pretend"))
    rule = optimizers.AdamW(model.parameters())
    feed = Batches(text_tokens(), batch=4, context=8, device="pretend", prefetch=True)
    history = train(model, rule, feed, next_token_loss, steps=4, precision=recipe)
    assert len(history.losses) == 4 and all(loss > 0 for loss in history.losses)


@pytest.mark.parametrize("preset", ["small"])
def test_a_transformer_counts_the_same_there(preset):
    config = predict.preset(preset)
    model = transformer(config).to("pretend")
    ids = torch.zeros(2, 64, dtype=torch.int64, device="pretend")
    found = measure.flops(lambda: next_token_loss(model(ids), ids).backward())
    assert found.total == predict.transformer_flops(config, 2, 64).total
    assert rotary_embedding(8, 4, torch.device("pretend"))[0].device.type == "pretend"


def test_a_run_goes_on_with_the_device_s_own_random_numbers(tmp_path):
    def start(seed):
        torch.manual_seed(seed)
        model = Bigram(8, dropout=0.5).to("pretend")
        rule = optimizers.AdamW(model.parameters())
        feed = Batches(text_tokens(), batch=4, context=8, device="pretend")
        return model, rule, feed, Checkpoints(tmp_path, model=model, optimizer=rule, batches=feed)

    model, rule, feed, kept = start(0)
    train(model, rule, feed, next_token_loss, steps=3)
    kept.save(3)
    whole = train(model, rule, feed, next_token_loss, steps=3, first=4).losses
    model, rule, feed, kept = start(9)
    assert kept.load() == 3
    assert train(model, rule, feed, next_token_loss, steps=3, first=4).losses == whole


@pytest.mark.quiet
def test_a_run_of_it_is_recorded(tmp_path):
    run = json.loads(record(tmp_path, budget=12.0).read_text())
    assert run["backend"] == "pretend" and run["device"] == "Pretended accelerator"
    assert set(run["peaks"]) == set(hardware.DTYPES) and run["bandwidth"] > 0


@pytest.mark.quiet
def test_a_format_that_the_device_refuses_is_left_out_of_its_run(tmp_path, monkeypatch):
    monkeypatch.setattr(hardware, "refusals", lambda kind: {"fp16": "it has no kernel for it"})
    run = json.loads(record(tmp_path, budget=12.0).read_text())
    assert set(run["peaks"]) == set(run["products"]) == {"fp32", "bf16"}


def test_every_public_function_with_a_device_is_here():
    """Named in this file: a new one is added here too."""
    text, missing = inspect.getsource(inspect.getmodule(layers)), []
    rooms = (course_utils.measure, course_utils.train, course_utils.hardware, precision)
    for room in rooms:
        for name in getattr(room, "__all__", ["choose"]):
            found = getattr(room, name)
            called = callable(found) and (not inspect.isclass(found) or name == "Batches")
            if called and "device" in inspect.signature(found).parameters and name not in text:
                missing.append(name)
    assert not missing


def test_the_module_says_what_torch_asks_it():
    assert isinstance(MODULE, Module) and MODULE.is_available() and MODULE.device_count() == 1
