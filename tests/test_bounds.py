"""The sentence after a measurement: each bound, and what lies outside all of them."""

from types import SimpleNamespace

import pytest
import torch

from course_utils import compare, hardware, measure
from course_utils.compare.bounds import bound
from course_utils.hardware import this_machine
from course_utils.measure import bandwidth, peaks, roofline
from course_utils.session import session
from tests.simulated_cuda import SimulatedCuda, install

PEAK = measure.Peak(1e12, "measured", "here", "fp32")
MEMORY = measure.Bandwidth(1e10, "measured", "here")
START = measure.Time((1e-6,) * 5, 1, "cpu")
LIMITS = measure.Limits(PEAK, MEMORY, START)


@pytest.mark.parametrize(
    ("seconds", "flops", "nbytes", "words"),
    [
        (1.1, 1e12, 1e9, "bound by arithmetic"),
        (1.1, 1e11, 1e10, "bound by memory"),
        (1.2e-6, 10, 10, "bound by overhead"),
        (0.5, 1e11, 1e10, "a cache holds its data"),
        (0.5, 1e12, 1e9, "the peak was taken too low"),
        (1.8, 1e12, 1e10, "perhaps it pays for arithmetic and memory in turn"),
        (9.0, 1e12, 1e9, "9 × the tightest bound, arithmetic. Perhaps it is too small"),
        (9.0, 1e11, 1e10, "9 × the tightest bound, memory. Perhaps it passes over memory more"),
        (9e-6, 1, 1, "9 × the tightest bound, the start. Perhaps it starts several"),
    ],
)
def test_the_bound_that_explains_it(seconds, flops, nbytes, words):
    assert words in bound(seconds, flops=flops, nbytes=nbytes, limits=LIMITS)


def test_a_promise_that_is_exceeded_speaks_against_the_measurement():
    promise = measure.Limits(measure.Peak(1e12, "datasheet", "datasheet", "fp32"), MEMORY, START)
    words = bound(0.5, flops=1e12, nbytes=1e9, limits=promise)
    assert words == "It is faster than the datasheet promises: are its FLOPs and its time right?"


def test_a_time_is_taken_by_its_value():
    took = measure.Time((1.0, 1.1), 1, "cpu")
    assert "arithmetic" in bound(took, flops=1e12, nbytes=1, limits=LIMITS)


BUSY = measure.Time((1e-6,) * 5, 1, "cpu", "somebody had the core")
SHAKY = measure.Bandwidth(1e10, "measured", "here", "the copies varied")


@pytest.mark.parametrize(
    ("seconds", "limits", "doubt"),
    [
        (BUSY, LIMITS, "somebody had the core"),
        (1.1, measure.Limits(PEAK, SHAKY, START), "the copies varied"),
    ],
)
def test_what_is_not_to_be_trusted_explains_nothing(seconds, limits, doubt):
    words = bound(seconds, flops=1e12, nbytes=1e9, limits=limits)
    assert words == f"It cannot be explained: {doubt}."
    bounds = {"flops": 1e12, "nbytes": 1e9, "limits": limits}
    row = compare(id="x", what="x", unit="s", predicted=1.0, measured=seconds, because=bounds)
    assert row.cells()[3] == "≈ not comparable" and doubt in row.explanation()


def test_doubts_about_the_limits_show():
    shaky = measure.Limits(PEAK, SHAKY, START)
    assert "(unsure: the copies varied)" in repr(shaky.bandwidth)
    assert not shaky.ridge.trusted and "unsure: the copies varied" in repr(shaky.ridge)
    assert measure.Limits(PEAK, MEMORY, BUSY).trusted
    floor = measure.Peak(1e12, "measured", "here", "fp32", 64, "noise")
    assert not measure.Limits(floor, MEMORY, START).ridge.trusted
    assert measure.Limits(floor, MEMORY, START).doubt == "noise"
    row = compare(id="x", what="x", unit="", measured=shaky.ridge, predicted=100.0)
    assert row.cells()[3] == "≈ not comparable"


def test_compare_lets_the_bounds_speak():
    bounds = {"flops": 1e11, "nbytes": 1e10, "limits": LIMITS}
    given = {"id": "x", "what": "x", "unit": "s", "predicted": 1.0, "because": bounds}
    for measured in (1.0, 1.4):
        assert "bound by memory" in compare(measured=measured, **given).explanation()
    assert "bound" not in compare(measured=None, **given).explanation()


def narrow(value=1e10, fp32=5e11, **doubt):
    """Limits of a format whose measured peak is 50 times below fp32's, unless told."""
    measured = measure.Peak(value, "measured", "here", "fp16", **doubt)
    return measure.Limits(measured, MEMORY, START, measure.Peak(fp32, "measured", "here", "fp32"))


@pytest.mark.parametrize("seconds", [1.1, 9.0])  # larger products are slower still
def test_a_format_without_units_is_said_to_be_imitated(seconds):
    words = "no units for fp16 and imitates it: fp32 reached 50 × its rate."
    assert words in bound(seconds, flops=1e10, nbytes=1e9, limits=narrow())


@pytest.mark.parametrize(
    ("given", "limits"),
    [
        ({"nbytes": 1e11, "seconds": 10}, narrow()),  # memory is what it waits for
        ({"seconds": 0.5}, narrow()),  # faster than the peak
        ({}, narrow(fp32=2e10)),  # twice as slow is no imitation
        ({}, narrow(fp32=1e9)),
        ({}, narrow(doubt="noise")),
    ],
)
def test_nothing_is_said_to_be_imitated_without_evidence(given, limits):
    given = {"seconds": 1.1, "flops": 1e10, "nbytes": 1e9, **given}
    assert "imitates" not in bound(limits=limits, **given)


def fp32_on_cuda(peak):
    promise = measure.Peak(2e13, "datasheet", "datasheet", "fp32")
    roof = measure.Peak(peak, "datasheet", "datasheet", "fp32")
    return measure.Limits(roof, measure.Bandwidth(1e12, "datasheet", "datasheet"), START, promise)


TF32 = "ran as TF32: in fp32 itself no more than 20 TFLOP/s are promised."


@pytest.mark.parametrize(
    ("peak", "seconds", "also"),
    [
        (1.5e14, 1.1, "bound by arithmetic"),
        (1.5e14, 2.5, "2.5 × the tightest bound"),
        (2e13, 1.1, "promise"),  # limits from before TF32 was allowed: nothing to add
    ],
)
def test_products_beyond_the_promise_ran_as_tf32(monkeypatch, peak, seconds, also):
    given = {"flops": 1.5e14, "nbytes": 1e9, "limits": fp32_on_cuda(peak)}
    monkeypatch.setattr(hardware, "runs_as_tf32", lambda: True)
    monkeypatch.setattr(this_machine, "runs_as_tf32", lambda: True)
    assert TF32 in bound(seconds, **given) and also in bound(seconds, **given)
    assert "datasheet" not in bound(seconds, **given)  # TF32 is why it is faster
    assert "TF32" not in bound(7.4, **given)  # fp32 can do that, nearly
    for other in (LIMITS, narrow()):  # on a processor the setting means nothing
        assert not other.tf32 and "TF32" not in bound(1e-9, **{**given, "limits": other})
    monkeypatch.setattr(hardware, "runs_as_tf32", lambda: False)
    monkeypatch.setattr(this_machine, "runs_as_tf32", lambda: False)
    assert "TF32" not in bound(seconds, **given) and also in bound(seconds, **given)


@pytest.mark.parametrize("bad", [0, -1, float("nan"), "1"])
def test_bad_seconds(bad):
    with pytest.raises((TypeError, ValueError), match="seconds must be"):
        bound(bad, flops=1, nbytes=1, limits=LIMITS)


def test_the_ridge():
    assert LIMITS.ridge.value == 100 and LIMITS.ridge.trusted


@pytest.mark.quiet
def test_limits_of_this_machine():
    found = measure.limits(budget=0.5)
    assert found.ridge.value == found.peak.value / found.bandwidth.value
    assert 1e-8 < found.overhead.value < 1e-2
    assert 1e8 < found.bandwidth.value < 1e14
    rows = found.shown().rows
    assert [row[0] for row in rows] == ["peak", "bandwidth", "starting an operation", "ridge"]
    assert all(row[1].startswith("≈ ") for row in rows)


@pytest.fixture
def a100(monkeypatch):
    """Figures of a device that is not there; its overhead is the processor's."""
    device = hardware.find("A100 80GB SXM")
    monkeypatch.setattr(hardware, "promise", lambda: device)
    monkeypatch.setattr(this_machine, "promise", lambda: device)
    return device


@pytest.mark.parametrize("tf32", [True, False])
def test_limits_on_cuda_know_plain_fp32(monkeypatch, a100, tf32):
    monkeypatch.setattr(hardware, "runs_as_tf32", lambda: tf32)
    monkeypatch.setattr(this_machine, "runs_as_tf32", lambda: tf32)
    found = measure.limits(budget=0.05)
    assert found.peak.value == a100.promised("tf32" if tf32 else "fp32")
    assert found.fp32.value == a100.promised("fp32") and found.tf32 is tf32
    assert measure.limits(torch.bfloat16, budget=0.05).fp32 is None  # promised: no question


def test_limits_of_a_measured_narrow_format_know_the_best_fp32_product(monkeypatch):
    best = measure.Peak(1e30, "measured", "earlier", "fp32")
    slow = measure.Peak(1e9, "measured", "here", "bf16")
    monkeypatch.setattr(session, "peaks", {("cpu", "fp32", *peaks._settings("cpu")): best})
    monkeypatch.setattr(roofline, "reference_peak", lambda *_, **__: slow)
    monkeypatch.setattr(hardware, "promise", lambda: None)
    monkeypatch.setattr(this_machine, "promise", lambda: None)
    found = measure.limits(torch.bfloat16, device="cpu", budget=0.1)
    assert found.fp32 is best and not found.tf32


@pytest.mark.parametrize(
    ("tries", "rate"),
    [([(1, ""), (2, "")], 5e9), ([(2, ""), (1, "")], 5e9), ([(2, "noise"), (1, "")], 1e10)],
)
def test_the_slower_of_two_copies_counts_if_it_is_to_be_trusted(monkeypatch, tries, rate):
    left = list(tries)

    def found(fn, *, budget, device):
        assert budget == 0.25
        times, doubt = left.pop(0)
        return measure.Time((times * 2 * bandwidth._size("cpu") / 1e10,) * 5, 1, "cpu", doubt)

    monkeypatch.setattr(bandwidth, "time", found)
    copied = measure.measured_bandwidth("cpu", budget=0.5)
    assert copied.value == pytest.approx(rate) and copied.trusted and not left


@pytest.mark.parametrize(("free", "size"), [(1000, 64), (2000, 64), (3000, 128), (10**6, 128)])
def test_copies_are_as_large_as_memory_allows(monkeypatch, free, size):
    """In MiB; the tighter of what is free and what a container allows counts."""
    memory = SimpleNamespace(available=free * 2**20)
    monkeypatch.setattr(bandwidth.psutil, "virtual_memory", lambda: memory)
    monkeypatch.setattr(hardware, "usable_memory", lambda: 2**50)
    assert bandwidth._size("cpu") == size * 2**20
    monkeypatch.setattr(hardware, "usable_memory", lambda: 2**30)
    assert bandwidth._size("cpu") == 64 * 2**20


def test_on_cuda_copies_are_four_times_the_l2_cache(monkeypatch):
    seen = []

    def copied(device, nbytes, budget):
        seen.append(nbytes // 2**20)
        return measure.Time((2 * nbytes / 3e12,) * 5, 1, "cuda", clock="device")

    install(monkeypatch, SimulatedCuda())  # its L2 cache has 96 MiB
    monkeypatch.setattr(bandwidth, "_copy", copied)
    assert measure.measured_bandwidth("cuda").value == pytest.approx(3e12)
    assert seen == [384, 384]
