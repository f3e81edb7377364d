"""Block formats against a search through every element and scale, in exact arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_utils import formats
from course_utils.formats.blocks import KINDS, bytes_per_element, round_blocks

E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]  # at an even place the last bit is 0
E4M3 = [formats.decode(pattern, "float8_e4m3fn") for pattern in range(0x7F)]
MX = {"MXFP8": (E4M3, 8), "MXFP4": (E2M1, 2)}
SIZES = {"MXFP8": 32, "MXFP4": 32, "NVFP4": 16}
kinds, quick = st.sampled_from(sorted(SIZES)), settings(max_examples=60)


def nearest(value, magnitudes):
    """The nearest of `magnitudes` with the sign of `value`; a tie goes to the even place."""
    gaps = [(abs(Fraction(m) - abs(value)), place % 2, m) for place, m in enumerate(magnitudes)]
    return math.copysign(1, value) * min(gaps)[2]


def by_search(block, kind):
    """A block of floats as MX holds it: the scale by search, the elements by search."""
    magnitudes, top = MX[kind]
    largest = max(abs(value) for value in block)
    powers = [e for e in range(-149, 128) if Fraction(2) ** e <= Fraction(largest)]
    scale = Fraction(2) ** max(max(powers, default=-149) - top, -127)
    return [float(Fraction(nearest(Fraction(v) / scale, magnitudes)) * scale) for v in block]


def nv_by_search(values):
    """NVFP4 of all values: scales in fp32 as NVIDIA gives them, roundings by search."""
    blocks = np.float32(values).reshape(-1, 16)
    of_tensor = np.abs(blocks).max() / np.float32(448 * 6)
    result = []
    for block in blocks if of_tensor else []:
        relative = np.abs(block).max() / np.float32(6) / of_tensor
        scale = np.float32(nearest(Fraction(float(relative)), E4M3)) * of_tensor
        scaled = block / scale if scale else np.zeros(16, np.float32)
        elements = [nearest(Fraction(float(v)), E2M1) for v in scaled]
        result += (np.float32(elements) * scale).tolist()
    return result or [0.0] * len(values)


def rounded(values, kind):
    return round_blocks(torch.tensor(values, dtype=torch.float32), kind).tolist()


def numbers(size, **bounds):
    one = st.floats(width=32, allow_nan=False, allow_infinity=False, **bounds)
    return st.lists(one, min_size=size, max_size=size)


@quick
@given(st.sampled_from(["MXFP8", "MXFP4"]), numbers(32))
def test_mx_blocks_of_any_floats(kind, block):
    assert rounded(block, kind) == by_search(block, kind)


@quick
@given(st.sampled_from(["MXFP8", "MXFP4"]), numbers(32, min_value=-2.0, max_value=2.0))
def test_mx_blocks_of_like_numbers(kind, block):
    assert rounded(block, kind) == by_search(block, kind)


@quick
@given(numbers(48, min_value=-8.0, max_value=8.0))
def test_nvfp4(values):
    assert rounded(values, "NVFP4") == nv_by_search(values)


@quick
@given(numbers(32, min_value=-(2.0**100), max_value=2.0**100))
def test_nvfp4_of_any_floats(values):
    assert rounded(values, "NVFP4") == nv_by_search(values)


@pytest.mark.parametrize("kind", MX)
@pytest.mark.parametrize("exponent", [-110, -3, 0, 5, 100])
def test_what_an_mx_block_can_hold_stays(kind, exponent):
    """Every element in turn, in blocks whose largest sets the scale to 2**exponent."""
    magnitudes, _ = MX[kind]
    signed = [sign * m * 2.0**exponent for m in magnitudes for sign in (1, -1)]
    for begin in range(0, len(signed), 31):
        block = [magnitudes[-1] * 2.0**exponent, *signed[begin : begin + 31]]
        block += [0.0] * (32 - len(block))
        assert rounded(block, kind) == block


@pytest.mark.parametrize("of_tensor", [0.25, 1.0, 2.0**30])
def test_what_an_nvfp4_block_can_hold_stays(of_tensor):
    """Blocks at every E4M3 scale, beside one that makes the tensor's scale what it is."""
    top = [448 * 6 * of_tensor] + [0.0] * 15
    for scale in E4M3[1:]:
        values = [sign * m * scale * of_tensor for m in E2M1 for sign in (1, -1)]
        assert rounded(top + values, "NVFP4") == top + values


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.25, 0.0), (0.75, 1.0), (1.25, 1.0), (1.75, 2.0), (2.5, 2.0), (3.5, 4.0), (5.0, 4.0)],
)
@pytest.mark.parametrize("kind", ["MXFP4", "NVFP4"])
def test_ties_go_to_the_even_element(kind, value, expected):
    top = [448 * 6.0] + [0.0] * 15 if kind == "NVFP4" else []  # the tensor's scale is 1
    block = [6.0, value, -value] + [0.0] * (SIZES[kind] - 3)
    assert rounded(top + block, kind)[len(top) :][:3] == [6.0, expected, -expected]


@pytest.mark.parametrize(("kind", "largest", "cut"), [("MXFP8", 511.0, 448), ("MXFP4", 7.9, 6)])
def test_mx_cuts_what_lies_above_the_largest_element(kind, largest, cut):
    assert rounded([largest, -largest] + [1.0] * 30, kind) == [cut, -cut] + [1.0] * 30


def test_a_block_far_below_the_tensors_largest_is_lost_in_nvfp4_alone():
    values = [1e6] * 32 + [1e-3] * 32
    assert rounded(values, "NVFP4")[32:] == [0.0] * 32
    assert all(rounded(values, kind)[32:][0] == pytest.approx(1e-3, rel=0.1) for kind in MX)


@pytest.mark.parametrize("size", [50_000.0, 2.0**60, 2.0**-60])
def test_without_the_tensors_scale_nvfp4_could_not_hold_these(size):
    """A block's scale, its largest |x| / 6, lies beyond E4M3's 448 or below all of its numbers."""
    values = [size * element / 6 for element in E2M1 for _ in (1, 2)]
    assert size / 6 > 448 or size / 6 < E4M3[1] / 2
    came = rounded(values + [size / 100] * 16, "NVFP4")
    assert came == pytest.approx(values + [size / 100] * 16, rel=2**-4)
    alone = nearest(Fraction(size / 6), E4M3)  # what E4M3 makes of the scale without the tensor's
    assert not 0.5 < 6 * alone / size < 1.5


def test_the_scale_of_a_tensor_is_its_largest_number_over_448_times_6():
    of_tensor = 3.0
    values = torch.zeros(2, 16)
    values[0, 0], values[1, :2] = 448 * 6 * of_tensor, torch.tensor([6.0, 1.0]) * of_tensor
    assert torch.equal(round_blocks(values, "NVFP4"), values)


def test_blocks_lie_along_the_last_dimension_and_do_not_mix():
    torch.manual_seed(0)
    x = torch.randn(3, 2, 64) * torch.tensor([1.0, 100.0]).repeat_interleave(32)
    for kind in MX:
        apart = [round_blocks(part, kind) for part in x.split(32, dim=-1)]
        assert torch.equal(round_blocks(x, kind), torch.cat(apart, dim=-1))
        flipped = round_blocks(x.transpose(0, 1), kind)  # not contiguous
        assert torch.equal(flipped, round_blocks(x, kind).transpose(0, 1))


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("tiny", [0.0, 2.0**-149, 2.0**-140, 1e-41, 3e-40, 2.0**-120])
def test_zeros_and_the_smallest_numbers(kind, tiny):
    """The smallest E8M0 scale is 2**-127: below it elements lose their bits, then vanish."""
    once = rounded([tiny, -tiny] * 16, kind)
    tiny = torch.tensor(tiny).item()  # as fp32 holds it
    assert kind == "NVFP4" or once == by_search([tiny, -tiny] * 16, kind)
    assert all(math.isfinite(value) and abs(value) <= 2 * tiny for value in once)
    assert rounded([0.0] * 32, kind) == [0.0] * 32


@quick
@given(kinds, numbers(32, min_value=-100.0, max_value=100.0))
def test_the_error_is_at_most_a_step_of_the_element(kind, block):
    """Relative to the block's largest: half a step, or all that saturation may cut."""
    largest = max(map(abs, block))
    allowed = {"MXFP8": 64 / 512, "MXFP4": 2 / 8, "NVFP4": 1 / 6 + 1 / 16}[kind]
    for value, came in zip(block, rounded(block, kind), strict=True):
        assert abs(value - came) <= allowed * largest * 1.001 + 1e-37


def test_finer_formats_have_smaller_errors():
    torch.manual_seed(0)
    x = torch.randn(64, 64)
    mxfp8, nvfp4, mxfp4 = ((round_blocks(x, k) - x).norm() for k in ("MXFP8", "NVFP4", "MXFP4"))
    assert 3 * mxfp8 < nvfp4 < mxfp4


def test_other_floats_come_back_in_fp32():
    values = torch.linspace(-3, 3, 32)
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        came = round_blocks(values.to(dtype), "MXFP8")
        assert came.dtype == torch.float32
        assert torch.equal(came, round_blocks(values.to(dtype).float(), "MXFP8"))
    leaf = values.clone().requires_grad_()
    assert not round_blocks(leaf, "MXFP4").requires_grad and torch.equal(leaf, values)


def test_bytes_of_an_element():
    bits = {kind: 8 * bytes_per_element(kind) for kind in KINDS}
    assert bits == {"MXFP8": 8.25, "MXFP4": 4.25, "NVFP4": 4.5}
    assert {kind: blocks.size for kind, blocks in KINDS.items()} == SIZES


@pytest.mark.parametrize(
    ("x", "kind", "words"),
    [
        (torch.ones(32), "MXFP6", "kind must be one of 'MXFP8', 'MXFP4', 'NVFP4', got 'MXFP6'"),
        (torch.ones(31), "MXFP4", r"MXFP4 needs a last .* multiple of 32, got the shape \(31,\)"),
        (torch.ones(32, 16), "MXFP8", r"multiple of 32, got the shape \(32, 16\)"),
        (torch.ones(3, 8), "NVFP4", r"NVFP4 needs .* multiple of 16, got the shape \(3, 8\)"),
        (torch.tensor(1.0), "NVFP4", r"got the shape \(\)"),
        (torch.ones(0, 32), "MXFP4", r"got the shape \(0, 32\)"),
        (torch.ones(2, 0), "NVFP4", r"got the shape \(2, 0\)"),
        (torch.ones(32, dtype=torch.int32), "MXFP4", "x must be a tensor of floats"),
        (torch.ones(32, dtype=torch.bool), "MXFP4", "x must be a tensor of floats"),
        ([1.0] * 32, "MXFP4", r"x must be a tensor of floats, got .*\(list\)"),
        (None, "MXFP4", "x must be a tensor of floats"),
        (torch.full((32,), math.nan), "NVFP4", "NVFP4 needs finite numbers"),
        (torch.full((32,), -math.inf), "MXFP8", "MXFP8 needs finite numbers"),
        (torch.full((32,), 1e300, dtype=torch.float64), "MXFP8", "one beyond fp32"),
    ],
)
def test_what_cannot_be_rounded(x, kind, words):
    with pytest.raises((TypeError, ValueError), match=words):
        round_blocks(x, kind)


@pytest.mark.parametrize("kind", ["mxfp4", "", None, 4])
def test_bytes_of_no_kind(kind):
    with pytest.raises(ValueError, match="kind must be one of"):
        bytes_per_element(kind)
