"""The sentence after a measurement: each bound, and what lies outside all of them."""

import pytest

from course_utils import compare, measure
from course_utils.reasons import reason

PEAK = measure.Peak(1e12, "measured", "here", "fp32")
MEMORY = measure.Bandwidth(1e10, "measured", "here")
START = measure.Time((1e-6,) * 5, 1, "cpu", True, "")
LIMITS = measure.Limits(PEAK, MEMORY, START)


@pytest.mark.parametrize(
    ("seconds", "flops", "nbytes", "words"),
    [
        (1.1, 1e12, 1e9, "bound by arithmetic"),
        (1.1, 1e11, 1e10, "bound by memory"),
        (1.2e-6, 10, 10, "bound by overhead"),
        (0.5, 1e11, 1e10, "a cache holds its data"),
        (0.5, 1e12, 1e9, "the peak was taken too low"),
        (1.8, 1e12, 1e10, "arithmetic and memory one after the other"),
        (9.0, 1e12, 1e9, "9 × the tightest bound, arithmetic"),
    ],
)
def test_the_bound_that_explains_it(seconds, flops, nbytes, words):
    assert words in reason(seconds, flops=flops, nbytes=nbytes, limits=LIMITS)


def test_a_time_is_taken_by_its_value():
    took = measure.Time((1.0, 1.1), 1, "cpu", True, "")
    assert "arithmetic" in reason(took, flops=1e12, nbytes=1, limits=LIMITS)


def test_compare_lets_the_bounds_speak():
    bounds = {"flops": 1e11, "nbytes": 1e10, "limits": LIMITS}
    given = {"id": "x", "what": "x", "unit": "s", "predicted": 1.0, "bounds": bounds}
    for measured in (1.0, 1.4):
        assert "bound by memory" in compare(measured=measured, **given).explanation()
    assert "bound" not in compare(measured=None, **given).explanation()


@pytest.mark.parametrize("bad", [0, -1, float("nan"), "1"])
def test_bad_seconds(bad):
    with pytest.raises((TypeError, ValueError), match="seconds must be"):
        reason(bad, flops=1, nbytes=1, limits=LIMITS)


def test_the_ridge():
    assert LIMITS.ridge == 100


def test_limits_of_this_machine():
    found = measure.limits(budget=0.5)
    assert found.ridge == found.peak.value / found.bandwidth.value
    assert 1e-8 < found.overhead.value < 1e-2
    assert 1e8 < found.bandwidth.value < 1e14
    rows = found.as_table().rows
    assert [row[0] for row in rows] == ["peak", "bandwidth", "starting an operation", "ridge"]
    assert all(row[1].startswith("≈ ") for row in rows)
