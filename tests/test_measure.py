"""The instruments: honest samples, budgets that hold, doubts that are said."""

import itertools
import os
import re
import subprocess
import sys
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from time import perf_counter, sleep

import pytest
import torch

from course_utils import hardware, measure
from course_utils.hardware import this_machine
from course_utils.measure import clock, contention, peaks
from course_utils.measure.peaks import measured_peak
from course_utils.predict import matmul_flops
from course_utils.session import session
from tests.bench.timing import busy_neighbours
from tests.simulated_cuda import SimulatedCuda, install


def test_time_reports_what_it_saw():
    calls = []

    def call():
        began = perf_counter()
        sleep(0.002)
        calls.append(perf_counter() - began)

    found = measure.time(call, budget=0.1, device="cpu")
    inside = calls[1:]  # the warm-up is not among the samples
    beyond = [sample - own for sample, own in zip(found.samples, inside, strict=True)]
    assert min(beyond) >= 0 and min(beyond) < 1e-3
    assert found.value == found.minimum == min(found.samples)
    assert found.threads == torch.get_num_threads() and found.device == "cpu"


def test_time_keeps_its_budget_and_times_at_least_one_call(fake):
    cold = measure.time(lambda: fake.work(0.2), budget=0.01, device="cpu")
    assert len(cold.samples) == 1 and not cold.trusted and fake.host == pytest.approx(0.2)
    warm = measure.time(lambda: fake.work(0.2), budget=0.3, device="cpu")
    assert len(warm.samples) == 1 and warm.warm and fake.host == pytest.approx(0.2 + 2 * 0.2)
    measure.time(lambda: fake.work(0.2), budget=1.1, device="cpu")
    assert fake.host == pytest.approx(0.6 + 5 * 0.2)


def test_the_threads_are_limited_and_put_back():
    before, seen = torch.get_num_threads(), []
    found = measure.time(lambda: seen.append(torch.get_num_threads()), budget=0.01, threads=1)
    assert set(seen) == {1} and found.threads == 1 and torch.get_num_threads() == before


def test_the_threads_are_put_back_after_an_error():
    before = torch.get_num_threads()
    with pytest.raises(ZeroDivisionError):
        measure.time(lambda: 1 / 0, threads=1)
    assert torch.get_num_threads() == before


def test_idle_waiting_is_not_processor_time():
    found = measure.time(lambda: sleep(0.005), budget=0.1, device="cpu")
    assert not found.trusted and "processor for only" in found.doubt


@pytest.mark.quiet
def test_steady_work_is_trusted():
    x = torch.randn(64, 64)
    attempts = (measure.time(lambda: x @ x, budget=0.1, device="cpu", threads=1) for _ in range(5))
    assert any(found.trusted for found in attempts)


@pytest.fixture
def fake(monkeypatch):
    """A host whose clock moves only by what it does, and a device that it launches work on."""
    return install(monkeypatch, SimulatedCuda())


def test_the_processor_is_not_waited_for(fake):
    assert measure.time(lambda: fake.launch(0.01), budget=0.001, device="cpu").value < 0.001
    assert fake.waits == 0


def doubt(samples=(1.0,) * 5, processor=2.0, interruptions=0, waited=None, device="cpu", wall=1.0):
    load = contention.Load(wall, processor, waited, interruptions)
    return clock._doubt(list(samples), load, device, 2)


def test_what_is_doubted_and_why():
    assert doubt() == ""
    assert "2.0 times the fastest" in doubt([1.0, 2.0, 2.0, 2.0, 2.0])
    assert doubt([1.0]) == "only 1 call fitted into the budget"
    assert "only 40%" in doubt(processor=0.4)
    assert "again and again" in doubt(waited=0.7)
    assert doubt(waited=0.3) == ""  # what a quiet machine shows
    assert doubt(waited=0.3, interruptions=150) == ""  # the wait tells more than the count
    # Where the system does not tell the wait:
    assert "again and again" in doubt(interruptions=150)
    assert doubt(interruptions=50) == ""  # what a quiet machine shows
    assert doubt(interruptions=5, wall=0.01, processor=0.02) == ""  # too few to judge by
    assert doubt(interruptions=None) == ""
    # The host may idle while a GPU works.
    assert doubt(processor=0.1, interruptions=500, waited=0.9, device="cuda") == ""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells the wait")
def test_a_wait_for_a_processor_is_counted_thread_by_thread():
    """Three threads that need the one core that they may use: each second, two of them wait."""
    program = (
        "import os, threading, hashlib\n"
        "from time import perf_counter, sleep\n"
        "from course_utils.measure.contention import Watch\n"
        "os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\n"
        "def spin():\n"
        "    until, data = perf_counter() + 0.6, bytes(10**6)\n"
        "    while perf_counter() < until: hashlib.sha256(data)\n"  # lets go of the lock meanwhile
        "workers = [threading.Thread(target=spin) for _ in range(3)]\n"
        "watch = Watch()\n"
        "for w in workers: w.start()\n"
        "sleep(0.5)\n"
        "load = watch.load()\n"
        "print(load.waited / load.wall)\n"
    )
    waited = float(subprocess.check_output([sys.executable, "-c", program], text=True))
    assert 1.4 < waited < 2.6  # at any time two of the three


@pytest.mark.skipif(hardware.usable_cores() > 2, reason="one neighbour does not fill the cores")
def test_a_busy_neighbour_is_noticed():
    x = torch.randn(256, 256)
    with busy_neighbours():
        found = [measure.time(lambda: x @ x, budget=0.2, device="cpu") for _ in range(5)]
    assert not any(time.trusted for time in found), [time.doubt for time in found]


@pytest.mark.quiet
def test_the_fastest_call_survives_a_busy_neighbour():
    x = torch.randn(256, 256)
    alone = measure.time(lambda: x @ x, budget=0.5, device="cpu", threads=1)
    with busy_neighbours():
        busy = measure.time(lambda: x @ x, budget=0.5, device="cpu", threads=1)
    assert busy.minimum < 1.6 * alone.minimum


@pytest.mark.parametrize("budget", [0, -1, float("nan"), float("inf"), "1", None])
def test_bad_budgets(budget):
    instruments = (
        lambda: measure.time(lambda: 1, budget=budget),
        lambda: measure.reference_peak(budget=budget),
        lambda: measure.sweep({"a": lambda n: lambda: n}, [1], budget=budget),
    )
    for instrument in instruments:
        with pytest.raises((TypeError, ValueError), match="budget must be"):
            instrument()


def test_what_is_not_a_function_is_refused():
    with pytest.raises(TypeError, match="fn must be a function"):
        measure.time(torch.ones(2) @ torch.ones(2))


SLOW, FAST = measure.Time((3.0,) * 5, 1, "cpu"), measure.Time((2.0,) * 5, 1, "cpu", "noise")


@pytest.mark.parametrize(
    ("made", "value"),
    [
        (SLOW / FAST, 1.5),
        (FAST / SLOW, 2 / 3),
        (6 / FAST, 3.0),
        (FAST / 4, 0.5),
        (3 * FAST, 6.0),
        (FAST * 3, 6.0),
        (SLOW + FAST, 5.0),
        (sum([FAST, SLOW, 1.0]), 6.0),
        (12 / SLOW / measure.Peak(4.0, "measured", "here", "fp32", doubt="noise"), 1.0),
    ],
)
def test_what_is_computed_from_an_unsure_measurement_is_unsure(made, value):
    assert made.value == pytest.approx(value) and made.doubt == "noise" and not made.trusted
    assert repr(made).endswith("(unsure: noise)") and repr(made).startswith("≈ ")


def test_what_is_computed_from_trusted_measurements_is_trusted():
    assert (SLOW / SLOW).trusted and (2 * SLOW).doubt == "" and repr(6 / SLOW) == "≈ 2"


def test_a_measurement_in_a_format_string_says_its_doubt():
    assert f"{FAST / SLOW:.1%}" == "66.7% (unsure: noise)"
    assert f"{SLOW / SLOW:.2f}" == "1.00" and f"{SLOW}" == repr(SLOW)


def test_a_measurement_combines_with_numbers_only():
    for wrong in ("2", None, torch.ones(2)):
        with pytest.raises(TypeError):
            SLOW / wrong
        with pytest.raises(TypeError):
            wrong / SLOW


@pytest.mark.quiet
def test_peak_of_this_machine():
    found = measure.reference_peak(budget=0.5)
    assert 1e8 < found.value < 1e16
    assert found.kind in ("datasheet", "measured") and found.source
    if found.kind == "measured":
        assert found.dtype == "fp32" and found.size >= 64


def test_a_promise_is_used_only_for_the_right_dtype(monkeypatch):
    t4 = hardware.find("T4")
    monkeypatch.setattr(hardware, "promise", lambda: t4)
    monkeypatch.setattr(this_machine, "promise", lambda: t4)
    monkeypatch.setattr(session, "peaks", {})
    assert measure.reference_peak().value == 8.1e12 and measure.reference_peak().kind == "datasheet"
    assert measure.reference_peak(dtype=torch.float16).value == 65e12
    assert measure.reference_peak(dtype=torch.bfloat16, budget=0.1).kind == "measured"


@pytest.mark.quiet
def test_a_product_is_held_to_its_peak():
    """Searched before and after, so that a program beside it cannot slow the search alone."""
    measured_peak("cpu", budget=1.0)
    x, w = torch.randn(2, 256, 256)
    took = measure.time(lambda: x @ w, budget=0.2, device="cpu")
    peak = measured_peak("cpu", budget=1.0)
    assert matmul_flops(256, 256, 256) / took.minimum / peak.value < 1.3


def numbers(n):
    x = torch.zeros(n)
    return lambda: x + 1


def test_a_sweep_times_real_calls():
    began = perf_counter()
    (name, n, found), _ = measure.sweep({"a": numbers}, [8, 64], budget=0.2, device="cpu")
    assert (name, n) == ("a", 8) and 0 < found.value < perf_counter() - began


@pytest.fixture
def steps(fake):
    """A function to sweep whose calls take a microsecond a number."""
    return lambda n: lambda: fake.work(1e-6 * n)


def test_a_sweep_visits_every_point_smallest_first(steps):
    sweep = measure.sweep({"a": steps, "b": steps}, [8, 64], budget=0.2, device="cpu")
    assert [(name, n) for name, n, _ in sweep] == [("a", 8), ("b", 8), ("a", 64), ("b", 64)]
    assert sweep.note() == "On this machine every point was reached."
    sizes, seconds = sweep.points("a")
    assert sizes == [8, 64] and seconds == pytest.approx([8e-6, 64e-6])
    assert sweep.largest() == 64


def test_a_sweep_leaves_out_what_would_break_its_budget(fake):
    def slow(n):
        return lambda: fake.work(n / 1000)

    sweep = measure.sweep({"slow": slow}, [10, 100, 1000, 10_000], budget=0.5, device="cpu")
    found = {n: t for _, n, t in sweep}
    assert fake.host <= 0.5
    assert found[10] is not None and found[10_000] is None
    rows = sweep.as_table("n").rows
    assert [row[0] for row in rows] == ["10", "100", "1,000", "10,000"]
    assert rows[-1][1] == "≈ not reached" and sweep.largest() < 10_000
    assert "On this machine slow stopped before" in sweep.as_table("n").note
    assert "left" in sweep.note()


@pytest.mark.parametrize(
    ("of_one", "sizes", "budget", "reached", "needs"),
    [  # needs: seconds of a call at the largest size reached × growth × the safety of 1.5
        (3e-3, [1, 10], 0.5, [1], "4.5 s"),  # a call of 3 s does not fit into 0.5 s
        (0.1 / 512**3, [64, 128, 256, 512, 1024], 1.0, [64, 128, 256, 512], "1.2 s"),
        (0.035 / 512**3, [64, 128, 256, 512, 1024], 1.0, [64, 128, 256, 512, 1024], None),
        (0.2, [1, 2, 4], 4.0, [1, 2], "19 s"),  # at 2 the first call takes the whole share
    ],
)
def test_a_sweep_foresees_what_the_next_size_costs(fake, of_one, sizes, budget, reached, needs):
    series = {"cubic": lambda n: lambda: fake.work(of_one * n**3)}
    sweep = measure.sweep(series, sizes, budget=budget, work=lambda n: n**3, device="cpu")
    assert [n for _, n, found in sweep if found] == reached
    assert fake.host <= budget * 1.001
    assert needs is None or f"which would take about {needs} of the" in sweep.note()


def test_making_the_inputs_counts_for_the_next_size(fake):
    def prepare(n):
        fake.work(0.1 * n)
        return lambda: fake.work(1e-3)

    sweep = measure.sweep({"a": prepare}, [1, 2, 4, 8], budget=1.2, device="cpu")
    assert [n for _, n, found in sweep if found] == [1, 2]  # 0.2 × 2 × 1.5 is more than is left
    assert fake.host <= 1.2


def test_the_note_says_what_is_missing_and_why(steps):
    sweep = measure.sweep({"a": steps, "b": steps}, [8, 64], budget=0.1, device="cpu")
    unfinished = "On this machine the sweep was not iterated to its end."
    assert sweep.note() == sweep.as_table().note == unfinished
    for _ in sweep:
        break
    assert sweep.note() == unfinished and sweep.as_table().rows[1][1] == "≈ not reached"
    list(sweep)
    assert sweep.note() == "On this machine every point was reached."


def test_the_note_after_an_error_in_preparing():
    sweep = measure.sweep({"a": numbers, "bad": lambda n: 1 / 0}, [8], budget=0.1, device="cpu")
    with pytest.raises(ZeroDivisionError):
        list(sweep)
    assert sweep.note() == "On this machine the sweep was not iterated to its end."


def test_a_slow_series_takes_nothing_from_the_others(fake):
    slow, second = (lambda n: lambda: fake.work(1.0)), (lambda n: lambda: fake.work(1e-4))
    series = {"slow": slow, "second": second}
    sweep = measure.sweep(series, [1, 2], budget=0.3, device="cpu")
    reached = [(name, n) for name, n, found in sweep if found]
    assert reached == [("slow", 1), ("second", 1), ("second", 2)]
    assert sweep.note() == "On this machine the budget was used up before slow reached 2."
    assert fake.host <= 1.0 + 0.15 * 1.001


def test_the_time_between_points_does_not_count(fake, steps):
    sweep = measure.sweep({"a": steps}, [8, 16, 32], budget=0.3, device="cpu")
    for _ in sweep:
        fake.work(0.2)
    assert len(sweep.points("a")[0]) == 3


def test_unsure_points_say_so():
    sweep = measure.sweep({"a": numbers}, [8], budget=0.1)
    sweep.times = {"a": {8: measure.Time((1.0, 2.0), 1, "cpu", "few")}}
    assert sweep.as_table().rows[0][1] == "≈ 1 s (unsure)"


@pytest.mark.parametrize(
    ("series", "sizes", "message"),
    [
        ({}, [1], "series must map"),
        ({"a": 3}, [1], "series must map"),
        ([numbers], [1], "series must map"),
        ({"a": numbers}, [], "sizes must grow"),
        ({"a": numbers}, [2, 1], "sizes must grow"),
        ({"a": numbers}, [0, 1], r"sizes\[0\] must be"),
        ({"a": numbers}, [1.5], r"sizes\[0\] must be a whole number"),
    ],
)
def test_bad_sweeps(series, sizes, message):
    with pytest.raises((TypeError, ValueError), match=message):
        measure.sweep(series, sizes)


def test_a_sweep_that_never_ran():
    sweep = measure.sweep({"a": numbers}, [1, 2])
    assert sweep.points("a") == ([], [])
    with pytest.raises(ValueError, match="iterate the sweep first"):
        sweep.largest()
    for ask in (lambda: sweep.points("b"), lambda: sweep.at("b", 1), lambda: sweep.at("a", 3),
                lambda: sweep.as_table(only=["b"])):  # fmt: skip
        with pytest.raises(ValueError, match="must be one of"):
            ask()
    assert sweep.at("a", 1) is None


def test_the_best_rate_of_a_kernel_is_kept(monkeypatch):
    better = measure.Peak(1e30, "measured", "earlier", "fp32")
    key = ("cpu", "fp32", *peaks._settings("cpu"))
    monkeypatch.setattr(session, "peaks", {key: better})
    assert measured_peak("cpu", budget=0.05) is better


@pytest.mark.parametrize("setting", ["ieee", "tf32"])
def test_a_peak_can_be_measured_whatever_cuda_s_matmuls_are_set_to(setting):
    """torch refuses to tell its older setting once the newer one is changed."""
    before = torch.backends.cuda.matmul.fp32_precision
    try:
        torch.backends.cuda.matmul.fp32_precision = setting
        assert measured_peak("cpu", budget=0.05).value > 0
    finally:
        torch.backends.cuda.matmul.fp32_precision = before


@pytest.fixture
def search(fake, monkeypatch):
    """A search for the peak, in a kernel that knows none, from a rate and a doubt a size.

    A later search gets the later rates; what it knows stays.
    """
    monkeypatch.setattr(session, "peaks", {})

    def found(*rates):
        seen = {n: (matmul_flops(n, n, n) / rate, doubt) for n, rate, doubt in rates}

        def product(n, dtype, device, budget):
            seconds, doubt = seen[n]
            return measure.Time((seconds,) * 5, 1, "cpu", doubt)

        monkeypatch.setattr(peaks, "_product", product)
        monkeypatch.setattr(peaks, "SIZES", tuple(seen))
        return measured_peak("cpu", budget=1e9)

    return found


def test_a_disturbed_peak_is_unsure_until_its_size_is_timed_undisturbed(search):
    first = search((64, 50e9, ""), (128, 200e9, "noise"))
    assert (first.value, first.doubt) == (200e9, "noise")
    other = search((64, 150e9, ""))  # another size and far below: this confirms nothing
    assert (other.value, other.trusted) == (200e9, False)
    same = search((64, 150e9, ""), (128, 150e9, ""))
    assert (same.value, same.doubt) == (200e9, "")
    assert same.size == 128  # a product that was measured never exceeds the peak


def test_a_rate_almost_as_high_confirms_a_disturbed_peak(search):
    assert search((64, 190e9, ""), (128, 200e9, "only 1 call fitted into the budget")).trusted
    assert search((256, 210e9, "noise")).value == 210e9  # also beside one that was known
    assert search((256, 210e9, "noise")).trusted
    assert not search((512, 300e9, "noise")).trusted
    assert not search((64, 260e9, "")).trusted
    assert search((64, 280e9, "")).trusted
    assert search((512, 290e9, "more noise")).value == 300e9


def test_a_search_for_the_peak_foresees_the_next_size(fake, monkeypatch):
    monkeypatch.setattr(session, "peaks", {})
    sizes = []

    def product(n, dtype, device, budget):
        sizes.append(n)
        return measure.time(lambda: fake.work(0.06 * (n / 4096) ** 3), budget=budget, device=device)

    monkeypatch.setattr(peaks, "_product", product)
    measured_peak("cpu", budget=1.0)
    assert max(sizes) == 4096
    assert fake.host <= 1.0  # n = 8192 takes 0.48 s, and about 0.15 s is left


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: measure.time(lambda: 1, device="gpu"), "device must be one of 'cpu'"),
        (lambda: measure.time(lambda: 1, threads=0), "threads must be"),
        (lambda: measure.reference_peak(torch.bfloat16), "device must be"),
        (lambda: measure.reference_peak(dtype=torch.int8), "dtype must be one of"),
        (lambda: measure.sweep({"a": numbers}, None), "sizes must be a tuple"),
        (lambda: measure.sweep({"a": numbers}, [1], work=3), "work must be a function"),
        (lambda: measure.sweep({"a": numbers}, [1], work=lambda n: 0), r"work\(1\) must be"),
        (lambda: measure.sweep({"a": numbers}, [1], threads=-1), "threads must be"),
        (lambda: measure.sweep({"a": numbers}, [1], threads=10**5), "threads must be"),
        (lambda: measure.time(lambda: 1, threads=10**5), "threads must be .* at most"),
        (lambda: measure.time(lambda: 1, threads=2**31), "threads must be .* at most"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_a_cold_call_that_takes_the_budget_is_the_only_sample():
    calls = []
    found = measure.time(lambda: calls.append(sleep(0.02)), budget=0.01, device="cpu")
    assert not found.warm and len(calls) == len(found.samples) == 1
    assert found.minimum >= 0.02 and found.doubt == "one cold call took the whole budget"


def test_warm_samples_say_so(fake):
    first = iter([0.03])
    found = measure.time(lambda: fake.work(next(first, 0.001)), budget=0.2, device="cpu")
    assert found.warm  # and the slow first call is not among them
    assert len(found.samples) > 100 and max(found.samples) == pytest.approx(0.001)


INSTRUMENTS = {
    "time": lambda fn: measure.time(fn, budget=0.01),
    "flops": measure.flops,
    "memory": measure.memory,
    "dtypes": measure.dtypes,
    "collectives": measure.collectives,
}


@pytest.mark.parametrize("inner", [*INSTRUMENTS, "time (measured_peak)"])
@pytest.mark.parametrize("outer", INSTRUMENTS)
def test_instruments_do_not_nest(outer, inner):
    run = INSTRUMENTS.get(inner, lambda fn: measured_peak("cpu", budget=0.01))
    message = f"measure.{inner.split()[0]} must not run inside measure.{outer}"
    with pytest.raises(RuntimeError, match=message):
        INSTRUMENTS[outer](lambda: run(lambda: None))
    for instrument in INSTRUMENTS.values():  # the guard is released
        instrument(lambda: None)


@pytest.mark.parametrize("name", INSTRUMENTS)
def test_an_error_reaches_the_caller_and_releases_the_guard(name):
    with pytest.raises(ZeroDivisionError):
        INSTRUMENTS[name](lambda: 1 / 0)
    for instrument in INSTRUMENTS.values():
        instrument(lambda: None)


@pytest.mark.parametrize("name", INSTRUMENTS)
def test_every_instrument_asks_for_a_function(name):
    with pytest.raises(TypeError, match="must be a function"):
        INSTRUMENTS[name](torch.ones(2))


def counting():
    yield 1


async def waiting():
    return 1


async def counting_and_waiting():
    yield 1


@pytest.mark.parametrize(
    ("lazy", "message"),
    [
        (counting, r"a generator function, .*list\(gen\(\)\)"),
        (partial(counting), "a generator function"),
        (waiting, "an async function, .*event loop"),
        (partial(waiting), "an async function"),
        (counting_and_waiting, "an async function"),
    ],
)
@pytest.mark.parametrize("name", INSTRUMENTS)
def test_what_only_begins_when_called_is_refused(name, lazy, message):
    with pytest.raises(TypeError, match=message):
        INSTRUMENTS[name](lazy)
    INSTRUMENTS[name](lambda: list(counting()))


@pytest.mark.parametrize(
    ("lazy", "message"),
    [
        (lambda: counting(), "it returned a generator"),
        (lambda: counting_and_waiting(), "it returned a generator"),
        (lambda: waiting(), "it returned a coroutine"),
        (lambda: map(print, []), "it returned a lazy iterator"),
        (lambda: zip([1], [2], strict=True), "it returned a lazy iterator"),
        (lambda: itertools.islice([1, 2], 1), "it returned a lazy iterator"),
        (lambda: Future(), "it returned a future"),
    ],
    ids=["generator", "async generator", "coroutine", "map", "zip", "islice", "future"],
)
@pytest.mark.parametrize("name", INSTRUMENTS)
@pytest.mark.filterwarnings("error")  # a coroutine that is left alone warns
def test_what_comes_back_undone_is_refused(name, lazy, message):
    with pytest.raises(TypeError, match=f"must do its work when it is called, and {message}"):
        INSTRUMENTS[name](lazy)
    INSTRUMENTS[name](lambda: iter([1]))  # what is there already, and only read one by one


def test_as_many_threads_as_processors_are_allowed():
    most = os.cpu_count()
    assert measure.time(lambda: 1, budget=0.001, threads=most).threads == most


def test_the_largest_budget_is_no_overflow():
    assert len(measure.time(lambda: 1, budget=1e305).samples) == clock.MAX_SAMPLES


TIMES = [measure.Time((seconds,) * 5, 1, "cpu", "3 < 5") for seconds in (1.0, 2.0)]


@pytest.mark.parametrize(
    "result", [TIMES[0], TIMES[0] / TIMES[1], measure.Peak(1e9, "measured", "n < 3", "fp32")]
)
def test_results_of_one_line_have_an_html_form_that_nbval_masks(result):
    pattern = re.search(
        r"^regex: (.*u2248.*)$", Path(__file__).with_name("nbval.cfg").read_text("utf-8"), re.M
    )[1]
    shown = result._repr_html_()
    assert shown.startswith("<p>≈ ") and "&lt;" in shown
    assert re.sub(pattern, r"\1", shown) == "<p>≈</p>"
