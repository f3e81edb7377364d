"""Checkpoints: bit-identical continuation, damaged files, a full disk, a process that is killed.

The crash test is random; it prints its seed. Repeat a failure with CRASH_SEED=that number.
"""

import copy
import io
import math
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from course_utils.train import (
    Batches,
    Checkpoints,
    Diverged,
    archive,
    checkpoint,
    one_step,
    optimizers,
    precision,
    random_states,
    train,
)
from course_utils.train import __main__ as run_command
from course_utils.train.models import MLP, Bigram, next_token_loss

TOKENS = np.random.default_rng(0).integers(0, 256, 5000).astype(np.uint8)
RULES = {
    "AdamW": optimizers.AdamW,
    "Momentum": optimizers.Momentum,
    "torch's Adam": torch.optim.Adam,
    "torch's fused AdamW": partial(torch.optim.AdamW, fused=True),
    "torch's SGD": partial(torch.optim.SGD, lr=0.1, momentum=0.9),
}


class Run:
    """A model with dropout, an optimizer, batches and checkpoints."""

    def __init__(self, folder, rule=optimizers.AdamW, seed=0, prefetch=False, width=8, **settings):
        torch.manual_seed(seed)
        random.seed(seed)
        self.model = Bigram(width, dropout=0.5)
        self.optimizer = rule(self.model.parameters())
        self.batches = Batches(TOKENS, batch=4, context=8, seed=seed, prefetch=prefetch)
        self.kept = Checkpoints(
            folder, model=self.model, optimizer=self.optimizer, batches=self.batches, **settings
        )

    def go(self, steps, first=1, every=None):
        """The losses of some steps; each uses Python's and torch's generators too."""
        calls = (self.kept.every(every),) if every else ()
        history = train(
            self.model, self.optimizer, self.batches, next_token_loss,
            steps=steps, first=first, callbacks=calls,
        )  # fmt: skip
        return [*history.losses, random.random(), torch.rand(1).item()]

    def state(self):
        """Everything that loading may change, as comparable values."""
        file = io.BytesIO()
        torch.save([self.model.state_dict(), self.optimizer.state_dict()], file)
        states = random_states.random_states()
        return file.getvalue(), str(self.batches.state_dict()), str(states)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def file_of(step):
    return f"step-{step:08d}.pt"


# There and back


@pytest.mark.parametrize("prefetch", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_a_run_goes_on_as_if_nothing_had_happened(tmp_path, rule, prefetch):
    first = Run(tmp_path, RULES[rule], prefetch=prefetch)
    first.go(7)
    saved = first.kept.save(7)
    assert saved == tmp_path / file_of(7)
    whole = first.go(9, first=8)
    again = Run(tmp_path, RULES[rule], seed=99, prefetch=prefetch)
    again.go(3)  # whatever stood there before
    assert again.kept.load() == 7 and not again.kept.skipped
    assert again.go(9, first=8) == whole
    assert again.state() == first.state()


def test_saving_changes_nothing(tmp_path):
    plain, saving = Run(tmp_path / "a"), None
    expected = plain.go(10)
    saving = Run(tmp_path / "b")
    assert saving.go(10, every=1) == expected
    assert saving.state() == plain.state()


def test_all_random_states_come_back(tmp_path):
    run = Run(tmp_path)
    random.gauss(0, 1)  # leaves its second number behind
    np.random.standard_normal()  # here too

    def drawn():
        return [random.gauss(0, 1), random.random(), *torch.randn(3).tolist(),
                np.random.standard_normal(), *np.random.random(3)]  # fmt: skip

    run.kept.save(1)
    expected = drawn()
    random.seed(5)
    torch.manual_seed(5)
    np.random.seed(5)
    run.kept.load()
    assert drawn() == expected


class Generators:
    """The random states of an accelerator of several devices, as torch.cuda's functions have it."""

    def __init__(self, count):
        self.states = [torch.tensor([10 * index]) for index in range(count)]

    def get_rng_state_all(self):
        return [state.clone() for state in self.states]

    def set_rng_state(self, state, device):
        self.states[device] = state


@pytest.mark.parametrize(("had", "has"), [(4, 2), (2, 4), (1, 1)])
def test_the_states_of_an_accelerator_s_generators_go_to_the_devices_there_are(
    monkeypatch, had, has
):
    def with_devices(count):
        there = Generators(count)
        monkeypatch.setattr(torch.accelerator, "current_accelerator",
                            lambda **_: torch.device("cuda"))  # fmt: skip
        monkeypatch.setattr(torch.accelerator, "device_count", lambda: count)
        monkeypatch.setattr(torch, "get_device_module", lambda _: there)
        return there

    saver = with_devices(had)
    saver.states = [state + 1 for state in saver.states]
    saved = random_states.random_states()
    restorer = with_devices(has)
    random_states.restore_random_states(saved)
    expected = [10 * i + (i < had) for i in range(has)]
    assert [state.item() for state in restorer.states] == expected


def test_an_accelerator_of_one_device_and_another_kind(monkeypatch):
    class Mps:
        state = torch.tensor([3])

        def get_rng_state(self):
            return self.state

        def set_rng_state(self, state):
            self.state = state

    there, kind = Mps(), ["mps"]
    monkeypatch.setattr(torch.accelerator, "current_accelerator",
                        lambda **_: torch.device(kind[0]))  # fmt: skip
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 1)
    monkeypatch.setattr(torch, "get_device_module", lambda _: there)
    saved = random_states.random_states()
    there.state = torch.tensor([4])
    kind[0] = "xpu"  # a state of one kind of device means nothing to another
    random_states.restore_random_states(saved)
    assert there.state == 4
    kind[0] = "mps"
    random_states.restore_random_states(saved)
    assert there.state == 3


def test_without_batches(tmp_path):
    run = Run(tmp_path)
    bare = Checkpoints(tmp_path, model=run.model, optimizer=run.optimizer)
    bare.save(3)
    assert bare.load() == 3
    before = run.state()
    with pytest.raises(ValueError, match="does not say where the batches were"):
        run.kept.load()
    assert run.state() == before
    run.kept.save(4)  # and the other way round: what is not asked for is left
    assert bare.load() == 4


def test_the_loss_scale_goes_on(tmp_path):
    """A scale that overflow has halved is not tried again from 65536 after a resumption."""

    def start(name="fp16 scaled"):
        torch.manual_seed(0)
        recipe = precision.choose(name)
        model = recipe.prepare(torch.nn.Linear(8, 1))
        rule = optimizers.SGD(model.parameters(), lr=0.01)
        return recipe, model, rule, Checkpoints(
            tmp_path, model=model, optimizer=rule, precision=recipe
        )  # fmt: skip

    def go(recipe, model, rule, steps):
        x, y = torch.ones(16, 8), torch.full((16, 1), 100.0)  # too far off for the first scale
        return [
            one_step(model, rule, x, y, torch.nn.functional.mse_loss, precision=recipe)
            for _ in range(steps)
        ]

    recipe, model, rule, kept = start()
    go(recipe, model, rule, 12)
    assert 0 < recipe.skipped < 12 and recipe.scale == 65536 / 2**recipe.skipped
    kept.save(12)
    there = recipe.scale, recipe.skipped, go(recipe, model, rule, 4)
    again, its_model, its_rule, its_kept = start()
    assert its_kept.load() == 12
    assert (again.scale, again.skipped, go(again, its_model, its_rule, 4)) == there
    for name in ("fp32", "autocast bf16"):
        with pytest.raises(ValueError, match=f"of a run in 'fp16 scaled', this one is in '{name}'"):
            start(name)[-1].load()


def test_fp32_with_and_without_a_recipe_is_the_same_run(tmp_path):
    plain = Run(tmp_path)
    plain.kept.save(1)
    recipe = precision.choose("fp32")
    named = Checkpoints(tmp_path, model=plain.model, optimizer=plain.optimizer,
                        batches=plain.batches, precision=recipe)  # fmt: skip
    assert named.load() == 1 and recipe.skipped == 0
    named.save(2)
    assert plain.kept.load() == 2


def test_an_empty_folder_is_made_and_has_nothing(tmp_path):
    run = Run(tmp_path / "new" / "folder")
    before = run.state()
    assert run.kept.load() == 0 and run.kept.paths() == [] and not run.kept.skipped
    assert run.state() == before and (tmp_path / "new" / "folder").is_dir()
    assert Run(str(tmp_path)).kept.save(0).name == file_of(0)


def test_files_are_read_without_running_code(tmp_path, monkeypatch):
    class Evil:
        def __reduce__(self):
            return Path.touch, (tmp_path / "ran",)

    run, asked, load = Run(tmp_path), [], torch.load
    run.kept.save(1)
    state = dict.fromkeys(checkpoint.CONTENTS, Evil())
    torch.save(state, tmp_path / file_of(2))
    monkeypatch.setattr(torch, "load", lambda *a, **k: asked.append(k) or load(*a, **k))
    assert run.kept.load() == 1
    assert list(run.kept.skipped) == [tmp_path / file_of(2)] and not (tmp_path / "ran").exists()
    assert all(options["weights_only"] is True for options in asked) and len(asked) == 2


# What stays in the folder


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_only_the_newest_stay(tmp_path, keep):
    run = Run(tmp_path, keep=keep)
    run.go(10, every=2)
    assert names(tmp_path) == [file_of(step) for step in range(2, 11, 2)][-keep:]
    assert [path.name for path in run.kept.paths()] == names(tmp_path)[::-1]


def test_the_one_just_written_stays_beside_later_ones_of_an_earlier_run(tmp_path):
    Run(tmp_path).go(10, every=5)
    run = Run(tmp_path, seed=1)
    assert run.kept.save(3).exists()
    assert run.kept.save(4).exists() and run.kept.save(6).exists()
    assert names(tmp_path) == [file_of(step) for step in (5, 6, 10)]


def test_damaged_files_do_not_count_as_kept(tmp_path):
    run = Run(tmp_path, keep=1)
    run.kept.save(10)
    (tmp_path / file_of(15)).write_bytes(b"")
    assert run.kept.load() == 10
    for step in (12, 16, 17):
        run.kept.save(step)
        assert file_of(step) in names(tmp_path)
    assert names(tmp_path) == [file_of(15), file_of(17)]
    run.kept.save(15)  # whole now, and older than the newest
    run.kept.save(18)
    assert names(tmp_path) == [file_of(18)]


def test_a_partial_file_of_a_crash_is_removed(tmp_path):
    run = Run(tmp_path)
    stale = tmp_path / (file_of(7) + archive.PARTIAL)
    stale.write_bytes(b"half")
    other = tmp_path / "notes.txt"
    other.write_text("not ours")
    assert run.kept.load() == 0 and not run.kept.skipped
    run.kept.save(8)
    assert names(tmp_path) == ["notes.txt", file_of(8)]


def test_every_so_many_steps(tmp_path):
    run = Run(tmp_path, keep=10)
    run.go(8, first=5, every=4)
    assert names(tmp_path) == [file_of(8), file_of(12)]


# Checkpoints of something else


class Stranger(Run):
    """The same batches, another model or optimizer."""

    def __init__(self, folder, make=lambda: Bigram(8), rule=optimizers.AdamW):
        super().__init__(folder, seed=5)
        self.model = make()
        self.optimizer = rule(self.model.parameters())
        self.kept = Checkpoints(
            folder, model=self.model, optimizer=self.optimizer, batches=self.batches
        )


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Bigram(9), r"0.weight is \(256, 8\) of torch.float32 in the file, \(256, 9\)"),
        (lambda: MLP(3, 2), r"0.bias is nothing in the file, \(2,\) of torch.float32 in the model"),
        (lambda: torch.nn.Embedding(256, 8), r"0.weight is .* in the file, nothing in the model"),
        (
            lambda: Bigram(8).double(),
            "0.weight is .* of torch.float32 in the file, .* of torch.float64",
        ),
    ],
    ids=["width", "layers", "names", "type"],
)
def test_another_model_is_refused_before_anything_changes(tmp_path, make, words):
    Run(tmp_path).go(2, every=1)
    run = Stranger(tmp_path, make)
    before = run.state()
    with pytest.raises(ValueError, match=f"^{file_of(2)} is of another model: {words}"):
        run.kept.load()
    assert run.state() == before and len(names(tmp_path)) == 2


@pytest.mark.parametrize(
    "rule",
    [
        optimizers.SGD,
        optimizers.Adam,  # the same settings and the same names as AdamW
        torch.optim.AdamW,
        torch.optim.SGD,
        lambda parameters: optimizers.AdamW([{"params": [p]} for p in parameters]),
    ],
    ids=["SGD", "Adam", "torch's AdamW", "torch's SGD", "groups"],
)
def test_another_optimizer_is_refused_before_anything_changes(tmp_path, rule):
    Run(tmp_path).go(2, every=1)
    run = Stranger(tmp_path, rule=rule)
    before = run.state()
    with pytest.raises(ValueError, match=f"^{file_of(2)} is of another optimizer: "):
        run.kept.load()
    assert run.state() == before


# Damaged files


def two_checkpoints(folder):
    """A folder with steps 1 and 2, the state at step 1, and the newest file."""
    run = Run(folder)
    run.go(1, every=1)
    first = copy.deepcopy(run.model.state_dict())
    run.go(1, first=2, every=1)
    return first, folder / file_of(2)


DAMAGES = {
    "empty": lambda whole: b"",
    "one byte": lambda whole: whole[:1],
    "cut by a byte": lambda whole: whole[:-1],
    "cut by half": lambda whole: whole[: len(whole) // 2],
    "cut by most": lambda whole: whole[: len(whole) // 10],
    "a hole": lambda whole: whole[:2000] + bytes(4096) + whole[6096:],
    "zeros": lambda whole: bytes(len(whole)),
    "garbage": lambda whole: random.Random(0).randbytes(len(whole)),
    "text": lambda whole: b"not a checkpoint\n",
    "an old pickle": lambda whole: b"\x80\x02" + random.Random(0).randbytes(100),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_the_one_before_a_damaged_file_is_loaded(tmp_path, damage):
    first, newest = two_checkpoints(tmp_path)
    newest.write_bytes(damage(newest.read_bytes()))
    run = Run(tmp_path, seed=9)
    assert run.kept.load() == 1
    assert list(run.kept.skipped) == [newest] and newest.exists()
    assert all(torch.equal(first[key], value) for key, value in run.model.state_dict().items())


def test_a_changed_byte_is_never_loaded(tmp_path):
    """Any byte: either it is noticed, or it stands where nothing of the checkpoint is."""
    first, newest = two_checkpoints(tmp_path)
    whole, rng = newest.read_bytes(), random.Random(0)
    run = Run(tmp_path)
    assert run.kept.load() == 2
    second, results = run.state(), []
    for _ in range(150):
        changed = bytearray(whole)
        changed[rng.randrange(len(whole))] ^= rng.randrange(1, 256)
        newest.write_bytes(changed)
        results.append(run.kept.load())
        assert results[-1] == 1 or run.state() == second
    assert results.count(1) > 100


@pytest.mark.parametrize(
    "thing",
    [
        None, [1], torch.ones(3), {"step": 3}, "text",
        {"step": 3, "model": {}, "optimizer": {}, "batches": None, "random": {}},
    ],
    ids=str,
)  # fmt: skip
def test_a_file_of_something_else_is_skipped(tmp_path, thing):
    _, newest = two_checkpoints(tmp_path)
    torch.save(thing, newest)
    run = Run(tmp_path)
    assert run.kept.load() == 1 and list(run.kept.skipped) == [newest]


def test_when_all_are_damaged_it_says_so_and_changes_nothing(tmp_path):
    two_checkpoints(tmp_path)
    for name in names(tmp_path):
        (tmp_path / name).write_bytes(b"x")
    run = Run(tmp_path, seed=4)
    before = run.state()
    with pytest.raises(
        ValueError, match=r"no checkpoint in .* can be read: step-.*: File is not a zip file"
    ):
        run.kept.load()
    assert run.state() == before and len(run.kept.skipped) == 2


# What is not saved


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_parameters_that_are_not_finite_are_refused(tmp_path, value):
    run = Run(tmp_path)
    run.go(2, every=1)
    kept = run.state()
    with torch.no_grad():
        run.model[2].bias[3] = value
    with pytest.raises(Diverged, match="2.bias is not finite after step 3: no checkpoint is"):
        run.kept.save(3)
    assert names(tmp_path) == [file_of(1), file_of(2)]
    assert run.kept.load() == 2 and run.state()[0] == kept[0]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda run: run.kept.save(-1), "step must be a whole number at least 0"),
        (lambda run: run.kept.save(1.5), "step must be a whole number"),
        (lambda run: run.kept.save(None), "step must be a whole number"),
        (lambda run: run.kept.every(0), "steps must be a whole number at least 1"),
        (lambda run: run.kept.every(True), "steps must be a whole number"),
        (lambda run: Run(run.kept.folder, keep=0), "keep must be a whole number at least 1"),
        (lambda run: Run(run.kept.folder, keep="2"), "keep must be a whole number"),
    ],
)
def test_numbers_that_are_none(tmp_path, call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call(Run(tmp_path))
    assert names(tmp_path) == []


def test_buffers_and_the_optimizer_s_state_are_looked_at_too(tmp_path):
    run = Run(tmp_path)
    run.go(2, every=1)
    moment = next(iter(run.optimizer.state[run.model[2].bias].values()))
    run.model.register_buffer("mask", torch.tensor([0.0, -torch.inf]))  # infinity may be meant
    run.kept.save(3)
    run.model.mask[0] = torch.nan
    with pytest.raises(Diverged, match="mask is NaN after step 4: no checkpoint is"):
        run.kept.save(4)
    run.model.mask[0] = 0
    moment = next(x for x in run.optimizer.state[run.model[2].bias].values() if x.ndim)
    moment[0] = torch.inf
    with pytest.raises(Diverged, match=r"of 2.bias is not finite after step 4: no checkpoint is"):
        run.kept.save(4)
    assert names(tmp_path) == [file_of(2), file_of(3)]


# What could not be read back


def over_cosine(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: np.cos(step / 10))


@pytest.mark.parametrize(
    ("spoil", "where"),
    [
        (lambda run: run.optimizer.param_groups[0].update(lr=np.float64(1e-3)),
         r"optimizer\['param_groups'\]\[0\]\['lr'\], which is .*0.001.* \(float64\)"),
        (lambda run: over_cosine(run.optimizer),
         r"optimizer\['param_groups'\]\[0\]\['lr'\], which is .* \(float64\)"),
        (lambda run: run.optimizer.state[run.model[2].bias].update(seen=np.ones(2)),
         r"optimizer\['state'\]\[\d+\]\['seen'\], which is array.* \(ndarray\)"),
    ],
    ids=["lr", "schedule", "state"],
)  # fmt: skip
def test_what_could_not_be_read_back_is_named_and_the_earlier_ones_stay(tmp_path, spoil, where):
    run = Run(tmp_path, keep=1)
    run.go(2, every=1)
    spoil(run)
    words = rf"step 3 was not saved \({where}, could not be read back safely\); kept: {file_of(2)}"
    with pytest.raises(ValueError, match=words):
        run.kept.save(3)
    assert names(tmp_path) == [file_of(2)] and Run(tmp_path).kept.load() == 2


def test_a_file_that_reads_back_wrong_never_takes_the_name(tmp_path, monkeypatch):
    """As on a disk that loses what was written: the earlier checkpoint is not given up for it."""
    run, saved = Run(tmp_path, keep=1), torch.save
    run.kept.save(1)

    def losing(state, file):
        saved(state, file)
        file.seek(3000)
        file.write(bytes(500))

    monkeypatch.setattr(torch, "save", losing)
    with pytest.raises(OSError, match=rf"step 2 was not saved \(.*\); kept: {file_of(1)}"):
        run.kept.save(2)
    assert names(tmp_path) == [file_of(1)] and run.kept.load() == 1


def test_a_step_may_be_numpy_s(tmp_path):
    run = Run(tmp_path)
    assert run.kept.save(np.int64(5)).name == file_of(5) and run.kept.load() == 5


def test_steps_of_nine_digits_sort_by_their_number(tmp_path):
    run = Run(tmp_path, keep=2)
    for step in (99_999_999, 100_000_000, 100_000_001):
        run.kept.save(step)
    assert names(tmp_path) == ["step-100000000.pt", "step-100000001.pt"]
    assert run.kept.load() == 100_000_001


def test_why_a_file_cannot_be_read_is_said(tmp_path):
    class Evil:
        def __reduce__(self):
            return print, ("ran",)

    run = Run(tmp_path)
    run.kept.save(1)
    whole = (tmp_path / file_of(1)).read_bytes()
    (tmp_path / file_of(4)).write_bytes(whole[:-9])
    (tmp_path / file_of(3)).write_bytes(whole.replace(b"param_groups", b"param_goups!"))
    torch.save(dict.fromkeys(checkpoint.CONTENTS, Evil()), tmp_path / file_of(2))
    torch.save([1], tmp_path / file_of(5))
    assert run.kept.load() == 1
    said = {path.name[5:13].lstrip("0"): words for path, words in run.kept.skipped.items()}
    assert said["5"] == "it is no checkpoint of this class"
    assert said["4"] == "it is no file of torch.save, or was cut off: File is not a zip file"
    assert said["3"].startswith("its part ") and said["3"].endswith(" is damaged")
    assert said["2"] == "it holds more than plain data"


def test_extra_state_of_a_module_goes_on(tmp_path):
    class Counting(torch.nn.Linear):
        seen = 0

        def get_extra_state(self):
            return {"seen": self.seen}

        def set_extra_state(self, state):
            self.seen = state["seen"]

    def start():
        model = Counting(2, 1)
        rule = torch.optim.SGD(model.parameters())
        return model, Checkpoints(tmp_path, model=model, optimizer=rule)

    model, kept = start()
    model.seen = 7
    kept.save(1)
    again, its_kept = start()
    assert its_kept.load() == 1 and again.seen == 7


def test_parameters_in_another_order_are_refused(tmp_path):
    """An optimizer's state goes by position: in another order each would get another's."""

    class Pair(torch.nn.Module):
        def __init__(self, order):
            super().__init__()
            for name in order:
                setattr(self, name, torch.nn.Linear(3, 3, bias=False))

    def start(order):
        model = Pair(order)
        rule = torch.optim.AdamW(model.parameters())
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        rule.step()
        return Checkpoints(tmp_path, model=model, optimizer=rule)

    start("ab").save(1)
    assert start("ab").load() == 1
    words = "of another optimizer: parameter 0 of group 0 is a.weight in the file, b.weight here"
    with pytest.raises(ValueError, match=words):
        start("ba").load()


def test_the_schedule_goes_on(tmp_path):
    def start(**slot):
        model = torch.nn.Linear(2, 1)
        rule = torch.optim.SGD(model.parameters(), lr=1.0)
        schedule = torch.optim.lr_scheduler.LambdaLR(rule, lambda step: 0.5**step)
        slot = {"schedule": schedule} if slot.get("slot", True) else {}
        return rule, schedule, Checkpoints(tmp_path, model=model, optimizer=rule, **slot)

    def step(rule, schedule):
        rule.step()
        schedule.step()
        return rule.param_groups[0]["lr"]

    rule, schedule, kept = start()
    assert [step(rule, schedule) for _ in range(3)] == [0.5, 0.25, 0.125]
    kept.save(3)
    rule, schedule, kept = start()
    assert kept.load() == 3 and step(rule, schedule) == 0.0625
    *_, without = start(slot=False)
    with pytest.raises(ValueError, match="was saved with a schedule: pass it"):
        without.load()
    without.save(4)
    with pytest.raises(ValueError, match="does not say where the schedule was"):
        kept.load()


# A full disk


def test_an_error_while_writing_leaves_the_earlier_ones(tmp_path, monkeypatch):
    run = Run(tmp_path)
    run.go(2, every=1)

    def broken(state, file):
        file.write(b"half of it")
        raise RuntimeError("the disk is gone")

    monkeypatch.setattr(torch, "save", broken)
    with pytest.raises(OSError, match=r"step 3 was not saved \(the disk is gone\); kept: step-0"):
        run.kept.save(3)
    assert names(tmp_path) == [file_of(1), file_of(2)] and run.kept.load() == 2


FULL = """
import resource, sys
from pathlib import Path
from tests.test_checkpoint import Run, file_of, names

folder, found = Path(sys.argv[1]), []
run = Run(folder)
run.go(1, every=1)
run.go(1, first=2)
run.kept.save(2)
size = (folder / file_of(2)).stat().st_size
expected = run.state()
for limit in (0, 1, 100, 5000, size // 2, size - 100, size - 1):
    run.go(1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        run.kept.save(3)
        found.append("saved")
    except OSError as error:
        found.append(str(error))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert names(folder) == [file_of(1), file_of(2)], names(folder)
    assert run.kept.load() == 2 and run.state() == expected
run.go(1)
run.kept.save(3)
print(*found, sep="\\n")
"""
ROOT = Path(__file__).parent.parent


@pytest.mark.skipif(sys.platform == "win32", reason="no limit of a file's size")
def test_a_disk_that_ends_anywhere_within_the_file(tmp_path):
    """A real limit, of the whole process: the write that crosses it fails."""
    ran = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert len(lines) == 7
    for line in lines:
        assert line.startswith("step 3 was not saved ([Errno 27] File too large)")
        assert line.endswith(f"; kept: {file_of(2)}, {file_of(1)}")
    assert names(tmp_path) == [file_of(2), file_of(3)]


@pytest.fixture
def small_disk(tmp_path):
    """A real file system with room for one and a half checkpoints."""
    run, folder = Run(tmp_path / "elsewhere", width=256), tmp_path / "small"
    run.go(1)
    size = int(1.5 * run.kept.save(1).stat().st_size)
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("needs the right to mount a small file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_is_full(small_disk):
    run = Run(small_disk, width=256)
    run.go(1)
    run.kept.save(1)
    expected = run.state()
    run.go(1, first=2)
    full = rf"step 2 was not saved \(.*No space left on device\); kept: {file_of(1)}$"
    with pytest.raises(OSError, match=full):
        run.kept.save(2)
    assert names(small_disk) == [file_of(1)]
    assert run.kept.load() == 1 and run.state() == expected


# A process that is killed


STEPS = 100
WIDTH = 512  # a checkpoint of 3 MB, which takes some milliseconds to save
KILLS = 5  # in each of two runs side by side


def command(folder, every=1):
    options = ["--steps", STEPS, "--every", every, "--width", WIDTH]
    return [sys.executable, "-m", "course_utils.train", str(folder), *map(str, options)]


def fresh_partial(folder, since):
    """Whether a save is under way: a partial file that was written after `since`."""
    for path in folder.glob(f"*{archive.PARTIAL}"):
        try:
            if path.stat().st_mtime > since:
                return True
        except FileNotFoundError:  # it was complete meanwhile
            pass
    return False


def kill(folder, rng, during_save):
    """Start or resume a run and kill it. What it printed, and whether a save was cut."""
    began = time.time()
    process = subprocess.Popen(command(folder), stdout=subprocess.PIPE, text=True, cwd=ROOT)
    lines = [process.stdout.readline() for _ in range(rng.randint(3, 6))]  # so two are saved
    while during_save and process.poll() is None and not fresh_partial(folder, began):
        pass
    time.sleep(rng.uniform(0, 0.003 if during_save else 0.03))
    process.kill()
    lines += process.communicate()[0].splitlines()
    assert process.returncode == -signal.SIGKILL, "it ended before it was killed"
    return [line.strip() for line in lines], fresh_partial(folder, began)


def finish(folder, every=1):
    ran = subprocess.run(
        command(folder, every), stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT
    )
    return ran.stdout.splitlines()


def by_step(lines):
    """The losses in their exact form; a step that was taken twice must have had the same twice."""
    losses = {}
    for line in lines:
        step, loss, readable = line.split()
        assert losses.setdefault(int(step), loss) == loss, f"step {step} differs"
        assert readable == f"{float.fromhex(loss):.4f}"
    return losses


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The losses of a run that nobody kills, nor ever saves."""
    losses = by_step(finish(tmp_path_factory.mktemp("whole"), every=10 * STEPS))
    assert list(losses) == list(range(1, STEPS + 1))
    return losses


@pytest.fixture
def seed():
    chosen = int(os.environ.get("CRASH_SEED", time.time_ns() % 10**9))
    print(f"CRASH_SEED={chosen}")
    return chosen


def truncate_the_newest(folder, rng):
    """Cut the newest file anywhere and return the step of the one before; None if there is none."""
    files = sorted(folder.glob("step-*.pt"))
    if len(files) < 2:
        return None
    with open(files[-1], "r+b") as file:
        file.truncate(rng.randrange(files[-1].stat().st_size))
    return int(files[-2].stem.removeprefix("step-"))


def crash(folder, seed, truncate):
    """Kill a run KILLS times, most of them during a save, and let it end.

    Once, if asked for, the newest file is cut before the run goes on. Returns the losses by step,
    how many saves were cut, and whether a file was.
    """
    rng, lines, saves, back_to = random.Random(seed), [], 0, None
    for during_save in rng.sample([True, True, True, False, False], KILLS):
        printed, within = kill(folder, rng, during_save)
        lines += printed
        saves += within
        if truncate and back_to is None:
            back_to = truncate_the_newest(folder, rng)
            resumed_at = len(lines)
    lines += finish(folder)
    if back_to is not None:
        assert lines[resumed_at].split()[0] == str(back_to + 1)
    assert names(folder) == [file_of(STEPS - 1), file_of(STEPS)]
    return by_step(lines), saves, back_to is not None


def test_a_killed_run_is_the_uninterrupted_one_bit_for_bit(tmp_path, seed, uninterrupted):
    """Ten kills at random moments, several during a save; in one run a file is cut besides."""
    folders = [tmp_path / "plain", tmp_path / "truncated"]
    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(crash, folders, (seed, seed + 1), (False, True)))
    losses, saves, cut = zip(*runs, strict=True)
    print("kills:", KILLS * len(runs), "of these during a save:", saves)
    assert losses == (uninterrupted, uninterrupted)
    assert sum(saves) >= 2 and cut == (False, True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--every", "0"], "argument --every: it must be a whole number of at least 1, got '0'"),
        (["--every", "-5"], "at least 1, got '-5'"),
        (["--steps", "-1"], "argument --steps: it must be a whole number of at least 0, got '-1'"),
        (["--steps", "many"], "at least 0, got 'many'"),
        (["--steps", "2.5"], "at least 0, got '2.5'"),
        (["--steps", ""], "at least 0, got ''"),
        (["--width", "0"], "argument --width: it must be a whole number of at least 1, got '0'"),
        (["--depth", "3"], "unrecognized arguments: --depth 3"),
    ],
)
def test_an_option_that_makes_no_sense_is_a_usage_error(tmp_path, capsys, options, words):
    with pytest.raises(SystemExit) as stop:
        run_command.main([str(tmp_path / "run"), *options])
    said = capsys.readouterr().err
    assert stop.value.code == 2 and words in said and said.startswith("usage: python -m")
    assert not (tmp_path / "run").exists()


def test_a_file_or_nothing_in_place_of_the_folder_is_a_usage_error(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for folder, words in ((str(tmp_path / "file"), "is a file"), ("", "an empty text")):
        with pytest.raises(SystemExit):
            run_command.main([folder])
        assert "argument folder: it must be" in (said := capsys.readouterr().err) and words in said


def test_a_run_of_no_steps_ends_at_once(tmp_path):
    words = [*command(tmp_path / "new"), "--steps", "0"]
    assert subprocess.check_output(words, text=True, cwd=ROOT) == ""


@pytest.mark.parametrize(
    "spoil",
    [
        lambda run: run.optimizer.param_groups[0].update(lr=math.nan),
        lambda run: run.optimizer.param_groups[0].update(lr=torch.tensor(math.nan)),
        lambda run: run.optimizer.state[next(run.model.parameters())].update(
            old=[torch.ones(2), torch.tensor([1.0, math.nan])]
        ),
        lambda run: run.optimizer.state[next(run.model.parameters())].update(ro={"a": math.inf}),
    ],
)
def test_what_is_not_finite_is_found_in_lists_and_settings_too(tmp_path, spoil):
    run = Run(tmp_path)
    run.kept.save(1)
    spoil(run)
    with pytest.raises(Diverged, match="no checkpoint is written"):
        run.kept.save(2)
    assert [path.name for path in run.kept.paths()] == [file_of(1)]


def test_a_setting_may_be_infinite(tmp_path):
    run = Run(tmp_path)
    run.optimizer.param_groups[0]["most"] = math.inf
    assert run.kept.save(1).exists()
