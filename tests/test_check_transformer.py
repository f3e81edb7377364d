"""The capstone's checks: what is drawn, what the instruments find of it, and the clock."""

import sys

import pytest

from course_utils import check, measure, predict
from course_utils.check import ex10_capstone, ex10_plans, ex10_runs
from tests import answers_transformer
from tests.answers_transformer import PLANS, predict_run, slip


def test_runs_are_drawn_anew_and_hold_every_style_format_and_checkpointing():
    runs, others = ex10_runs.random_runs(), ex10_runs.random_runs()
    assert not {run.config for run in runs} & {run.config for run in others}
    for drawn in (runs, others):
        ways = {(run.config.style, run.dtype, run.checkpointing) for run in drawn}
        assert len(drawn) == len(ways) == 8
        for style in ("gpt", "llama"):
            four = [run for run in drawn if run.config.style == style]
            assert sorted(run.optimizer for run in four) == ["AdamW"] * 3 + ["SGD"]
            assert sorted(run.config.tied for run in four) == [False, False, True, True]
            shared = [run.config.kv_heads < run.config.heads for run in four]
            assert sorted(shared) == [False, False, True, True]
            assert all(run.tokens < run.config.context for run in four)


def left_out(run):
    """Bytes of the few numbers that wait between the passes, and that the solution leaves out."""
    config, gpt = run.config, run.config.style == "gpt"
    kept_layers = 0 if run.checkpointing else config.layers
    # A LayerNorm keeps a mean and a scale, in its input's format; an RMSNorm a scale, in fp32.
    norms = (2 * kept_layers + 1) * (2 * run.nbytes if gpt else 4)
    logsumexp = 4 * config.heads * kept_layers  # attention's, in fp32
    both_ids = 8 + 8  # of the inputs, which the embedding keeps, and of the targets
    angles = 0 if run.checkpointing else 2 * config.head_width * run.nbytes  # cosines and sines
    per_position = 8 if gpt else angles  # the indices of the positions, or RoPE's tables
    return run.rows * (norms + logsumexp + both_ids) + run.tokens * per_position + run.nbytes


def test_the_solution_agrees_with_the_instruments():
    """Also what the arithmetic of predict covers: AdamW in fp32, without checkpointing."""
    runs = [run for run in ex10_runs.random_runs() if run.config.layers < 3]
    for run in runs:
        found, said = ex10_runs.found(run), predict_run(*run.asked())
        for name in ("parameters", "weights", "gradients", "flops"):
            assert found[name] == said[name], (name, run)
        assert found["state"] == pytest.approx(said["state"], rel=1e-3)
        assert found["activations"] == said["activations"] + left_out(run)
        assert found["peak"] == pytest.approx(said["peak"], rel=0.01)
        if run.dtype == "fp32" and run.optimizer == "AdamW" and not run.checkpointing:
            expected = predict.transformer_memory(run.config, run.batch, run.tokens, form=run.form)
            assert found["activations"] == expected.activations
            assert 0 <= expected.peak - found["peak"] <= 4  # there the loss lives on


@pytest.fixture
def by_formula(monkeypatch):
    """The solution's own numbers instead of the instruments', which take seconds."""
    monkeypatch.setattr(ex10_capstone, "found", lambda run: predict_run(*run.asked()))


def test_every_draw_tells_every_mistake(by_formula):
    right, wrong = answers_transformer.CASES["10.6"]
    for _ in range(5):
        assert {check.ex10_6(answer).state for answer in right} == {"right"}
        for answer, word in wrong:
            assert word in check.ex10_6(answer).words


def test_the_learner_s_own_profiler_is_put_back(by_formula):
    def note(*_):
        return None

    sys.setprofile(note)
    try:
        for answer in (predict_run, lambda *run: 1 / 0):
            check.ex10_6(answer)
            assert sys.getprofile() is note
    finally:
        sys.setprofile(None)


def test_the_score_says_how_many_runs_were_within_the_limits(by_formula):
    words = check.ex10_6(slip("tied")).words
    assert words.startswith("within the limits: parameters 4/8, weights 4/8, gradients 4/8, state ")
    assert "flops 8/8, activations 8/8, peak " in words and "Most off: " in words
    assert check.ex10_6(predict_run).measured


@pytest.mark.parametrize(
    ("seconds", "doubt", "state", "word"),
    [(0.050, "", "right", "50 ms"), (0.034, "", "right", "the clock agrees"),
     (0.074, "", "right", "the clock agrees"), (0.030, "", "wrong", "Some of the step is no"),
     (0.017, "", "wrong", "the backward pass and the whole batch"),
     (0.2, "", "wrong", "too long"), (50, "", "wrong", "milliseconds"),
     (0.050, "another program was busy", "open", "another program was busy")],
)  # fmt: skip
def test_a_step_is_judged_by_the_clock(monkeypatch, seconds, doubt, state, word):
    took = measure.Time((0.050,) * 5, 1, "cpu", doubt)
    monkeypatch.setattr(ex10_capstone, "_step_time", lambda: took)
    verdict = check.ex10_7(seconds)
    assert verdict.state == state and word in verdict.words and verdict.measured, verdict


def test_the_step_really_runs():
    assert ex10_capstone._step_time().value > 0


def test_the_mixture_has_its_published_size():
    """46.7 billion parameters, of which a token uses 12.9 (mistral.ai, "Mixtral of experts")."""
    total, active = (check.ex10._experts(count) for count in (8, 2))
    assert (total, active) == (46_702_792_704, 12_879_925_248)


def test_every_plan_has_mistakes_that_differ_from_its_answer():
    for name, (right, within, mistakes) in ex10_plans.PLANS.items():
        assert all(abs(value / right - 1) > max(within, 1e-3) for value, _ in mistakes), name
        assert PLANS[name] == pytest.approx(right, rel=max(within, 1e-9))


ANSWERS = ["174_604", "174.6", "53 0", "53,0", "68.7", "636", "46.7", "12.88", "22.1", "59 "]
ANSWERS += ["(50 257", "+ 2048", "/ (2 ·", "64 · 989", "· 2 · 32", "22130", "6.61", "2489"]


def test_no_reply_tells_an_answer():
    cases = {f"ex{id.replace('.', '_')}": wrong
             for id, (_, wrong) in answers_transformer.CASES.items()
             if id != "10.6"}  # fmt: skip
    replies = [getattr(check, name)(answer).words
               for name, wrong in cases.items() for answer, _ in wrong]  # fmt: skip
    replies = [words for words in replies if "46.7 parameters is too small" not in words]  # its own
    hints = [hint for number in range(1, 9) for hint in getattr(check, f"ex10_{number}").hints]
    assert len(hints) == 24
    assert not [words for words in replies + hints for answer in ANSWERS if answer in words]
