"""Numbers as text: the right prefix, the right digits, and errors that name what came."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_utils import units


@pytest.mark.parametrize(
    ("value", "text"),
    [(143.9282, "143.9"), (0.79961, "0.7996"), (1638, "1638"), (6.3e24, "6.3e24"), (0, "0"),
     (999999, "1e6"), (99999, "100000"), (1e-5, "1e-5"), (-2.5, "-2.5")],
)  # fmt: skip
def test_digits(value, text):
    assert units.digits(value) == text


@pytest.mark.parametrize(
    ("value", "decimal", "binary"),
    [
        (2_415_919_104, "2.416 GB", "2.25 GiB"),
        (80e9, "80 GB", "74.51 GiB"),
        (4096, "4096 B", "4 KiB"),
        (999_999_999, "1 GB", "953.7 MiB"),
        (0, "0 B", "0 B"),
        (1.5e22, "1.5e22 B", "1.5e22 B"),
    ],
)
def test_size_in_both_systems(value, decimal, binary):
    assert units.size(value) == decimal
    assert units.size(value, binary=True) == binary


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.2e-3, "1.2 ms"), (1e-9, "1 ns"), (59, "59 s"), (119, "119 s"), (120, "2 minutes"),
     (143.93 * 86400, "143.9 days"), (86400, "24 hours"), (3.16e9, "100.1 years"), (0, "0 s"),
     (2.5e-10, "0.25 ns"), (0.99999, "1 s"), (119.99, "2 minutes")],
)  # fmt: skip
def test_duration(seconds, text):
    assert units.duration(seconds) == text


def test_powers_of_two():
    words = [units.power_of_two(exponent) for exponent in (0, 10, -134, 9.0, -29.338, 0.5)]
    assert words == ["2⁰", "2¹⁰", "2⁻¹³⁴", "2⁹", "2^-29.34", "2^0.50"]
    with pytest.raises(TypeError, match="exponent must be"):
        units.power_of_two("3")


def test_rates_counts_and_words():
    assert units.rate(989.5e12) == "989.5 TFLOP/s"
    assert units.rate(None) == "unknown"
    assert units.rate(3350e9, unit="B/s") == "3.35 TB/s"
    assert units.flops(7_516_192_768) == "7.516 GFLOPs"
    assert units.amount(70e9) == "70 billion"
    assert units.amount(1638) == "1638"
    assert units.ratio(1.3604) == "1.36 ×"
    assert units.quantity(143.93, "days") == "143.9 days"
    assert units.quantity(366_432, "parameters") == "366,432 parameters"
    assert units.quantity(70_553_706_496, "parameters") == "70.55 billion parameters"
    assert units.quantity(0.8796, "") == "0.8796"


def test_measured_mark():
    assert units.measured("1.2 ms") == "≈ 1.2 ms"
    assert units.measured(None) == "≈ not reached"


@given(st.floats(1e-3, 1e14))
def test_size_reads_back_to_the_value(value):
    number, unit = units.size(value).split()
    powers = {"B": 0, "kB": 1, "MB": 2, "GB": 3, "TB": 4, "PB": 5}
    assert math.isclose(float(number) * 1000 ** powers[unit], value, rel_tol=6e-4)


@given(st.floats(1e-8, 1e12))
def test_duration_reads_back_to_the_value(seconds):
    number, unit = units.duration(seconds).split()
    factor = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1, "minutes": 60, "hours": 3600,
              "days": 86400, "years": 365.25 * 86400}[unit]  # fmt: skip
    assert math.isclose(float(number) * factor, seconds, rel_tol=6e-4)


@given(st.floats(allow_nan=False, allow_infinity=False, width=32), st.integers(1, 8))
def test_digits_keep_the_significant_ones(value, significant):
    error = 0.51 * 10.0 ** (1 - significant)
    assert math.isclose(float(units.digits(value, significant)), value, rel_tol=error, abs_tol=0)


FUNCTIONS = [units.size, units.duration, units.flops, units.rate, units.amount, units.ratio]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("bad", [-1, float("nan"), float("inf"), "3", True, [1]])
def test_bad_values_are_named(function, bad):
    with pytest.raises((TypeError, ValueError), match=r"must be a finite number.*got"):
        function(bad)


def test_rounding_never_shows_a_thousand_of_the_smaller_unit():
    assert units.amount(999_999_999.9) == "1 billion"
    assert units.size(999_999) == "1 MB"
    assert units.rate(999.99e9) == "1 TFLOP/s"


@pytest.mark.parametrize("bad", ["x", -1, 2.5, 0])
def test_bad_digits(bad):
    for function in FUNCTIONS:
        with pytest.raises((TypeError, ValueError), match="significant must be"):
            function(3, significant=bad)


def test_bad_units():
    with pytest.raises(TypeError, match="unit must be a text"):
        units.quantity(3, None)


def test_a_result_s_doubt_stands_beside_its_number():
    class Found:
        value, doubt = 2048.0, "noise"

    for form in (units.digits, units.size, units.flops, units.rate, units.duration, units.amount):
        assert form(Found) == f"{form(2048.0)} (unsure: noise)"
    assert units.ratio(Found, significant=2) == "2000 × (unsure: noise)"
    assert units.quantity(Found, "B") == "2048 B (unsure: noise)"
    Found.doubt = ""
    assert units.size(Found) == "2048 B"
