"""Every exercise: the right answer, likely wrong ones, and nonsense; the machinery around them."""

import random

import numpy as np
import pytest
import torch
from einops import rearrange

from course_utils import check, formats, hardware
from course_utils.check import exercise as machinery
from course_utils.session import session
from tests import answers_training


class Hostile(dict):
    """A mapping whose every question raises."""

    def __bool__(self):
        raise RuntimeError("line one\nline two")

    values = __len__ = __iter__ = __bool__


def leaves():
    raise SystemExit("bye")


NONSENSE = ["a lot", float("nan"), float("inf"), torch.ones(2, 3), torch.ones(()), [1, [2]], {},
            object(), True, -1, 10**400, Hostile(), leaves, list(range(10**6))]  # fmt: skip


def moved_windows(x, width):
    return x.as_strided((len(x) - width + 1, width), (1, 1))


def future(T):
    return torch.ones(T, T).triu().bool()


def accumulated(model, x, y, parts, scale=None, between=lambda: None):
    for a, b in zip(x.chunk(parts), y.chunk(parts), strict=True):
        between()
        ((model(a) - b).square().mean() / (scale or parts)).backward()


def loss_of_parts(model, x, y, parts):
    pairs = zip(x.chunk(parts), y.chunk(parts), strict=True)
    return sum((model(a) - b).square().mean() for a, b in pairs) / parts


def slopes(loss, w, step=1e-5):
    found = torch.zeros_like(w)
    for i in range(len(w)):
        move = torch.zeros_like(w)
        move[i] = step
        found[i] = (loss(w + move) - loss(w - move)) / (2 * step)
    return found


def fp16(bits):
    return torch.tensor(int(bits, 2), dtype=torch.int32).to(torch.int16).view(torch.float16).item()


MEMORY = hardware.machine().memory
EXACT = {"float16": 2**11, "bfloat16": 2**8, "float32": 2**24, "float64": 2**53}
EINSUMS = {"bsd,dk->bsk": 2_097_152, "bqd,bkd->bqk": 8_388_608, "bd,d->b": 512}
VIEWS = {name: kind for name, kind in check.ex01.KINDS.items()}

# For each exercise: right answers, and wrong ones with a word of the reply that each must get.
CASES = {
    "00.1": (
        [0.7996, 0.8, 6 * 70e9 * 15e12 / (1024 * 989.5e12 * 90 * 86400)],
        [(79.96, "percentage"), (0.3998, "sparsity"), (1.599, "0.5"), (818.8, "1024"),
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
         (80, "billions"), (8, "bytes a parameter"), (80e6, "power of ten")],
    ),
    "01.1": (
        [(2, 48, 8), [2, 48, 8], torch.zeros(4, 6, 8).permute(2, 0, 1)[::2, 1:].stride()],
        [((48, 8, 1), "own strides"), ((1, 48, 8), "step"), ((8, 48, 2), "another order"),
         ((18, 6, 1), "contiguous copy"), ((4, 3, 6), "shape of y"),
         ((2, 8, 48), "another order"), ((2, 48), "3 in all"),
         ((2, 48, 9), "2 of 3")],
    ),
    "01.2": (
        [170],
        [(122, "offset is missing"), (171, "from 0"), (169, "stride of dimension 0"),
         (680, "in bytes"), (500, "too large")],
    ),
    "01.3": (
        [VIEWS],
        [({**VIEWS, "x.T": "copy"}, "9 of 10"), ({**VIEWS, "x.T": "both"}, "'view' or 'copy'"),
         ({**VIEWS, "x.T": None}, "9 of 10 answered"), ({"x.T": "view"}, "missing"),
         (dict.fromkeys(VIEWS, "view"), "5 of 10"),
         (["view"], "dict")],
    ),
    "01.4": (
        [lambda T: torch.arange(T) <= torch.arange(T)[:, None],
         lambda T: torch.ones(T, T).tril().bool()],
        [(future, "future"), (lambda T: ~future(T), "diagonal"),
         (lambda T: ~future(T).T, "inverted"),
         (lambda T: torch.ones(T, T).tril(), "dtype"), (lambda T: torch.ones(T).bool(), "shape"),
         (lambda T: None, "a tensor is expected"), (lambda: 1, "TypeError"),
         (lambda T: torch.ones(T, T).bool(), "query 0")],
    ),
    "01.5": (
        [lambda x, width: x.unfold(0, width, 1),
         lambda x, w: x.as_strided((len(x) - w + 1, w), (x.stride(0),) * 2, x.storage_offset())],
        [(lambda x, w: x.unfold(0, w, 1).clone(), "copied"), (moved_windows, "own stride"),
         (lambda x, w: x.unfold(0, w, 1)[:-1], "n − width + 1"), (lambda x, w: x, "shape"),
         (lambda x, w: 3, "a tensor is expected"), (lambda x: x, "TypeError")],
    ),
    "01.6": (
        [lambda x: x[0].clone(), lambda x: torch.tensor(x[0].tolist())],
        [(lambda x: x[0], "view of x"), (lambda x: x[0].contiguous(), "contiguous() does not"),
         (lambda x: x.clone()[0], "the row first"), (lambda x: x[1].clone(), "values"),
         (lambda x: x[:1].clone(), "shape (8,)"), (lambda x: x[0].to("meta"), "meta"),
         (lambda x: x.zero_()[0].clone(), "changed x"), (lambda x: 1 / 0, "ZeroDivisionError")],
    ),
    "02.1": (
        [1_207_959_552],
        [(2_415_919_104, "fp32"), (603_979_776, "16 bits"), (1.208, "not in GB"),
         (1.125, "not in GiB"), (9_663_676_416, "byte has 8")],
    ),
    "02.2": (
        [EXACT],
        [({**EXACT, "float16": 1024}, "implied"), ({**EXACT, "float32": 2**24 - 1}, "exact too"),
         ({**EXACT, "bfloat16": 257}, "skipped"), ({**EXACT, "float16": 65504}, "largest number"),
         ({**EXACT, "float64": None}, "open"), (256, "dict"),
         ({**EXACT, "float16": "a"}, "number")],
    ),
    "02.3": (
        [check.ex02.SITUATIONS],
        [(dict.fromkeys(check.ex02.SITUATIONS, "float32"), "add up"), ({}, "open"),
         (dict.fromkeys(check.ex02.SITUATIONS, "int8"), "needs one of"), ("float32", "dict"),
         (dict.fromkeys(check.ex02.SITUATIONS, [1]), "needs one of")],
    ),
    "02.4": (
        [fp16, lambda bits: formats.decode(int(bits, 2), "float16")],
        [(lambda bits: fp16(bits) if bits[1:6] != "00000" else 0.0, "subnormal"),
         (lambda bits: fp16(bits) if bits[1:6] != "11111" else 65536.0, "infinities"),
         (lambda bits: abs(fp16(bits)), "normal numbers"), (lambda bits: None, "a number"),
         (lambda bits: fp16(bits) + 0.0, "minus zero"), (lambda: 0, "TypeError"), (3, "function")],
    ),
    "02.5": (
        [2.0**-24 * (1 + 2.0**-23)],
        [(2.0**-23, "eps"), (2.0**-24, "tie"), (2.0**-53, "float64"), (2.0**-149, "lost"),
         (1.0, "too large")],
    ),
    "03.1": (
        [lambda x, y: x[:, :, None] * y[:, None]],
        [(lambda x, y: y[:, :, None] * x[:, None], "transposed"),
         (lambda x, y: torch.einsum("bi,bj->ij", x, y), "sums over the batch"),
         (lambda x, y: x, "the shape"), (lambda x, y: None, "a tensor"), (lambda x: x, "TypeError"),
         (lambda x, y: 2 * x[:, :, None] * y[:, None], "values are not")],
    ),
    "03.2": (
        [lambda x, n: rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=n, q=n)],
        [(lambda x, n: rearrange(x, "b c (h p) (w q) -> b (h w) (c p q)", p=n, q=n), "channel"),
         (lambda x, n: rearrange(x, "b c (h p) (w q) -> b (w h) (p q c)", p=n, q=n), "row by row"),
         (lambda x, n: x.reshape(2, -1, 3 * n * n), "tears"), (lambda x, n: x, "the shape")],
    ),
    "03.3": (
        [lambda q, k: q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5],
        [(lambda q, k: q @ k.transpose(-1, -2), "1/√d is missing"),
         (lambda q, k: q @ k.transpose(-1, -2) / q.shape[-1], "scaled by d"),
         (lambda q, k: k @ q.transpose(-1, -2) / q.shape[-1] ** 0.5, "q before k"),
         (lambda q, k: torch.einsum("bhqd,bhkd->bqk", q, k) / q.shape[-1] ** 0.5, "heads")],
    ),
    "03.4": (
        [lambda q, k: q @ k.repeat_interleave(q.shape[1] // k.shape[1], 1).transpose(-1, -2)],
        [(lambda q, k: q @ k.repeat(1, q.shape[1] // k.shape[1], 1, 1).transpose(-1, -2), "(kv g)"),
         (lambda q, k: k, "the shape"), (lambda q, k: (q @ q.transpose(-1, -2)), "the shape")],
    ),
    "03.5": (
        [lambda x, m: torch.stack([row[keep].mean(0) for row, keep in zip(x, m, strict=True)])],
        [(lambda x, m: x.mean(1), "padding"), (lambda x, m: (x * m[..., None]).sum(1), "the sum"),
         (lambda x, m: (x * m[..., None]).mean(1), "all positions"), (lambda x, m: x, "shape")],
    ),
    "03.6": (
        [lambda x: x.transpose(1, 2), lambda x: x.permute(0, 2, 1, 3)],
        [(lambda x: x.reshape(x.shape[0], x.shape[2], x.shape[1], -1), "still a reshape"),
         (lambda x: x, "still a reshape"), (lambda x: x.transpose(0, 2), "other dimensions"),
         (lambda x: x.transpose(1, 2) * 2, "values are not")],
    ),
    "04.1": (
        [EINSUMS],
        [({**EINSUMS, "bd,d->b": 256}, "two FLOPs"),
         ({**EINSUMS, "bd,d->b": 128}, "size 4 is missing"),
         ({**EINSUMS, "bd,d->b": 64}, "size 4 is missing, and the factor 2"),
         ({**EINSUMS, "bd,d->b": 508}, "d − 1 additions"),
         ({**EINSUMS, "bsd,dk->bsk": 2_080_768}, "d − 1 additions"),
         ({**EINSUMS, "bqd,bkd->bqk": 65536}, "size 128 is missing"),
         ({**EINSUMS, "bd,d->b": 512 * 64}, "both inputs"),
         ({**EINSUMS, "bsd,dk->bsk": 2097152 * 64}, "both inputs"),
         ({**EINSUMS, "bqd,bkd->bqk": 8388608 * 128}, "size 128 is counted twice"),
         ({**EINSUMS, "bd,d->b": None}, "still open"), ({**EINSUMS, "bd,d->b": "x"}, "number"),
         ({**EINSUMS, "bqd,bkd->bqk": 33554433}, "bqd,bkd->bqk"), ([1, 2, 3], "dict")],
    ),
    "04.2": (
        [887],
        [(886, "round up"), (886.12, "whole number"), (295.37, "which n"),
         (1772.2, "not 4"), (590.75, "three matrices"), (443.06, "each number takes 2"),
         (100, "too small"),
         (1773, "not 4"), (296, "which n"), (591, "three matrices"), (444, "each number takes 2")],
    ),
    "04.3": (
        [0.3434, 6 * 7e9 * 4_194_304 / (8.1 * 64 * 989.5e12)],
        [(34.34, "percentage"), (5.0717, "fp32 promise"), (21.98, "64 GPUs"), (0.11447, "forward"),
         (0.1717, "sparsity"), (2.7816, "seconds"), (2.912, "upside down")],
    ),
    "04.4": (
        [{"warm-up", "repeats", "synchronise", "random data"},
         ["Warm-up ", "repeats", "synchronise", "random data"],
         frozenset({"warmup", "repeats", "synchronize", "random data"})],
        [({"warm-up"}, "1 of 4"), ({"more threads", "warm-up"}, "does not mend"),
         (set(), "0 of 4"), ({1, 2}, "not one of the six"), ("warm-up", "a set of names"),
         ({"warm-up", "warmup"}, "1 of 4"), ({"a faster GPU"}, "not one of the six")],
    ),
    "05.1": (
        [lambda h1, g: h1.T @ g, lambda h1, g: torch.einsum("bd,bk->dk", h1, g)],
        [(lambda h1, g: g.T @ h1, "transposed"), (lambda h1, g: h1.T @ g / len(g), "divided by B"),
         (lambda h1, g: h1, "shape"), (lambda h1, g: (h1.T @ g).abs(), "values are not"),
         (lambda h1, g: 3, "a tensor is expected"), (lambda h1: h1, "TypeError")],
    ),
    "05.2": (
        [65536],
        [(131072, "h1's gradient"), (262144, "both layers"), (196608, "w1 is frozen"),
         (32768, "two FLOPs"), (393216, "counted too"), (1, "too small")],
    ),
    "05.3": (
        [accumulated],
        [(lambda m, x, y, parts: None, "no gradient"),
         (lambda m, x, y, parts: accumulated(m, x, y, parts, scale=1), "divided by the parts"),
         (lambda m, x, y, parts: m(x).sum().backward(), "not the large batch's"),
         (lambda m, x, y, parts: accumulated(m, x[:3], y[:3], 1), "batches of [3] rows"),
         (lambda m, x, y, parts: accumulated(m, x, y, 1), "whole batch went through"),
         (lambda m, x, y, parts: accumulated(m, x, y, 12 // parts), "split(n)"),
         (lambda m, x, y, parts: loss_of_parts(m, x, y, parts).backward(), "backward ran 1 time"),
         (lambda m, x, y, parts: accumulated(m, x, y, parts, between=m.zero_grad), "only the last"),
         (lambda m, x, y, parts: accumulated(m, x, y, parts, 1, m.zero_grad), "only the last"),
         (lambda m, x, y, parts: accumulated(m, x, y, parts, parts / 12), "a sum")],
    ),
    "05.4": (
        [slopes],
        [(lambda loss, w: 2 * slopes(loss, w), "twice"), (lambda loss, w: None, "a tensor of w"),
         (lambda loss, w: slopes(loss, w, step=0.3), "close"), (lambda loss, w: w * 7, "not those"),
         (lambda loss, w: slopes(loss, w.mul_(1.5)), "w is changed")],
    ),
    **answers_training.CASES,
    "07.5": (
        [MEMORY / 16],
        [(MEMORY / 4, "parameters alone"), (MEMORY / 8, "SGD"), (MEMORY / 12, "two numbers"),
         (MEMORY, "number of bytes"), (MEMORY / 2, "4 bytes"), (1, "too small")],
    ),
}  # fmt: skip
RIGHT = [(id, answer) for id, (right, _) in CASES.items() for answer in right]
WRONG = [(id, answer, word) for id, (_, wrong) in CASES.items() for answer, word in wrong]


def exercise(id):
    return getattr(check, f"ex{id.replace('.', '_')}")


@pytest.fixture(autouse=True)
def fresh_session(monkeypatch):
    monkeypatch.setattr(session, "hints", {})
    monkeypatch.setattr(session, "solved", set())


def test_every_exercise_has_its_cases():
    named = [getattr(check, name) for name in dir(check)]
    every = {value.id for value in named if isinstance(value, check.Exercise)}
    assert every == set(CASES)
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
    assert verdict.state == "wrong"
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
    given = [exercise(id).hint().words for _ in range(len(hints) + 1)]
    assert given[0].startswith(f"hint 1 of {len(hints)}") and given[-1] == given[-2]
    assert len(hints) >= 2


ANSWERS = {"00.1": "0.7996", "00.2": "1638", "00.3": "25.28", "00.4": "80e9", "01.2": "170",
           "01.1": "(2, 48, 8)", "04.2": "887", "04.3": "0.343", "05.2": "65536",
           "02.1": "1207959552"}  # fmt: skip


@pytest.mark.parametrize(("id", "answer"), ANSWERS.items())
def test_no_reply_to_a_wrong_answer_contains_the_right_one(id, answer):
    replies = [exercise(id)(wrong).words for wrong, _ in CASES[id][1]]
    replies += [exercise(id)().words, *exercise(id).hints]
    assert not any(answer in reply for reply in replies)


def test_progress_lists_the_chapter():
    check.ex00_1(0.7996)
    states = [row[2] for row in check.progress("00").rows]
    assert states == ["✓ solved", "○ open", "○ open", "○ open"]
    with pytest.raises(ValueError, match="chapter must be one of .*'00', '01'.*got '99'"):
        check.progress("99")


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


def test_the_verdict_is_escaped_in_html():
    verdict = check.ex00_1("<b>")
    assert "<b>'" not in verdict._repr_html_() and "&lt;b&gt;" in verdict._repr_html_()


def test_a_judge_that_loops_over_nan_stays_calm():
    assert check.ex01_1((float("nan"), 1, 2)).state == "wrong"
    assert check.ex01_1((float("inf"), 1, 2)).state == "wrong"
