"""Number formats against torch: every pattern of 8 and 16 bits, random ones of 32 and 64."""

import math
import struct
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from course_utils import formats

SMALL = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
UNSIGNED = {8: torch.uint8, 16: torch.int16, 32: torch.int32, 64: torch.int64}


def torch_values(name):
    """Every pattern of a small format as torch decodes it, in float64."""
    bits = formats.FORMATS[name].bits
    patterns = torch.arange(2**bits, dtype=torch.int32).to(UNSIGNED[bits])
    return patterns.view(getattr(torch, name)).to(torch.float64).tolist()


def same(a, b):
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b and math.copysign(1, a) == math.copysign(1, b)


@pytest.mark.parametrize("name", SMALL)
def test_every_pattern_decodes_as_torch_does(name):
    for pattern, expected in enumerate(torch_values(name)):
        assert same(formats.decode(pattern, name), expected), (pattern, expected)


@pytest.mark.parametrize("name", SMALL)
def test_every_pattern_encodes_back(name):
    for pattern in range(2 ** formats.FORMATS[name].bits):
        value = formats.decode(pattern, name)
        if not math.isnan(value):
            assert formats.encode(value, name) == pattern


def torch_encode(value, name):
    """The pattern torch makes of a float64."""
    bits = formats.FORMATS[name].bits
    made = torch.tensor(value, dtype=torch.float64).to(getattr(torch, name))
    return made.view(UNSIGNED[bits]).item() % 2**bits


@given(st.floats(allow_nan=False), st.sampled_from(["float32", "float64"]))
def test_wide_formats_encode_as_torch_does(value, name):
    assert formats.encode(value, name) == torch_encode(value, name)


@given(st.floats(allow_nan=False, width=32), st.sampled_from(["float16", "bfloat16"]))
def test_narrow_formats_encode_as_torch_does(value, name):
    """From a float32, so that torch rounds once."""
    made = torch.tensor(value, dtype=torch.float32).to(getattr(torch, name))
    assert formats.encode(value, name) == made.view(torch.int16).item() % 2**16


@given(st.floats(-448, 448, width=32))
def test_e4m3_encodes_as_torch_does_within_its_range(value):
    made = torch.tensor(value, dtype=torch.float32).to(torch.float8_e4m3fn)
    assert formats.encode(value, "float8_e4m3fn") == made.view(torch.uint8).item()


@given(st.floats(-57344, 57344, width=32))
def test_e5m2_encodes_as_torch_does_within_its_range(value):
    made = torch.tensor(value, dtype=torch.float32).to(torch.float8_e5m2)
    assert formats.encode(value, "float8_e5m2") == made.view(torch.uint8).item()


@given(st.integers(0, 2**64 - 1))
def test_64_bits_decode_as_the_machine_does(pattern):
    expected = struct.unpack("<d", struct.pack("<Q", pattern))[0]
    assert same(formats.decode(pattern, "float64"), expected)


@given(st.integers(0, 2**32 - 1))
def test_32_bits_decode_as_the_machine_does(pattern):
    expected = struct.unpack("<f", struct.pack("<I", pattern))[0]
    assert same(formats.decode(pattern, "float32"), expected)


@pytest.mark.parametrize("name", formats.FORMATS)
def test_ties_go_to_the_even_neighbour(name):
    form = formats.FORMATS[name]
    one = formats.encode(1.0, name)
    assert formats.encode(1 + form.epsilon / 2, name) == one
    assert formats.encode(1 + form.epsilon * 3 / 2, name) == one + 2
    assert formats.encode(form.smallest_subnormal / 2, name) == 0
    assert formats.encode(form.smallest_subnormal * 3 / 2, name) == 2


def test_the_worked_example():
    pattern = formats.encode("19303.0890", "float32")
    assert formats.fields(pattern, "float32") == ("0", "10001101", "00101101100111000101110")
    assert formats.decode(pattern, "float32") == 19303.08984375
    assert 0b10001101 - formats.FORMATS["float32"].bias == 14


@pytest.mark.parametrize(
    ("name", "largest", "normal", "subnormal", "epsilon"),
    [
        ("float16", 65504, 2**-14, 2**-24, 2**-10),
        ("float8_e4m3fn", 448, 2**-6, 2**-9, 2**-3),
        ("float8_e5m2", 57344, 2**-14, 2**-16, 2**-2),
        ("bfloat16", torch.finfo(torch.bfloat16).max, 2**-126, 2**-133, 2**-7),
    ],
)
def test_the_limits(name, largest, normal, subnormal, epsilon):
    form = formats.FORMATS[name]
    found = (form.largest, form.smallest_normal, form.smallest_subnormal, form.epsilon)
    assert found == (largest, normal, subnormal, epsilon)


@pytest.mark.parametrize("name", formats.FORMATS)
def test_the_limits_agree_with_finfo(name):
    info, form = torch.finfo(getattr(torch, name)), formats.FORMATS[name]
    assert (float(form.largest), float(form.epsilon)) == (info.max, info.eps)
    assert float(form.smallest_normal) == info.smallest_normal
    assert float(form.smallest_subnormal) == info.smallest_normal * info.eps


def test_overflow():
    assert formats.decode(formats.encode(1e5, "float16"), "float16") == math.inf
    assert math.isnan(formats.decode(formats.encode(465, "float8_e4m3fn"), "float8_e4m3fn"))
    assert formats.decode(formats.encode(464, "float8_e4m3fn"), "float8_e4m3fn") == 448  # rounds


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1e-400", 0.0), ("-1e-400", -0.0), ("1e400", math.inf), ("-1e400", -math.inf),
     ("nan", math.nan), ("inf", math.inf), ("-0", -0.0), ("1e999999999", math.inf),
     ("-1e-999999999", -0.0), ("0e999999999", 0.0), (" 1_000 ", 1000.0), ("5e-324", 5e-324)],
)  # fmt: skip
def test_texts_at_the_edges(text, expected):
    assert same(formats.decode(formats.encode(text, "float64"), "float64"), expected)


def test_a_text_is_rounded_once():
    tie = 1 + Fraction(1, 2**24)  # half a step of float32 above 1
    just_above = f"{float(tie):.20f}1"
    assert formats.decode(formats.encode(just_above, "float32"), "float32") == 1 + 2**-23


@pytest.mark.parametrize("name", formats.FORMATS)
def test_neighbours_and_spacing(name):
    for value in (1.0, -1.0, 1.5, 0.0, 2.0):
        pattern = formats.encode(value, name)
        below, above = formats.neighbours(pattern, name)
        assert below < value < above
        if value == 1.0:
            assert (
                above - value
                == formats.spacing(pattern, name)
                == float(formats.FORMATS[name].epsilon)
            )
    last = formats.encode(formats.FORMATS[name].largest, name)
    above = formats.neighbours(last, name)[1]
    assert above == math.inf if formats.FORMATS[name].infinite else math.isnan(above)


@pytest.mark.parametrize("bad", [True, None, [1], "abc", "", "1e", "1/0", b"1", "0x10"])
def test_what_is_no_number_is_refused(bad):
    with pytest.raises((TypeError, ValueError), match="value must"):
        formats.encode(bad, "float32")


@pytest.mark.parametrize("name", formats.FORMATS)
def test_numpy_s_numbers_encode_as_python_s(name):
    numbers = [np.int64(3), np.int8(-7), np.int64(2**62), np.float32(1.5), np.float64(-0.0),
               np.float32("inf"), np.float16(0.1)]  # fmt: skip
    for number in numbers:
        assert formats.encode(number, name) == formats.encode(number.item(), name)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: formats.encode(1, "float33"), "name must be one of 'float64'"),
        (lambda: formats.decode(256, "float8_e5m2"), "pattern must fit into 8 bits"),
        (lambda: formats.decode(-1, "float8_e5m2"), "pattern must be"),
        (lambda: formats.decode(1.5, "float16"), "pattern must be a whole number"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


@given(st.sampled_from(sorted(formats.FORMATS)), st.data())
def test_bits_spell_the_pattern(name, data):
    pattern = data.draw(st.integers(0, 2 ** formats.FORMATS[name].bits - 1))
    assert int("".join(formats.fields(pattern, name)), 2) == pattern
