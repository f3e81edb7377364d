"""The instruments on a simulated CUDA device: true times on the device, or a doubt that says so.

What a real device does is for `make gpu`; the arithmetic of queues, launches and shares is here.
"""

import os
from random import Random

import pytest

from course_utils import compare, hardware, measure
from course_utils.hardware import trial
from course_utils.measure import clock
from tests.simulated_cuda import SimulatedCuda, SimulatedNvml, install

OURS = os.getpid()


def alone():
    return SimulatedNvml({OURS}, {OURS: 60})


def machine(monkeypatch, nvml=None, **settings):
    return install(monkeypatch, SimulatedCuda(**settings), nvml or alone())


@pytest.mark.parametrize("seconds", [2e-6, 5e-6, 10e-6, 20e-6, 100e-6, 1e-3, 10e-3])
@pytest.mark.parametrize("latency", [3e-6, 10e-6, 40e-6])
def test_short_work_is_timed_without_its_launch(monkeypatch, seconds, latency):
    device = machine(monkeypatch, latency=latency)
    found = measure.time(lambda: device.launch(seconds), budget=0.5, device="cuda")
    assert found.value == pytest.approx(seconds, rel=0.02)
    assert found.trusted and found.clock == "device"
    between = max(seconds, latency)  # the wait at the end is shared by a block
    assert found.per_call == pytest.approx(between, rel=0.1, abs=0.5e-6)
    assert found.launch_bound == (found.per_call > 1.25 * seconds)
    assert ("bound by launching" in repr(found)) == found.launch_bound
    assert device.host < 0.5 + 20 * seconds + 1e-3


def test_a_call_of_many_operations_is_their_sum(monkeypatch):
    device = machine(monkeypatch)

    def step():
        for _ in range(50):
            device.launch(3e-6)

    found = measure.time(step, budget=0.5, device="cuda")
    assert found.value == pytest.approx(150e-6, rel=0.02) and found.launch_bound
    assert found.per_call == pytest.approx(500e-6, rel=0.05)


@pytest.mark.parametrize("seconds", [5e-6, 1e-3, 20e-3, 0.1])
def test_what_waits_for_the_device_itself_is_timed_until_it_is_done(monkeypatch, seconds):
    device = machine(monkeypatch)

    def step():
        device.launch(seconds)
        device.wait()  # as .item() does

    found = measure.time(step, budget=0.5, device="cuda")
    assert found.clock == "wall" and not found.launch_bound
    assert found.value == pytest.approx(10e-6 + seconds + 2 * 5e-6, rel=0.05)
    assert device.host < 0.5 + seconds + 0.3 and (found.trusted or seconds > 0.02)


@pytest.mark.parametrize("kernels", [60, 100, 400, 900])
@pytest.mark.parametrize("seconds", [3e-6, 4e-6, 12e-6])
def test_calls_of_which_few_fit_into_the_queue_are_queued_in_smaller_blocks(
    monkeypatch, kernels, seconds
):
    """Twenty calls would fill the queue, so that its backlog ends while the host waits for room."""
    device = machine(monkeypatch, latency=5e-6)

    def step():
        for _ in range(kernels):
            device.launch(seconds)

    found = measure.time(step, budget=0.5, device="cuda")
    assert found.clock == "device" and found.trusted
    assert found.value == pytest.approx(kernels * seconds, rel=0.02)
    assert max(found.samples) < 1.05 * kernels * seconds  # one kind of samples


def test_more_launches_than_the_queue_holds(monkeypatch):
    """The host then waits for room in the queue, and no backlog outlasts it: said, not wrong."""
    device = machine(monkeypatch)

    def step():
        for _ in range(1500):
            device.launch(12e-6)

    found = measure.time(step, budget=2.0, device="cuda")
    assert found.clock == "wall" and found.value == pytest.approx(0.018, rel=0.02)


def test_a_call_that_takes_long_is_timed_without_a_backlog(monkeypatch):
    device = machine(monkeypatch)
    found = measure.time(lambda: device.launch(0.05), budget=1.0, device="cuda")
    assert found.value == pytest.approx(0.05, rel=0.02) and found.trusted and device.host < 1.06


@pytest.mark.parametrize("seconds", [1.3e-6, 2.1e-6, 3.9e-6])
def test_a_coarse_clock_does_not_round_short_work(monkeypatch, seconds):
    """As on an A100, whose events tick every 1.024 µs: several calls lie between two events."""
    device = machine(monkeypatch, tick=1.024e-6)
    found = measure.time(lambda: device.launch(seconds), budget=0.3, device="cuda")
    assert found.value == pytest.approx(seconds, rel=0.02) and found.trusted


def test_work_that_does_not_run_on_the_device_is_doubted(monkeypatch):
    device = machine(monkeypatch)
    found = measure.time(lambda: device.work(3e-3), budget=0.5, device="cuda")
    assert "hardly anything ran on the device" in found.doubt


def test_the_clock_of_work_from_before_and_the_budget(monkeypatch):
    device = machine(monkeypatch)
    device.launch(0.3)  # neither timed nor charged
    found = measure.time(lambda: device.launch(0.01), budget=0.5, device="cuda")
    assert found.samples == pytest.approx((0.01,) * len(found.samples), rel=0.01)
    assert found.warm and found.trusted
    assert 0.75 < device.host <= 0.3 + 0.5 + 0.02
    assert len(found.samples) > 30 and device.waits < 16  # the queue is kept filled


def test_calls_that_break_the_budget_are_not_started(monkeypatch):
    device = machine(monkeypatch)
    slow = measure.time(lambda: device.launch(0.2), budget=0.5, device="cuda")
    assert len(slow.samples) == 1 and not slow.trusted and device.host < 0.5
    cold = measure.time(lambda: device.launch(2.0), budget=0.5, device="cuda")
    assert cold.samples == pytest.approx((2.0,), rel=0.01) and not cold.warm


def test_another_accelerator_is_waited_for_after_each_call(monkeypatch):
    device = machine(monkeypatch)
    found = measure.time(lambda: device.launch(0.01), budget=0.5, device="mps")
    assert min(found.samples) >= 0.01 and found.clock == "wall"
    assert device.waits == len(found.samples) + 2  # once before, once for the warm-up


@pytest.mark.parametrize("seconds", [2e-6, 1e-3])
def test_no_more_samples_are_kept_than_anywhere(monkeypatch, seconds):
    device = machine(monkeypatch)
    found = measure.time(lambda: device.launch(seconds), budget=1e305, device="cuda")
    assert len(found.samples) == clock.MAX_SAMPLES


# Other programs on the device


UNSEEN = "other programs on this GPU cannot be seen here"


@pytest.mark.parametrize(
    ("nvml", "words", "note"),
    [
        (SimulatedNvml({OURS, 7}, {OURS: 40, 7: 40}), "another program computes on this GPU", ""),
        (SimulatedNvml({8, 9}, {8: 40, 9: 40}), "another program computes", ""),  # in a container
        (SimulatedNvml({OURS, 7}, {7: 40}), "another program computes", ""),
        (SimulatedNvml({OURS, 7}, {OURS: 90, 7: 0}), "", ""),  # it holds memory, and rests
        (SimulatedNvml({OURS, 7}, {OURS: 90, 7: 4}), "", ""),  # it draws the screen
        (SimulatedNvml({8, 9}, {8: 90}), "", ""),
        (SimulatedNvml({OURS}, {}), "", ""),
        (SimulatedNvml({OURS}, {OURS: 1}, refuses="samples"), "", ""),
        (SimulatedNvml(set(), {}, refuses="samples"), "", ""),
        (SimulatedNvml({OURS, 7}, {}, refuses="samples"), "", UNSEEN),
        (SimulatedNvml({OURS}, {}, refuses="programs"), "", UNSEEN),
    ],
)  # fmt: skip
def test_another_program_is_seen_through_the_driver(monkeypatch, nvml, words, note):
    device = machine(monkeypatch, nvml)
    found = measure.time(lambda: device.launch(1e-3), budget=0.2, device="cuda")
    assert words in found.doubt and bool(words) == bool(found.doubt)
    assert found.note == note and (note in repr(found))


def test_without_the_driver_s_word_a_time_says_what_it_cannot_see(monkeypatch):
    device = install(monkeypatch, SimulatedCuda(), None)
    found = measure.time(lambda: device.launch(1e-3), budget=0.2, device="cuda")
    assert found.trusted and found.note == UNSEEN and UNSEEN in repr(found)
    assert not measure.time(lambda: 1, budget=0.01, device="cpu").note


def test_no_trusted_time_is_wrong_on_two_hundred_machines(monkeypatch):
    random, easy = Random(0), []
    for seed in range(200):
        busy = random.random() < 0.3
        others = {7: random.randint(20, 95)} if busy else {}
        device = machine(
            monkeypatch,
            SimulatedNvml({OURS, *others}, {OURS: 50, **others}),
            latency=random.choice([3e-6, 10e-6, 30e-6, 80e-6]),
            event=random.choice([0.0, 1e-6, 3e-6]),
            wait=random.choice([1e-6, 20e-6]),
            slice=random.choice([0.5e-3, 2e-3]) if busy else 0.0,
        )
        kernels = [
            10 ** random.uniform(-5.7, -2 if random.random() < 0.5 else -4)
            for _ in range(random.choice([1, 1, 3, 20, 90]))
        ]
        python, waits = random.choice([0.0, 0.0, 50e-6, 1e-3]), random.random() < 0.1

        def step(device=device, kernels=kernels, python=python, waits=waits):
            device.work(python)
            for seconds in kernels:
                device.launch(seconds)
            if waits:
                device.wait()

        budget = random.choice([0.05, 0.5])
        found = measure.time(step, budget=budget, device="cuda")
        truth = sum(kernels)
        wall = python + truth + device.latency * len(kernels)
        if found.clock == "device":
            correct = found.value == pytest.approx(truth, rel=0.02)
        else:  # and said to be the time until all is done
            correct = found.value >= 0.98 * truth and found.value < 1.1 * wall + 1e-3
        assert correct or not found.trusted, (seed, found, truth)
        assert not (busy and found.trusted), (seed, found)
        if not busy and 20 * wall < budget and truth > 0.01 * wall:
            easy.append(correct and found.trusted)
    assert len(easy) > 50 and sum(easy) > 0.97 * len(easy)  # and not by doubting all


# Start-up


def test_the_first_point_does_not_pay_for_the_start_up(monkeypatch):
    """A context of 0.3 s and a matmul of 0.2 s once ended the line of fp32 after one point."""
    device = machine(monkeypatch, start_up=4.0, first=0.2)

    def touched(_kind):
        device.launch(1e-6, matmul=True)
        device.wait()
        return {}

    monkeypatch.setattr(hardware, "device_type", lambda name: touched(name) or name)
    seconds = lambda n: 2 * n**3 / 60e12 + 2e-6  # noqa: E731
    series = {"fp32": lambda n: lambda: device.launch(seconds(n), matmul=True)}
    sizes = (64, 256, 1024, 4096, 8192)
    sweep = measure.sweep(series, sizes, budget=4.0, work=lambda n: n**3, device="cuda")
    began = device.host
    list(sweep)
    assert device.host - began < 4.0 and sorted(sweep.reached("fp32")) == list(sizes)
    for n in sizes:
        assert sweep.at("fp32", n).value == pytest.approx(seconds(n), rel=0.02)


def test_every_number_format_is_touched_once_when_the_device_is_chosen(monkeypatch):
    """On a device of torch's that needs no hardware."""
    trial.refusals.cache_clear()
    seen = []
    monkeypatch.setattr(trial.torch.accelerator, "synchronize", lambda: seen.append("waited"))
    assert trial.refusals("cpu") == {} and len(seen) == 3
    assert trial.refusals("cpu") == {} and len(seen) == 3
    why = trial.refusals("meta")
    assert set(why) == {"fp32", "bf16", "fp16"} and "meta" in why["fp32"]
    trial.refusals.cache_clear()


# What is said of it


def limits(peak=60e12, memory=3e12, launch=10e-6):
    start = measure.Time((2e-6,) * 9, 1, "cuda", clock="device", felt=launch)
    return measure.Limits(
        measure.Peak(peak, "datasheet", "sheet", "fp32"),
        measure.Bandwidth(memory, "datasheet", "sheet"),
        start,
    )


def test_launch_bound_work_is_not_blamed_on_size_or_format():
    found = measure.Time((2e-6,) * 9, 1, "cuda", clock="device", felt=12e-6)
    words = compare.bound(found, flops=2 * 64**3, nbytes=3 * 4 * 64**2, limits=limits())
    assert words.startswith("It is bound by launching: a call takes 12 µs, of which the device")
    assert "2 µs" in words and "odd a shape" not in words


def test_a_comparison_tells_both_times():
    found = measure.Time((2e-6,) * 9, 1, "cuda", clock="device", felt=12e-6)
    given = {"id": "test", "what": "a product", "unit": "s", "predicted": 2e-6}
    said = compare(**given, measured=found).explanation()
    assert said.startswith("On this machine the two are equal.")
    assert said.endswith("Launched from Python, a call takes 12 µs.")
    alone = measure.Time((2e-6,) * 9, 1, "cuda", clock="device", felt=2e-6)
    assert "Launched" not in compare(**given, measured=alone).explanation()
    because = {"flops": 2 * 64**3, "nbytes": 3 * 4 * 64**2, "limits": limits()}
    once = compare(**given, measured=found, because=because).explanation()
    assert once.count("12 µs") == 1


def test_a_datasheet_s_bandwidth_is_not_called_a_copy_s():
    fast = measure.Time((1e-3,) * 9, 1, "cuda", clock="device", felt=1e-3)
    words = compare.bound(fast, flops=0, nbytes=1e10, limits=limits())
    assert words == "It is faster than the datasheet's bandwidth allows: a cache holds its data."
    slow = measure.Time((10.0,) * 9, 1, "cuda", clock="device", felt=10.0)
    assert "copy" not in compare.bound(slow, flops=0, nbytes=1e10, limits=limits())


def test_the_mfu_counts_what_the_learner_waits_for():
    found = measure.Time((2e-6,) * 9, 1, "cuda", clock="device", felt=20e-6)
    words = compare.mfu(flops=60e12 * 10e-6, time=found, peak=limits().peak)
    assert "0.50" in words
