"""A measured series in one sentence."""

import pytest

from course_utils import compare, measure


def trend(values, **given):
    points = dict(zip((64, 128, 256, 512, 1024, 2048), values, strict=False))
    return compare.trend(points, **{"what": "fp32", "x": "n", "unit": "FLOP/s", **given})


def took(seconds, doubt=""):
    return measure.Time((seconds,) * 5, 2, "cpu", doubt)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([1e9, 2e9, 4e9], "rises from 1 GFLOP/s at n = 64 to 4 GFLOP/s at n = 256."),
        ([1e9, 3e9, 9e9, 8.5e9, 9.1e9],
         "rises from 1 GFLOP/s at n = 64 to 9.1 GFLOP/s at n = 1,024, "
         "and bends at n = 256: it is level from there."),
        ([4e9, 2e9, 1e9], "falls from 4 GFLOP/s at n = 64 to 1 GFLOP/s at n = 256."),
        ([1e9, 4e9, 2e9], "rises from 1 GFLOP/s at n = 64 to 4 GFLOP/s at n = 128, "
         "then falls to 2 GFLOP/s at n = 256."),
        ([4e9, 1e9, 2e9], "falls from 4 GFLOP/s at n = 64 to 1 GFLOP/s at n = 128, "
         "then rises to 2 GFLOP/s at n = 256."),
        ([1e9, 1.2e9, 1.1e9],
         "changes by less than a quarter: between 1 GFLOP/s at n = 64 and 1.2 GFLOP/s at n = 128."),
        ([1e9, 2e9, 1e9, 2e9, 1e9],
         "goes up and down: it turns 3 times between 1 GFLOP/s at n = 64 and "
         "2 GFLOP/s at n = 128."),
        ([1e9, 1.1e9, 1.21e9, 1.33e9, 1.46e9],  # small steps add up
         "rises from 1 GFLOP/s at n = 64 to 1.46 GFLOP/s at n = 1,024, "
         "and bends at n = 256: it is level from there."),
        ([5e9], "has fewer than two points, so no trend can be told."),
        ([], "has fewer than two points, so no trend can be told."),
    ],
)  # fmt: skip
def test_the_shape_of_a_series(values, words):
    assert trend(values) == f"On this machine fp32 {words}"


def test_times_become_rates_and_doubtful_points_are_left_out():
    found = trend(
        [took(1e-6), took(1.0, "another program"), took(4e-6)],
        value=lambda n, seconds: 2 * n**3 / seconds,
    )
    assert found == (
        "On this machine fp32 rises from 524 GFLOP/s at n = 64 to 8.39 TFLOP/s at n = 256. "
        "Unsure, and left out: n = 128."
    )


def test_without_a_value_the_numbers_are_taken_as_they_are():
    assert "from 1 ms at n = 64 to 2 ms at n = 128" in trend([took(1e-3), took(2e-3)], unit="s")


def test_where_nearly_all_is_doubtful_it_says_so():
    found = trend([took(1.0, "noise"), took(2.0, "noise"), took(3.0)], unit="s")
    assert found == (
        "On this machine fp32 rises from 1 s at n = 64 to 3 s at n = 256. "
        "Nearly every point is unsure, so take this with care."
    )


def test_it_is_one_line_that_nbval_leaves_out():
    found = trend([took(1e-3), took(2e-3, "x")])
    assert "\n" not in found and found.startswith("On this machine ")
    assert repr(found) == found and "<p>\nOn this machine" in found._repr_html_()


@pytest.mark.parametrize(
    ("points", "given", "message"),
    [
        ([1, 2], {}, "points must map"),
        ({1: 0.0}, {}, r"points\[1\] must be"),
        ({1: 1.0}, {"value": 3}, "value must be a function"),
        ({1: 1.0}, {"what": ""}, "what must be"),
        ({1: 1.0}, {"x": 3}, "x must be"),
    ],
)
def test_wrong_input_is_named(points, given, message):
    with pytest.raises((TypeError, ValueError), match=message):
        compare.trend(points, **{"what": "fp32", "x": "n", **given})
