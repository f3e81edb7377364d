"""Behind chapter 08's exercises: the loops that are known, what they are tried on, read pages."""

import inspect

import numpy as np
import pytest
import torch

from course_utils import check
from course_utils.check import ex08, ex08_data, ex08_loop
from course_utils.check.flawed_loops import FLAWED
from course_utils.check.loops import RIGHT, plain
from course_utils.train import Diverged
from tests.answers_loop import by_comparison, short

SETTINGS = ex08_loop._settings(6, list(range(6)))
BAD = [ex08_loop.Setting(7, 6, bad=value) for value in (torch.inf, -torch.inf, torch.nan)]


def names(loop):
    return getattr(loop, "kind", None) or loop.__name__


def after(loop, setting):
    """What a loop leaves behind, in a form that can be compared."""
    trial = ex08_loop.Trial(setting).run(loop)
    error = type(trial.error).__name__ if trial.error else ""
    return trial.losses, error in ("FloatingPointError", "Diverged") or error, trial.parameters()


def same(one, other):
    return one[:2] == other[:2] and all(map(torch.equal, one[2], other[2]))


@pytest.mark.parametrize("loop", [*RIGHT, short], ids=names)
@pytest.mark.parametrize("setting", SETTINGS + BAD, ids=str)
def test_right_loops_agree_to_the_bit(loop, setting):
    assert same(after(loop, setting), after(plain, setting))


@pytest.mark.parametrize("flaw", FLAWED, ids=names)
def test_each_broken_loop_shows_in_some_setting_and_is_told_there(flaw):
    shown = [s for s in SETTINGS + BAD if not same(after(flaw, s), after(plain, s))]
    assert shown
    verdict = check.ex08_1(flaw)
    assert verdict.state == "wrong" and (not flaw.told or verdict.words == flaw.told), verdict


def test_the_flaws_differ_from_each_other():
    def seen(flaw, setting):
        trial = ex08_loop.Trial(setting).run(flaw)
        ends = [p.tolist() for p in trial.parameters()]
        return repr((trial.losses, trial.error, trial.taken, trial.drawn, ends))

    left = {flaw: tuple(seen(flaw, setting) for setting in SETTINGS + BAD) for flaw in FLAWED}
    assert len(set(left.values())) == len({flaw.kind for flaw in FLAWED}) == len(FLAWED)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_a_setting_trains_and_its_dropout_counts(setting):
    losses, error, parameters = after(plain, setting)
    assert not error and len(set(losses)) == setting.steps
    other = ex08_loop.Trial(setting)
    other.model[2].p = 0.0
    assert other.run(plain).losses != losses
    twin = ex08_loop.Trial(setting)
    assert not any(map(torch.equal, parameters, twin.parameters()))


@pytest.mark.parametrize("setting", BAD, ids=str)
def test_the_bad_batch_comes_in_the_middle_and_nothing_acts_on_it(setting):
    trial = ex08_loop.Trial(setting).run(plain)
    assert trial.taken == setting.middle == 3 and trial.drawn == 4
    good = ex08_loop.Trial(ex08_loop.Setting(7, 6))
    good.setting = ex08_loop.Setting(7, 3)
    good.run(plain)
    assert all(map(torch.equal, good.parameters(), trial.parameters()))


def test_the_course_s_own_error_is_the_one_that_is_asked_for():
    assert issubclass(Diverged, FloatingPointError) and issubclass(Diverged, RuntimeError)


def test_a_tester_cannot_tell_loops_by_their_names():
    seen = set()

    def broken(fit):
        made = vars(fit), fit.__doc__, fit.__defaults__
        seen.add((fit.__name__, fit.__qualname__, str(inspect.signature(fit)), repr(made)))
        return by_comparison(fit)

    assert check.ex08_6(broken).state == "right" and len(seen) == 1


def test_a_tester_meets_the_loops_in_a_new_order():
    orders = []

    def broken(fit):
        orders[-1].append(by_comparison(fit))
        return orders[-1][-1]

    for _ in range(4):
        orders.append([])
        assert check.ex08_6(broken).state == "right"
    assert len({tuple(order) for order in orders}) > 1
    assert {len(order) for order in orders} == {len(RIGHT) + len(FLAWED)}


def test_a_loop_may_be_called_by_keywords_and_a_tester_may_be_in_no_grad():
    def broken(fit):
        def by_name(model, optimizer, batches, loss_fn, steps):
            given = {"model": model, "optimizer": optimizer, "batches": batches}
            return fit(**given, loss_fn=loss_fn, steps=steps)

        return by_comparison(by_name)

    with torch.no_grad():
        assert check.ex08_6(broken).state == "right"
        assert check.ex08_1(short).state == "right"


def test_tokens_of_a_try_are_told_apart(tmp_path):
    for tokens, T, starts in ex08_data._tries(tmp_path / "tokens.bin"):
        assert tokens.dtype == np.uint16 and len(set(tokens.tolist())) == len(tokens)
        assert tokens.max() > 32_767 > tokens.min()
        steps = np.diff(tokens.astype(np.int64))
        assert not (steps == 1).any()
        assert min(starts) >= 0 and max(starts) <= len(tokens) - T - 1
    assert isinstance(tokens, np.memmap) and not tokens.flags.writeable


@pytest.mark.parametrize(("nbytes", "itemsize"), [(258, 2), (129, 1), (4096, 2), (4098, 2), (9, 1)])
def test_pages_by_counting_them(nbytes, itemsize):
    """Each window of a file, by the numbers of the pages of its bytes."""
    pages = ex08.PAGE // itemsize
    touched = [
        len({byte // ex08.PAGE for byte in range(at * itemsize, at * itemsize + nbytes)})
        for at in range(pages)
    ]
    assert ex08.expected_pages(nbytes, itemsize) == sum(touched) / pages


def test_what_the_disk_delivers_by_simulation():
    starts = np.random.default_rng(0).integers(0, 10**9, size=10**6) * 2
    pages = 1 + (starts + 257) // ex08.PAGE - starts // ex08.PAGE
    delivered = pages.mean() * ex08.PAGE / 258
    assert delivered == pytest.approx(16.87, rel=1e-3) == 4352 / 258
    assert check.ex08_7(delivered).state == "right"


def test_windows_by_counting_them():
    """As in 08.3, on a file so small that each start can be tried."""
    tokens, T = 100, 7
    training = range(tokens * 9 // 10)
    starts = [at for at in range(tokens) if all(at + i in training for i in range(T + 1))]
    assert len(starts) == tokens * 9 // 10 - T
