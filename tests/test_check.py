"""Every exercise: the right answer, likely wrong ones, and nonsense; the machinery around them."""

import math
import random
import re
from functools import cache, partial
from importlib import import_module
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch

from course_utils import check, hardware, measure
from course_utils.check import exercise as machinery
from course_utils.check import graphs, optimizer_runs, optimizer_slips, programs, timed
from course_utils.check.exercise import Wrong
from course_utils.session import session
from tests import answers_gradients, answers_optimizers
from tests.answers_tensors import VIEWS


class Hostile(dict):
    """A mapping whose every question raises."""

    def __bool__(self):
        raise RuntimeError("line one\nline two")

    values = __len__ = __iter__ = __bool__


def leaves():
    raise SystemExit("bye")


NONSENSE = ["a lot", float("nan"), float("inf"), torch.ones(2, 3), torch.ones(()), [1, [2]], {},
            object(), True, -1, 10**400, Hostile(), leaves, list(range(10**6))]  # fmt: skip


FILES = sorted(path.stem for path in Path(__file__).parent.glob("answers_*.py"))
ANSWERED = [import_module(f"tests.{name}").CASES for name in FILES]
BY_FILE = {id: cases for answered in ANSWERED for id, cases in answered.items()}
# For each exercise: right answers, and wrong ones with a word of the reply that each must get.
CASES = {
    "00.1": (
        [0.7996, 0.8, 6 * 70e9 * 15e12 / (1024 * 989.5e12 * 90 * 86400)],
        [(79.96, "percentage"), (0.3998, "sparsity"), (1.599, "143.93"), (818.8, "1024"),
         (0.2665, "forward"), (0.31264, "upside down"),
         (0.9, "too large"), (0.1, "too small")],
    ),
    "00.2": (
        [1638, 1638.0],
        [(1637, "misses the date"), (1637.6, "whole"), (1639, "one more"), (819, "full peak"),
         (640.3, "upside down")],
    ),
    "00.3": (
        [25.28, 25.3],
        [(11.376, "MFU"), (12.64, "sparsity"), (7.971, "H100"), (2.184e6, "seconds"),
         (606.7, "hours"), (25.28e3, "power of ten"), (25886, "1024")],
    ),
    "00.4": (
        [80e9, 640e9 / 8],
        [(40e9, "averages"), (85.9e9, "GiB"), (160e9, "gradients"), (53.3e9, "momentum"),
         (10e9, "one device"),
         (80, "billions"), (8, "bytes per parameter"), (80e6, "power of ten")],
    ),
    "00.5": ([], [(1.5, "whole number"), (-64, "whole number"), (200_000, "too large to try")]),
    "00.6": (
        [lambda N, T, days, peak, memory, mfu: max(
            -(-6 * N * T // (peak * mfu * days * 86_400)), -(-16 * N // memory))],
        [(lambda N, T, days, peak, memory, mfu, wrong=wrong: wrong(
            6 * N * T / (peak * mfu * days * 86_400), 16 * N / memory, mfu), word)
         for wrong, word in (
             (lambda time, fit, mfu: math.ceil(time), "the time only"),
             (lambda time, fit, mfu: math.ceil(fit), "the memory only"),
             (lambda time, fit, mfu: math.ceil(time) + math.ceil(fit), "adds"),
             (lambda time, fit, mfu: math.ceil(min(time, fit)), "the smaller"),
             (lambda time, fit, mfu: int(max(time, fit)), "rounds down"),
             (lambda time, fit, mfu: max(time, fit), "come whole"),
             (lambda time, fit, mfu: math.ceil(max(time / 3, fit)), "forward pass only"),
             (lambda time, fit, mfu: math.ceil(max(time, fit / 4)), "parameters only"),
             (lambda time, fit, mfu: math.ceil(max(time * mfu, fit)), "full peak"),
             (lambda time, fit, mfu: math.ceil(max(time, fit / 2)), "have to hold"),
             (lambda time, fit, mfu: math.ceil(max(time / 2, fit)), "days"),
             (lambda time, fit, mfu: math.ceil(max(time * 24, fit)), "an hour for a day"),
             (lambda time, fit, mfu: math.ceil(max(time * 86_400, fit)), "days for seconds"),
             (lambda time, fit, mfu: math.ceil(max(time, fit)) + 7, "fewer whole devices"),
             (lambda time, fit, mfu: 1000, "it gives 1000"))]
        + [(lambda N: N, "unexpected keyword"), (lambda **plan: None, "a finite number")],
    ),
    "00.7": (
        [1.0752, 6.4e6 * 3600 * 0.7e3 / 15e12],
        [(2.987e-4, "watt-hours"), (0.01792, "not 60"), (1.0752e-3, "kilojoules"),
         (1.61e13, "per token?"), (4480, "MWh"), (1.536e-3, "GPU-seconds"), (0.930, "upside down"),
         (230.4, "per parameter")],
    ),
    **BY_FILE,
}  # fmt: skip
RIGHT = [(id, answer) for id, (right, _) in CASES.items() for answer in right]
WRONG = [(id, answer, word) for id, (_, wrong) in CASES.items() for answer, word in wrong]


def exercise(id):
    return getattr(check, f"ex{id.replace('.', '_')}")


@pytest.fixture(autouse=True)
def fresh_session(monkeypatch):
    monkeypatch.setattr(session, "hints", {})
    monkeypatch.setattr(session, "tried", set())
    monkeypatch.setattr(session, "solved", set())


RUNS = cache(check.ex10_runs.random_runs)  # of 10.6: drawn once, and weighed once
FOUND = cache(check.ex10_runs.found)


@pytest.fixture(autouse=True)
def weighed_once(monkeypatch):
    monkeypatch.setattr(check.ex10_capstone, "random_runs", RUNS)
    monkeypatch.setattr(check.ex10_capstone, "found", FOUND)


def test_every_exercise_has_its_cases():
    named = [getattr(check, name) for name in dir(check)]
    every = {value.id for value in named if isinstance(value, check.Exercise)}
    assert every == set(CASES) and sum(map(len, ANSWERED)) == len(BY_FILE)
    assert all(len(wrong) >= 2 for _, wrong in CASES.values())


@pytest.mark.parametrize(("id", "answer"), RIGHT)
def test_right_answers(id, answer):
    verdict = exercise(id)(answer)
    assert verdict.state == "right", verdict
    assert id in session.solved


@pytest.mark.parametrize(("id", "answer", "word"), WRONG)
def test_wrong_answers_are_told_what_is_wrong(id, answer, word):
    verdict = exercise(id)(answer)
    assert verdict.state == "wrong" and word in verdict.words, verdict
    assert not session.solved


@pytest.mark.parametrize("id", CASES)
@pytest.mark.parametrize("nonsense", NONSENSE, ids=lambda value: type(value).__name__)
def test_nonsense_gets_one_line_and_never_an_error(id, nonsense):
    verdict = exercise(id)(nonsense)
    assert verdict.state == "wrong" or (verdict.measured and verdict.state == "open")
    assert "\n" not in repr(verdict) and len(repr(verdict)) < 200


def test_scalars_of_numpy_and_torch_are_numbers():
    for made in (
        np.float32(2.5),
        np.array(2.5),
        torch.tensor(2.5),
        torch.nn.Parameter(torch.tensor(2.5)),
    ):
        assert machinery.finite(made) == 2.5
    for made in (torch.ones(1), torch.tensor(torch.nan), torch.tensor(True), np.array(True)):
        with pytest.raises(machinery.Wrong, match="a finite number is expected"):
            machinery.finite(made)


def test_a_count_is_exact_and_a_mistake_may_be_rounded():
    machinery.number(2**53, 2**53, within=0)
    with pytest.raises(machinery.Wrong, match="too large"):
        machinery.number(2**53 + 1, 2**53, within=0)
    for said in (1.0994e6, 1.099e6, 1.10e6):
        with pytest.raises(machinery.Wrong, match="a slip"):
            machinery.number(said, 5e6, within=0, mistakes=[(1.0994e6, "a slip")])
    with pytest.raises(machinery.Wrong, match="too small"):
        machinery.number(1.101e6, 5e6, within=0, mistakes=[(1.0994e6, "a slip")])


@pytest.mark.parametrize("id", CASES)
def test_no_check_touches_the_learner_s_generators(id):
    for answer in (CASES[id], lambda *a, **k: torch.rand(3) + random.random(), None):
        before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()
        exercise(id)(answer)
        after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()
        assert before[:2] == after[:2] and torch.equal(before[2], after[2])


@pytest.mark.parametrize("id", CASES)
def test_no_answer_yet(id):
    assert exercise(id)(None).state == "open" and exercise(id)().state == "open"
    assert "hint()" in exercise(id)().words


def test_an_empty_form_counts_as_no_answer():
    assert check.ex01_3(dict.fromkeys(VIEWS)).state == "open"


def test_the_table_of_views_is_torchs_own():
    x = torch.zeros(4, 4)
    for name, kind in VIEWS.items():
        made = eval(name, {"x": x})
        shares = made.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        assert ("view" if shares else "copy") == kind, name


@pytest.mark.parametrize("id", CASES)
def test_hints_come_one_at_a_time_and_end(id):
    hints = exercise(id).hints
    assert exercise(id).hint().words.startswith("try it first")
    given = [exercise(id).hint().words for _ in range(len(hints) + 1)]
    assert given[0].startswith(f"hint 1 of {len(hints)}") and given[-1] == given[-2]
    assert len(hints) >= 2


ANSWERS = {"00.1": "0.7996", "00.2": "1638", "00.3": "25.28", "00.4": "80e9", "01.2": "170",
           "01.1": "(2, 48, 8)", "04.2": "887", "04.3": "0.343", "05.2": "46080",
           "02.1": "1207959552", "05.5": "16 parts", "05.7": "0.674", "06.1": "235146",
           "06.3": "0.0625", "06.5": "0.0782", "06.7": "0.2041", "09.1": "14", "09.4": "2⁻⁹",
           "09.5": "299", "09.7": "133144"}  # fmt: skip


@pytest.mark.parametrize(("id", "answer"), ANSWERS.items())
def test_no_reply_to_a_wrong_answer_contains_the_right_one(id, answer):
    replies = [exercise(id)(wrong).words for wrong, _ in CASES[id][1]]
    replies += [exercise(id)().words, *exercise(id).hints]
    assert not any(answer in reply for reply in replies)


# Each is a whole answer of chapters 01 to 06 or 09, or the one line that is left to write.
HINTED = [id for id in BY_FILE if id < "07" or id[:2] == "09"]
TOLD = [answer for id, answer in ANSWERS.items() if id in HINTED and answer != "14"]
TOLD += ["12288 × 49152", "2 ** (m + 1)", "2 ** −24", "mantissa / 1024", "b i j", "(p q c)",
         "h q k", "kv g n m", "b h s d", "n / 3", "989.5e12", "random data", "'d k'", "B × D × K",
         "/ (2·step)", "bhkd", "g, q", "reversed",
         "2 / 512", "2/512", "784·256", "randn(4", "permutation(8", "(1 + 0.3²)", "1.09",
         "yield name", "1/√", "/ 24", "24 branches", "133 144", "2**-9", "bytes: 14", " 32 ",
         "& -65536", "randint(2**16"]  # fmt: skip


@pytest.mark.parametrize("answer", TOLD)
def test_no_hint_tells_an_answer_its_own_or_another_s(answer):
    hints = {hint for id in HINTED for hint in exercise(id).hints}
    assert not {hint for hint in hints if answer in hint}


def test_the_praise_of_04_2_is_arithmetic():
    words, n = check.ex04_2(887).words, 887
    assert f" {2 * n**3 / 989.5e12 * 1e6:.1f} µs " in words
    assert f" {3 * n**2 * 2 / 1e6:.1f} MB " in words


def test_sizes_are_told_apart_by_their_products():
    for count in range(1, 7):
        drawn = programs.sizes(count)
        parts = [part for n in range(count + 1) for part in combinations(drawn, n)]
        assert len({math.prod(part) for part in parts}) == 2**count
    ones = [size for drawn in programs.settings(4) for size in drawn if size == 1]
    assert len(ones) == 4 and programs.normal(9).tolist() != programs.normal(9).tolist()


FIRST = {id: right[0] for id, (right, _) in BY_FILE.items() if right and id in HINTED}
CLASSES = {id for id, answer in FIRST.items() if isinstance(answer, type)}
PROGRAMS = {id: a for id, a in FIRST.items() if callable(a) and id not in CLASSES}
OF_TENSORS = PROGRAMS.keys() - {"01.4", "02.4", "02.7", "04.6", "06.4"}


def tried(id):
    """What the check of an exercise tries a right program on, as text."""
    seen = []

    def program(*inputs, **named):
        every = (*inputs, *named.values())
        plain = [x.tolist() if isinstance(x, torch.Tensor) else x for x in every]
        seen.append(repr([x for x in plain if isinstance(x, int | float | str | list)]))
        return PROGRAMS[id](*inputs, **named)

    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    assert exercise(id)(program).state == "right"
    return " ".join(seen)


@pytest.mark.parametrize("id", PROGRAMS)
def test_a_program_is_tried_on_inputs_drawn_anew(id):
    assert len({tried(id) for _ in range(4)}) > 1


@pytest.mark.parametrize("id", sorted(OF_TENSORS))
def test_a_program_that_changes_its_input_is_refused(id):
    @torch.no_grad()
    def spoil(tensor):
        tensor.zero_()

    def program(*inputs):
        made = PROGRAMS[id](*inputs)
        spoil(next(x for x in inputs if isinstance(x, torch.Tensor)))
        return made

    assert "changed" in exercise(id)(program).words


@pytest.mark.parametrize("id", [*PROGRAMS, *sorted(CLASSES), "05.5"])
def test_a_right_program_is_right_whatever_the_kernel_is_set_to(id):
    with torch.no_grad():
        assert exercise(id)(FIRST[id]).state == "right"
    torch.set_default_dtype(torch.float64)
    try:
        assert exercise(id)(FIRST[id]).state == "right"
    finally:
        torch.set_default_dtype(torch.float32)


def test_an_engine_is_tried_on_graphs_drawn_anew():
    seen = []

    class Noting(answers_gradients.Value):
        def __init__(self, data, inputs=()):
            seen.append(data)
            super().__init__(data, inputs)

    torch.manual_seed(0)
    random.seed(0)
    assert check.ex05_6(Noting).state == "right"
    first = seen.copy()
    seen.clear()
    torch.manual_seed(0)
    random.seed(0)
    assert check.ex05_6(Noting).state == "right" and seen != first


def test_graphs_meet_what_engines_fail_at():
    every = [graphs.drawn(operations) for operations in range(5, 26) for _ in range(20)]
    assert {len(graph.steps) for graph in every} == {*range(5, 26)}
    assert {sign for graph in every for sign, _, _ in graph.steps} == {"+", "*"}
    assert any(one == other for graph in every for _, one, other in graph.steps)
    assert any(len({*graph.leaves}) < len(graph.leaves) for graph in every)
    assert any(0.0 in graph.by_torch()[1] for graph in every)  # a leaf that plays no part
    assert max(graph.visits() for graph in every) <= graphs.VISITS
    shared = [graph for graph in every if graph.visits() > len(graph.steps) + len(graph.leaves)]
    assert len(shared) > len(every) / 2


def test_no_graph_has_huge_numbers(monkeypatch):
    monkeypatch.setattr(graphs, "LARGE", 3.0)
    for result, slopes in (graphs.drawn(12).by_torch() for _ in range(20)):
        assert max(map(abs, (result, *slopes))) < 3


def test_torch_agrees_with_the_chain_rule_by_hand():
    square = graphs.Graph((3.0, 5.0, 7.0), (("+", 0, 1), ("*", 3, 3)))  # (a + b)², without c
    assert square.by_torch() == (64.0, [16.0, 16.0, 0.0]) and square.visits() == 7


def test_an_engine_that_walks_every_path_is_right_and_told_so():
    assert "walks every path" in check.ex05_6(answers_gradients.EveryPath).words
    for engine in (answers_gradients.Value, answers_gradients.Closures, answers_gradients.Waiting):
        assert "path" not in check.ex05_6(engine).words


def test_the_peak_of_a_step_in_parts_does_not_depend_on_how_many_are_run(monkeypatch):
    costs = check.ex05_costs
    peaks = {parts: costs._peak(parts) for parts in (8, 16, 32)}
    assert peaks[8] > 1.15 * costs.BUDGET and peaks[16] < 0.97 * costs.BUDGET
    monkeypatch.setattr(costs, "RUN", 2)
    assert peaks == {parts: costs._peak(parts) for parts in peaks}


def test_the_napkin_of_05_5_leads_to_the_answer_and_its_slips_elsewhere():
    costs = check.ex05_costs
    weights, rows = 8 * 256 * 256 * 4, 4096 * 256 * 4

    def fewest(fixed, waiting):
        fits = (n for n in (2**k for k in range(13)) if fixed + waiting * rows / n < costs.BUDGET)
        return next(fits)

    assert {fewest(2 * weights, waiting) for waiting in range(8, 15)} == {16}
    assert {fewest(weights, waiting) for waiting in range(8, 12)} == {8}  # without gradients
    assert fewest(2 * weights, 1 + 2) == 4  # what one layer keeps


def test_lora_s_share_is_the_one_that_is_counted():
    D, r, rows = 4096, 16, 8
    h = torch.empty(rows, D, device="meta", requires_grad=True)  # as if layers came before
    W, A, B = (torch.empty(n, m, device="meta") for n, m in ((D, D), (D, r), (r, D)))
    full = measure.flops(lambda: (h @ W.requires_grad_()).sum().backward()).total
    W.requires_grad_(False)
    A.requires_grad_()
    B.requires_grad_()
    lora = measure.flops(lambda: (h @ W + (h @ A) @ B).sum().backward()).total
    assert check.ex05_7(lora / full).state == "right"
    assert math.isclose(lora / full, 0.6744791667, rel_tol=1e-9)


@pytest.mark.parametrize(
    ("seconds", "doubt", "state", "word"),
    [
        (0.010, "", "right", "10 ms"),
        (0.0155, "", "right", "15.5 ms"),
        (0.017, "", "wrong", "1.7 × too long"),
        (0.005, "", "wrong", "2 × too short"),
        (0.010, "another program was busy", "open", "another program was busy"),
    ],
)
def test_the_matmul_of_ten_milliseconds_is_judged_by_the_clock(
    monkeypatch, seconds, doubt, state, word
):
    def took(n, rows, budget):
        return measure.Time((seconds * rows / n,) * 5, 1, "cpu", doubt)

    monkeypatch.setattr(timed, "matmul_time", took)
    verdict = check.ex00_5(1000)
    assert (verdict.state, verdict.measured) == (state, True) and word in verdict.words
    assert repr(verdict).startswith("On this machine ")
    assert ("00.5" in session.solved) == (state == "right")


@pytest.mark.parametrize(
    ("seconds", "doubt", "state", "word"),
    [(2e-3, "", "right", "2 × the time"), (1.3e-3, "", "wrong", "more rows"),
     (3e-3, "", "wrong", "fewer rows"), (2e-3, "noise", "open", "noise")],
)  # fmt: skip
def test_rows_are_judged_by_the_clock(monkeypatch, seconds, doubt, state, word):
    def took(rows):
        return measure.Time((1e-3 if rows == 2 else seconds,) * 5, 1, "cpu", doubt)

    monkeypatch.setattr(check.ex04_bounds, "_rows_time", took)
    verdict = check.ex04_5(33)
    assert verdict.state == state and word in verdict.words and verdict.measured


@pytest.mark.parametrize(
    ("median", "doubt", "predicted", "state", "words"),
    [
        (5e-3, "", 204_800, "right", "trains 204,800 tokens per second, and you predicted 204,800"),
        (5e-3, "", 1.45 * 204_800, "right", "plan with"),
        (5e-3, "", 204_800 / 1.45, "right", "plan with"),
        (5e-3, "", 2 * 204_800, "wrong", "you predicted 409,600: 2 × too many."),
        (5e-3, "", 204_800 / 4, "wrong", "4 × too few"),
        (5e-3, "", 200, "wrong", "Those look like steps per second"),
        (5e-3, "", 3200, "wrong", "Those look like windows per second"),
        (5e-3, "a typical call was slow", 204_800, "open", "and a typical call was slow"),
        (5e-3, "a typical call was slow", 1, "open", "trains 204,800"),
    ],
)
def test_tokens_per_second_are_judged_by_the_clock(
    monkeypatch, median, doubt, predicted, state, words
):
    samples = (median * 0.8, median, median * 3)
    found = measure.Time(samples, 1, "cpu", doubt)
    monkeypatch.setattr(check.ex08, "_step_time", lambda: found)
    verdict = check.ex08_5(predicted)
    assert (verdict.state, verdict.measured) == (state, True) and words in verdict.words
    assert repr(verdict).startswith("On this machine ")


def test_a_matmul_that_would_take_long_is_not_run(monkeypatch):
    asked = []

    def took(n, rows, budget):
        asked.append(rows)
        return measure.Time((1e-3 * rows,) * 5, 1, "cpu")

    monkeypatch.setattr(timed, "matmul_time", took)
    assert "foretells 4 s" in check.ex00_5(4000).words and asked == [31]


def test_exchanged_strides_of_a_patch_are_named():
    x = torch.arange(36.0).view(6, 6)
    wrong = x.as_strided((4, 3, 3, 4), (1, 6, 1, 6))
    assert "exchanged" in check.ex01_memory._which(wrong, x, 3, 4)
    assert check.ex01_memory._which(torch.zeros(4, 3, 3, 4), x, 3, 4) == ""


@pytest.mark.parametrize(
    ("rms", "state", "word"),
    [(1.0, "right", "is 1, × 1 per layer"), (0.51, "right", "× 0.9778"), (1.9, "right", "is 1.9"),
     (2.1, "wrong", "a smaller s"), (0.4, "wrong", "a larger s"),
     (1e-30, "wrong", "is 1e-30, × 0.1 per layer")],
)  # fmt: skip
def test_a_scale_is_judged_by_the_signal_that_it_leaves(monkeypatch, rms, state, word):
    monkeypatch.setattr(check.ex06_scales, "_median_rms", lambda s: rms)
    verdict = check.ex06_5(0.0783)
    assert (verdict.state, verdict.measured) == (state, True) and word in verdict.words
    assert repr(verdict).startswith("On this machine ")


def test_the_signal_of_a_leaky_network_is_what_arithmetic_says():
    for s in (1e-6, 0.07, 0.0782, 10.0):
        predicted = (300 * s**2 * (1 + 0.3**2) / 2) ** 15
        assert 0.5 < check.ex06_scales._median_rms(s) / predicted < 2


def test_what_is_timed_really_runs():
    assert timed.matmul_time(64, 64, budget=0.05).value > 0
    assert timed.copy_time(64, torch.bfloat16, budget=0.05).value > 0
    assert check.ex04_bounds._rows_time(2).value > 0
    before = torch.get_num_threads()
    step = check.ex08._step_time()
    assert step.value > 0 and step.threads == 1 and torch.get_num_threads() == before


def test_a_copy_is_judged_by_the_clock(monkeypatch):
    monkeypatch.setattr(timed, "copy_time", lambda *_: measure.Time((2e-4,) * 5, 1, "cpu"))
    assert check.ex01_7(1000).state == check.ex02_6(1000).state == "right"
    monkeypatch.setattr(timed, "copy_time", lambda *_: measure.Time((5e-4,) * 5, 1, "cpu"))
    assert "too long" in check.ex01_7(1000).words and "too long" in check.ex02_6(1000).words


@pytest.mark.parametrize(
    ("seconds", "doubt", "state", "word"),
    [(0.010, "", "right", "10 ms"), (0.0165, "", "wrong", "too long"),
     (0.006, "", "wrong", "too short"), (0.010, "noise", "open", "noise")],
)  # fmt: skip
def test_a_fused_step_is_judged_by_the_clock(monkeypatch, seconds, doubt, state, word):
    def took(count, budget):
        return measure.Time((seconds * count / 10**7,) * 5, 1, "cpu", doubt)

    monkeypatch.setattr(check.ex07_memory, "fused_time", took)
    verdict = check.ex07_8(10**7)
    assert verdict.state == state and word in verdict.words and verdict.measured


def test_a_fused_step_too_large_for_a_fifth_of_the_memory_is_not_run(monkeypatch):
    monkeypatch.setattr(check.ex07_memory, "fused_time", lambda *_: pytest.fail("it ran"))
    fits = hardware.machine().memory // (5 * 16)
    assert "too large to try" in check.ex07_8(fits + 10).words
    monkeypatch.undo()
    assert check.ex07_memory.fused_time(1000, budget=0.05).value > 0


WRITTEN = {id: right[0] for id, (right, _) in answers_optimizers.CASES.items() if id < "07.7"}
WRITTEN["07.9"] = answers_optimizers.peak


@pytest.mark.parametrize("id", sorted(WRITTEN))
def test_a_right_optimizer_is_right_whatever_the_kernel_is_set_to(id):
    with torch.no_grad():
        assert exercise(id)(WRITTEN[id]).state == "right"
    torch.set_default_dtype(torch.float64)
    try:
        assert exercise(id)(WRITTEN[id]).state == "right"
    finally:
        torch.set_default_dtype(torch.float32)


def test_the_rules_with_switches_are_torchs_until_one_is_set():
    """So that a slip's path differs from the right one by the slip alone."""
    problem = optimizer_runs.drawn(*optimizer_runs.SHAPES, skipping=True)
    for kind, rule, settings in (
        (torch.optim.SGD, optimizer_slips.sgd, {"lr": 0.2}),
        (torch.optim.SGD, optimizer_slips.momentum, {"lr": 0.2, "momentum": 0.7}),
        (torch.optim.Adagrad, optimizer_slips.scaled, {"lr": 0.2, "eps": 1e-4}),
        (torch.optim.RMSprop, optimizer_slips.rmsprop, {"lr": 0.2, "alpha": 0.7, "eps": 1e-4}),
        (torch.optim.AdamW, optimizer_slips.adam,
         {"lr": 0.2, "betas": (0.7, 0.8), "eps": 1e-4, "weight_decay": 0.3}),
    ):  # fmt: skip
        theirs = optimizer_runs.run(partial(kind, **settings), problem)
        told = partial(optimizer_slips.Told, rule=rule, **settings)
        assert optimizer_runs.run(told, problem).like(theirs), rule


def test_no_two_slips_of_a_rule_give_the_same_and_none_gives_the_right_path():
    problem = optimizer_runs.drawn(optimizer_runs.SHAPES[0])
    settings = {"lr": 0.2, "betas": (0.7, 0.85), "eps": 1e-4, "weight_decay": 0.3}
    rule = optimizer_slips.adam
    told = [{}, *(switches for switches, _ in optimizer_slips.ADAMW)]
    runs = [
        optimizer_runs.run(
            partial(optimizer_slips.Told, rule=partial(rule, **switches), **settings), problem
        )
        for switches in told
    ]
    assert not any(one.like(other) for one, other in combinations(runs, 2))


def test_the_predictor_is_graded_on_every_optimizer_and_form_anew():
    one, two = (list(check.ex07_peak._plans(random.Random())) for _ in range(2))
    assert one != two
    for plans in (one, two):
        pairs = {(plan.optimizer, plan.form) for plan in plans}
        assert pairs == set(check.ex07_peak.PAIRS) and len(plans) == 20
        where = [plan.in_backward for plan in plans]
        assert 5 <= sum(where) <= 15
    threads = torch.get_num_threads()
    assert check.ex07_9(answers_optimizers.exact).words.startswith("right, and to the byte")
    assert check.ex07_9(answers_optimizers.peak).words.startswith("right within 1 %")
    assert torch.get_num_threads() == threads


def test_the_formula_with_switches_is_close_to_the_exact_one():
    """What it leaves out stays below the share by which a learner's formula may be off."""
    for plan in check.ex07_peak._plans(random.Random()):
        exact = answers_optimizers.exact(*plan)
        assert check.ex07_peak.peak(plan) == answers_optimizers.peak(*plan)
        assert exact * 0.993 < check.ex07_peak.peak(plan) < exact


def test_progress_lists_the_chapter():
    check.ex00_1(0.7996)
    states = [row[2] for row in check.progress("00").rows]
    assert states[0] == "✓ solved" and {*states[1:]} == {"○ open"}
    for stranger in ("99", 0, ["00"]):
        with pytest.raises(ValueError, match="chapter must be one of .*'00', '01'.*got .*"):
            check.progress(stranger)


def test_progress_without_a_chapter_lists_them_all():
    check.ex00_1(0.7996)
    session.solved.add("00.99")  # no exercise of ours
    rows = check.progress().rows
    assert [row[:2] for row in rows[:2]] == [("00", "1"), ("01", "0")]
    assert [int(row[2]) for row in rows] == [len(check.progress(row[0]).rows) for row in rows]
    assert [row[0] for row in rows] == sorted({id[:2] for id in CASES})


def test_a_solution_cell_does_not_count(monkeypatch):
    monkeypatch.setattr(machinery, "_in_solution_cell", lambda: True)
    assert check.ex00_1(0.7996).state == "right"
    assert not session.solved


@pytest.mark.parametrize("history", [True, False])  # nbval runs cells without history
def test_what_marks_a_solution_cell(history):
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(startup_timeout=600, kernel_name="python3")
    try:
        for code in (
            "from course_utils import check",
            "from course_utils.session import session",
            "# Solution 00.1\nreplies = check.ex00_1(0.7996), session.solved.copy()",
            "more = check.ex00_1(0.7996), session.solved.copy()",
        ):
            client.execute_interactive(code, store_history=history, timeout=600)
        asked = {"solution": "replies[1]", "learner": "more[1]"}
        reply = client.execute_interactive("", user_expressions=asked, timeout=600)["content"]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    shown = {k: v["data"]["text/plain"] for k, v in reply["user_expressions"].items()}
    assert shown == {"solution": "set()", "learner": "{'00.1'}"}


def test_an_attempt_earns_the_first_hint_and_a_verdict_gives_it():
    assert check.ex00_1(None).hint().words.startswith("try it first")
    assert check.ex00_1(7.0).hint().words.startswith("hint 1 of")
    assert check.ex00_2("nonsense").hint().words.startswith("hint 1 of")


def test_a_verdict_has_a_sign_and_a_colour():
    shown = {check.ex00_1(answer)._repr_html_() for answer in (None, 7.0, 0.7996)}
    signs = {re.search(r"color: (#\w+)\">(.) 00.1", html).groups() for html in shown}
    assert len({colour for colour, _ in signs}) == len({sign for _, sign in signs}) == 3


def test_the_verdict_is_escaped_in_html():
    verdict = check.ex00_1("<b>")
    assert "<b>'" not in verdict._repr_html_() and "&lt;b&gt;" in verdict._repr_html_()


def test_a_judge_that_loops_over_nan_stays_calm():
    assert check.ex01_1((float("nan"), 1, 2)).state == "wrong"
    assert check.ex01_1((float("inf"), 1, 2)).state == "wrong"


def test_reading_past_the_storage_is_told_from_other_errors():
    """Also of a view of a longer storage: its own strides and offset are kept."""
    whole = torch.arange(24.0).reshape(4, 6)
    for x in (whole, whole.T, whole[1:, ::2]):
        with pytest.raises(Wrong, match=programs.PAST[:20]):
            programs.called(lambda x: x.as_strided((5, 5), (6, 1), 20), x=x)
        with pytest.raises(RuntimeError, match="shape"):
            programs.called(lambda x: x.view(7, 7), x=x)
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        programs.called(lambda x: x.view(-1), x=whole.T)
