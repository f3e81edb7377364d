"""Guess, arithmetic and measurement: marks, verdicts, sentences, the ledger."""

import pytest
import torch

from course_utils import compare, measure
from course_utils.session import session


@pytest.fixture(autouse=True)
def fresh_ledger(monkeypatch):
    monkeypatch.setattr(session, "ledger", {})


def row(**given):
    return compare(**{"id": "00.1", "what": "x", "unit": "s", **given})


def time(value, doubt=""):
    return measure.Time((value,) * 5, 2, "cpu", doubt)


def test_counts_are_exact_and_unmarked():
    cells = row(unit="B", predicted=4096, measured=4096).cells()
    assert cells == ("–", "4096 B", "4096 B", "exact", "–")


def test_a_count_that_is_off_is_not_called_exact():
    shown = row(unit="B", predicted=16_000_000, measured=16_000_008)
    assert shown.cells()[3] == "+8 B"
    assert shown.explanation() == "The count is off by 8 B."
    assert row(unit="B", predicted=20, measured=12).cells()[3] == "−8 B"


def test_live_values_are_marked():
    shown = row(guess=2.0, predicted=1e-3, measured=time(1.5e-3))
    assert shown.cells() == ("2 s", "≈ 1 ms", "≈ 1.5 ms", "≈ 1.5 ×", "≈ 1330 ×")
    assert shown.ratio == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("measured", "words"),
    [(1.1, "agree within 10.0%"), (2.0, "2 × the arithmetic. Too slow."),
     (0.5, "0.5 × the arithmetic. Too fast.")],
)  # fmt: skip
def test_the_sentence_follows_the_measurement(measured, words):
    shown = row(predicted=1.0, measured=measured, above="Too slow.", below="Too fast.")
    assert shown.explanation().startswith("On this machine ")
    assert words in shown.explanation()


def test_an_untrusted_measurement_is_not_comparable():
    shown = row(predicted=1.0, measured=time(1.0, doubt="the core was shared"))
    assert shown.cells()[3] == "≈ not comparable"
    assert shown.ratio is None
    assert "the core was shared" in shown.explanation()


def test_an_untrusted_prediction_is_not_comparable_either():
    shown = row(predicted=time(1.0, doubt="noise"), measured=time(1.0))
    assert shown.cells()[3] == "≈ not comparable"


def test_a_doubt_shows_where_there_is_no_verdict():
    shown = row(guess=3, measured=time(1.0, doubt="noise"))
    assert shown.cells()[2:] == ("≈ 1 s (unsure: noise)", "–", "–")
    assert "unsure" not in repr(row(guess=3, measured=time(1.0)))


@pytest.mark.parametrize(
    ("predicted", "measured", "words"),
    [(1.0, 1.0, "the two are equal. Near."), (0.1 + 0.2, 0.3, "the two are equal. Near."),
     (1.0, 1.00149, "agree within 0.2%. Near."), (1.0, 1.25, "agree within 25.0%. Near.")],
)  # fmt: skip
def test_agreement_is_rounded_up(predicted, measured, words):
    assert words in row(predicted=predicted, measured=measured, near="Near.").explanation()


@pytest.mark.parametrize(("predicted", "measured"), [(1e-300, 1e300), (1e308, 1e-308)])
def test_a_ratio_beyond_all_numbers_spoils_no_ledger(predicted, measured):
    shown = row(guess=1e308, predicted=predicted, measured=measured)
    assert shown.ratio is None and shown.cells()[3] == "≈ not comparable"
    assert row(guess=1e308, predicted=2.0, measured=1e-6).guess_ratio is None
    assert "00.1" in repr(compare.ledger())


def test_counts_of_nothing():
    assert row(unit="B", predicted=0, measured=0).cells()[3] == "exact"
    assert row(unit="B", predicted=0, measured=3).cells()[3] == "+3 B"


def test_units_must_agree():
    with pytest.raises(ValueError, match="unit is 's', but predicted is in 'FLOPs'"):
        row(predicted=measure.Flops(10, 20, {}), measured=time(1.0))
    with pytest.raises(ValueError, match="because explains times: unit must be 's', got 'FLOP/s'"):
        row(unit="FLOP/s", measured=1.0, because={"flops": 1})


def test_what_this_machine_lacks():
    assert row(predicted=None, measured=1.0).cells()[1] == "≈ unknown"
    assert row(predicted=512, measured=None).cells()[2:4] == (
        "≈ not measured here",
        "≈ not comparable",
    )
    assert row(predicted=0.0, measured=1.0).cells()[3] == "≈ not comparable"


def test_pure_arithmetic_carries_no_mark():
    shown = row(unit="days", guess=100, predicted=143.93)
    assert shown.cells() == ("100 days", "143.9 days", "–", "–", "≈ 0.695 ×")
    assert shown.explanation() == ""


@pytest.mark.parametrize("guess", [None, "a lot", float("nan"), float("inf"), True, [1], {}])
def test_a_guess_that_is_no_number_is_a_dash(guess):
    assert row(guess=guess, predicted=1.0, measured=1.0).cells()[0] == "–"


def test_a_guess_may_be_negative():
    slips = {"the sign is wrong.": -3}
    one = row(unit="", guess=-3, predicted=3, measured=3, slips=slips)
    assert one.answer() == "Your guess has the other sign: the sign is wrong."
    assert one.cells()[0] == "−3" and one.cells()[4] == "–"
    two = row(unit="s", guess=-2.5, predicted=1.0, measured=1.0)
    assert two.answer() == "Your guess has the other sign." and two.cells()[0] == "−2.5 s"


def test_two_machines_differ_only_in_live_fields():
    import re

    live = re.compile(r"≈[^|<\n]*|(?m:^On this machine.*$)")
    one = row(predicted=1.0, measured=time(1.0))
    busy = time(7.0, doubt="busy")
    pairs = [(one, row(predicted=3e-9, measured=busy)), (row(measured=1.0), row(measured=busy))]
    for form in (repr, lambda r: r._repr_html_()):
        for here, there in pairs:
            assert live.sub("#", form(here)) == live.sub("#", form(there))


def test_the_ledger_keeps_one_row_an_id_in_the_order_of_their_numbers():
    for id in ("04.10", "00.1", "04.9", "10.1", "04.10"):
        row(id=id, predicted=len(session.ledger), measured=1)
    assert [cells[0] for cells in compare.ledger().rows] == ["00.1", "04.9", "04.10", "10.1"]
    assert compare.ledger().rows[2][3] == "4 s"


def test_the_ledger_of_one_chapter():
    for id in ("00.1", "01.1", "10.1", "1.1"):
        row(id=id, predicted=1, measured=1)
    assert [cells[0] for cells in compare.ledger("01").rows] == ["01.1"]
    assert compare.ledger("01").title == "Your ledger of chapter 01"
    assert compare.ledger("99").rows == ()
    with pytest.raises(TypeError, match="chapter must be a text that is not empty, got 1"):
        compare.ledger(1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"measured": float("nan")}, "measured must be"),
        ({"measured": -1}, "measured must be"),
        ({"predicted": "3"}, "predicted must be"),
        ({"id": ""}, "id must be"),
        ({"what": None}, "what must be"),
        ({"unit": 3}, "unit must be"),
        ({"mesured": 1.0}, "unexpected keyword argument 'mesured'"),
        ({"slips": 3}, "slips must map sentences to numbers, got 3"),
        ({"slips": {"": 3}}, "a slip must be a text"),
        ({"slips": {"forward only": "3"}}, "slips.'forward only'. must be a finite number"),
        ({"above": 3}, "above must be"),
    ],
)
def test_bad_arguments_are_named(given, message):
    with pytest.raises((TypeError, ValueError), match=message):
        row(**given)


def test_a_guess_is_not_judged_by_an_untrusted_measurement():
    shown = row(guess=2.0, predicted=1.0, measured=time(9.0, doubt="noise"))
    assert shown.guess_ratio == 2.0


def test_a_guess_that_cannot_be_used_is_remarked_on():
    assert "Your guess must be a plain number" in repr(row(guess="100 days", predicted=1.0))
    assert "Your guess" not in repr(row(guess=None, predicted=1.0))
    assert row(guess=10**400, predicted=1.0).guess is None


def peak(value=1e12, **doubt):
    return measure.Peak(value, "measured", "here", "fp32", **doubt)


def test_mfu_sentences():
    half = compare.mfu(flops=5e11, time=time(1.0), peak=peak())
    assert half == "On this machine the MFU is 0.50, of the measured fp32 peak."
    assert repr(half) == str(half) and "\nOn this machine" in half._repr_html_()
    assert "peak is too low" in compare.mfu(flops=2e12, time=time(1.0), peak=peak())
    promise = measure.Peak(1e12, "datasheet", "datasheet", "bf16")
    assert "are mistaken" in compare.mfu(flops=2e12, time=time(1.0), peak=promise)
    counted = compare.mfu(
        flops=measure.Flops(2 * 10**11, 3 * 10**11, {}), time=time(1.0), peak=peak()
    )
    assert counted == half
    for doubtful in (
        compare.mfu(flops=5e11, time=time(1.0, doubt="noise"), peak=peak()),
        compare.mfu(flops=5e11, time=time(1.0), peak=peak(doubt="noise")),
    ):
        assert doubtful == "On this machine the MFU cannot be told: noise."


def test_the_mfu_of_several_devices_is_that_of_each():
    one = compare.mfu(flops=4.5e11, time=time(1.0), peak=peak())
    sixteen = compare.mfu(flops=4.5e11, time=time(1.0), peak=peak(), devices=16)
    assert "0.45" in one and "0.03" in sixteen


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"time": 0.5}, "time must come from measure.time, got 0.5"),
        ({"peak": 1e12}, "peak must come from measure.reference_peak, got 1000"),
        ({"time": peak(), "peak": time(1.0)}, "time must come from measure.time"),
        ({"peak": time(1.0)}, "peak must come from measure.reference_peak"),
        ({"flops": time(1.0)}, "flops must come from predict or measure.flops"),
        ({"flops": peak()}, "flops must come from predict or measure.flops"),
        ({"time": measure.flops(lambda: torch.ones(2) + 1)}, "time must come from measure.time"),
        ({"peak": measure.Bandwidth(1e9, "measured", "here")}, "peak must come from measure.ref"),
        ({"time": time(0.0)}, "time must be .* above 0"),
        ({"peak": peak(0.0)}, "peak must be .* above 0"),
        ({"flops": 0}, "flops must be .* above 0"),
        ({"flops": None}, "flops must be .* above 0"),
        ({"devices": 0}, "devices must be a whole number at least 1"),
        ({"devices": 1.5}, "devices must be a whole number"),
    ],
)
def test_what_the_mfu_is_given_is_named(given, message):
    with pytest.raises((TypeError, ValueError), match=message):
        compare.mfu(**{"flops": 1e11, "time": time(1.0), "peak": peak(), **given})


# What a guess is told

HALF = {"you counted the multiplications only: a multiply-add is two FLOPs.": 20480,
        "that is the forward pass alone.": 40960 / 3}  # fmt: skip


@pytest.mark.parametrize(
    ("guess", "words"),
    [
        (40960, "Your guess is right."),
        (20480, "Your guess is 0.5 × the measurement: you counted the multiplications only"),
        (13653, "0.333 × the measurement: that is the forward pass alone."),
        (81920, "2 × the measurement: it is double: a factor of 2"),
        (40.96, "0.001 × the measurement: only the prefix is off, by a factor of 10³"),
        (40960e9, "1e9 × the measurement: only the prefix is off, by a factor of 10⁹"),
        (45000, "1.1 × the measurement: close."),
        (70000, "1.71 × the measurement."),
        (0, "Your guess is off."),
    ],
)
def test_a_guess_of_a_count_is_answered_at_once(guess, words):
    shown = row(unit="FLOPs", guess=guess, predicted=40960, measured=40960, slips=HALF)
    assert words in shown.answer()
    assert shown.answer() in shown.shown().note.splitlines()


@pytest.mark.parametrize(
    ("unit", "right", "guess", "words"),
    [
        ("B", 128, 1024, "you counted bits"),
        ("B", 128, 16, "bytes already"),
        ("B", 2_415_919_104, 2.25e9, "1 KiB is 1024"),
        ("B", 2_415_919_104, 2_304_000_000, "1 KiB is 1024"),  # MiB, divided by 1000
        ("B", 4096, 4, "a power of 1024"),
        ("FLOPs", 1000, 500, "a multiply-add is two FLOPs"),
        ("days", 144, 72, "it is half: a factor of 2 is missing"),
        ("days", 144, 18, ""),  # an eighth means nothing here
        ("", 0.8, 80, "per cent"),
        ("times", 4.0, 0.25, "upside down"),
        ("times", 1.0, 1.0, "right"),
        ("B", 0, 5, "off"),
    ],
)
def test_general_slips_are_named_by_their_unit(unit, right, guess, words):
    answer = row(unit=unit, guess=guess, predicted=right).answer()
    if words:
        assert words in answer
    else:
        assert answer.endswith("the arithmetic.") or answer.endswith("close.")


def test_a_guess_of_a_rough_measurement_is_told_a_wrong_prefix_only():
    assert "prefix" in row(guess=1.2, measured=time(1e-3)).answer()
    assert row(guess=2e-3, measured=time(1e-3)).answer() == "Your guess is 2 × the measurement."


def test_a_guess_that_is_close_to_the_measurement_gets_no_factor():
    shown = row(unit="times", guess=4.0, predicted=2, measured=4.1)
    assert shown.answer() == "Your guess is 0.976 × the measurement: close."
    far = row(unit="times", guess=1.0, predicted=2, measured=4.1)
    assert far.answer() == "Your guess is 0.244 × the measurement."


def test_milliseconds_for_seconds_are_named_though_the_guess_is_rough():
    assert "only the prefix" in row(guess=13, predicted=12.9e-3, measured=time(12.5e-3)).answer()


def test_a_small_count_is_never_close():
    assert row(unit="", guess=13, predicted=14, measured=14).answer().endswith("one too few.")
    assert row(unit="", guess=257, predicted=256).answer() == "Your guess is one too many."
    assert row(unit="B", guess=14, predicted=16).answer() == "Your guess is 0.875 × the arithmetic."


def test_a_count_that_is_off_is_right_by_the_machine_and_shows_its_digits():
    found = row(unit="B", guess=16_000_008, predicted=16_000_000, measured=16_000_008)
    assert found.answer() == "Your guess is right."
    assert found.cells()[1:4] == ("16,000,000 B", "16,000,008 B", "+8 B")
    other = row(unit="B", guess=16_000_000, predicted=16_000_000, measured=16_000_008)
    assert other.answer() == "Your guess agrees with the arithmetic."


def test_a_guess_that_is_the_arithmetic_is_told_so_whatever_the_machine_did():
    shown = row(guess=1.0, predicted=1.0, measured=time(3.0))
    assert shown.answer() == "Your guess agrees with the arithmetic."


def test_without_a_guess_nothing_is_said_of_it():
    assert row(unit="FLOPs", predicted=1, measured=1, slips=HALF).answer() == ""
    assert row(guess=3.0, measured=None).answer() == ""


def test_a_guess_is_shown_as_it_was_given_where_it_is_a_count():
    counted = row(unit="FLOPs", guess=20_480_123, predicted=1, measured=1)
    assert counted.cells()[0] == "20,480,123 FLOPs"
    assert row(unit="", guess=12, predicted=12).cells()[0] == "12"
    assert row(guess=0.0123456, predicted=1.0).cells()[0] == "12.35 ms"


def test_no_answer_tells_the_right_number():
    for guess in (1, 500, 20480, 81920, 40.96, 45000):
        answer = row(unit="FLOPs", guess=guess, predicted=40961, measured=40961).answer()
        assert "40961" not in answer.replace(",", "")


def test_a_column_that_a_comparison_does_not_have_is_not_shown():
    count = row(guess=90.0, unit="days", predicted=143.9)
    assert count.shown().columns == ("your guess", "the arithmetic")
    assert count.shown().rows == (("90 days", "143.9 days"),)
    assert row(guess=None, measured=1.0).shown().columns == ("your guess", "this machine")
    assert row(predicted=1.0, measured=1.0).shown().columns[0] == "the arithmetic"
    both = row(
        guess=None, predicted=None, measured=1.0
    )  # lacking here is not the same as not there
    assert len(both.shown().columns) == 4


def test_a_ratio_of_one_is_called_no_difference_and_judges_no_guess():
    hoped, ratio = {"unit": "times", "predicted": 1}, time(2.4) / time(1.0)
    slower = row(**hoped, guess=1, measured=ratio)
    assert slower.cells()[1] == "no difference"
    assert slower.answer() == "You expected no difference."
    assert "only the prefix" not in row(**hoped, guess=2400, measured=ratio).answer()
    assert row(**hoped, guess=2, measured=1.0).answer() == "Your guess is 2 × the measurement."
    unsure = row(**hoped, guess=2, measured=time(2.4, doubt="the machine was busy") / time(1.0))
    assert unsure.answer() == ""  # nothing is known that could judge it
    assert row(unit="times", predicted=2, measured=ratio).cells()[1] == "2 times"


def test_a_guess_is_right_to_the_digits_that_are_shown():
    assert row(unit="", guess=0.004928, predicted=0.00492764).answer() == "Your guess is right."
    assert "close" in row(unit="", guess=0.0049, predicted=0.00492764).answer()
    shown = row(unit="times", guess=2.88, predicted=2.875, measured=2.5)
    assert shown.answer() == "Your guess agrees with the arithmetic."


def test_a_guess_of_what_no_arithmetic_foretold_agrees_with_the_measurement():
    assert row(unit="", guess=128, measured=128.0).answer().endswith("with the measurement.")


def test_a_count_that_is_all_but_right_is_told_what_it_is_off_by():
    answer = row(unit="FLOPs", guess=524_289, predicted=524_288, measured=524_288).answer()
    assert answer == "Your guess is off by 1 FLOPs: close."


@pytest.mark.parametrize("unit", ["", "times"])
def test_a_share_or_a_ratio_has_no_prefix(unit):
    assert "prefix" not in row(unit=unit, guess=5.0, predicted=0.005).answer()


def test_of_slips_that_lie_close_together_the_nearer_one_is_named():
    close = {"that is the first.": 1000.0, "that is the second.": 1004.0}
    assert row(guess=1003.5, predicted=9999, slips=close).answer().endswith("the second.")
    assert row(guess=1000.5, predicted=9999, slips=close).answer().endswith("the first.")


def test_a_guess_in_more_digits_than_are_shown_is_right():
    for guess in (5.55, 5.545, 5.5452):
        assert (
            "agrees with the arithmetic"
            in row(guess=guess, predicted=5.5452, measured=5.4).answer()
        )
    assert "agrees" not in row(guess=5.53, predicted=5.5452, measured=5.4).answer()
