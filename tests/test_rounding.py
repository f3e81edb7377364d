"""Rounding at random, to TF32, and with a scale foretold: against exact fractions and patterns."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_utils import formats
from course_utils.formats.bits import Format

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
NAMES = {torch.bfloat16: "bfloat16", torch.float16: "float16"}
TF32 = Format("tf32", 8, 10)
TRIES = 20_000
# By Hoeffding's inequality, a share of TRIES is farther off than this once in 10⁸ times.
BOUND = math.sqrt(math.log(2e8) / (2 * TRIES))
quick = settings(max_examples=60)
any_float = st.floats(width=32, allow_nan=False, allow_infinity=False)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def around(value, dtype):
    """The numbers of the format just below and above, as fractions; twice itself if it is one."""
    name = NAMES[dtype]
    near = Fraction(formats.decode(formats.encode(Fraction(value), name), name))
    below, above = formats.neighbours(formats.encode(near, name), name)
    if near == value:
        return near, near
    return (near, Fraction(above)) if near < value else (Fraction(below), near)


def random_numbers(dtype):
    """Numbers from the format's subnormal ones to near its largest, of both signs."""
    low, high = (-132, 120) if dtype is torch.bfloat16 else (-24, 14)
    exponents = torch.randint(low, high, (40,), generator=seeded(1))
    numbers = torch.ldexp(torch.rand(40, generator=seeded(2)) + 1, exponents)
    return numbers * (1 - 2 * torch.randint(2, (40,), generator=seeded(3)))


@pytest.mark.parametrize("dtype", NAMES)
def test_rounding_at_random_keeps_the_mean_and_gives_neighbours_alone(dtype):
    numbers = random_numbers(dtype)
    came = formats.round_stochastic(numbers.expand(TRIES, -1), dtype, seeded(4))
    assert came.dtype == dtype and came.shape == (TRIES, 40)
    for value, column in zip(numbers.tolist(), came.double().T, strict=True):
        below, above = around(value, dtype)
        assert {*column.tolist()} == {float(below), float(above)}
        share = (column == float(above)).double().mean().item()
        assert abs(share - (Fraction(value) - below) / (above - below)) < BOUND


@pytest.mark.parametrize("dtype", NAMES)
def test_what_the_format_holds_stays(dtype):
    every = torch.arange(2**16).to(torch.int16).view(dtype)
    came = formats.round_stochastic(every.float(), dtype, seeded())
    numbers = ~every.isnan()
    assert torch.equal(came[numbers], every[numbers]) and came[~numbers].isnan().all()


def test_just_below_a_power_of_two_the_step_is_half_as_wide():
    came = formats.round_stochastic(torch.full((999,), 1 - 2.0**-10), torch.bfloat16, seeded())
    assert {*came.tolist()} == {1 - 2.0**-8, 1.0}


def test_beyond_the_largest_number_it_is_infinite():
    fp16 = formats.round_stochastic(torch.full((999,), 65_512.0), torch.float16, seeded())
    assert {*fp16.tolist()} == {65_504.0, math.inf}
    huge = torch.tensor([3.4e38, -3.4e38, 1e30])
    assert formats.round_stochastic(huge[2:], torch.float16, seeded()).tolist() == [math.inf]
    came = formats.round_stochastic(huge[:2].expand(999, 2), torch.bfloat16, seeded())
    largest = torch.finfo(torch.bfloat16).max
    assert {*came.abs().flatten().tolist()} == {largest, math.inf}


def test_the_source_alone_decides_and_moves_on():
    x = torch.linspace(-3, 3, 50).reshape(5, 10).T
    before = torch.get_rng_state(), x.clone()
    source = seeded(7)
    first, second = (formats.round_stochastic(x, torch.bfloat16, source) for _ in range(2))
    assert torch.equal(first, formats.round_stochastic(x, torch.bfloat16, seeded(7)))
    assert not torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), before[0]) and torch.equal(x, before[1])


def test_small_updates_are_not_lost():
    """A thousand updates of 0.001 to 1 in bf16: to nearest they are all lost."""
    p, source = torch.ones(1000, dtype=torch.bfloat16), seeded()
    for _ in range(1000):
        p = formats.round_stochastic(p.float() + 0.001, torch.bfloat16, source)
    assert p.float().mean().item() == pytest.approx(2, abs=0.02) and p.unique().numel() > 5


def test_float64_and_scalars_and_nothing_are_rounded_too():
    for x in (torch.tensor(1.2, dtype=torch.float64), torch.empty(0, 3)):
        came = formats.round_stochastic(x, torch.bfloat16, seeded())
        assert came.shape == x.shape and came.dtype == torch.bfloat16
    leaf = torch.ones(2, requires_grad=True)
    assert not formats.round_stochastic(leaf, torch.bfloat16, seeded()).requires_grad
    assert not formats.round_tf32(leaf).requires_grad


@pytest.mark.parametrize(
    ("given", "words"),
    [((torch.ones(2), torch.float32, seeded()), "dtype must be one of torch.bfloat16, torch.fl"),
     ((torch.ones(2), E4M3, seeded()), "dtype must be one of"),
     ((torch.ones(2), torch.bfloat16, 3), "source must be a torch.Generator, got 3"),
     (([1.0], torch.bfloat16, seeded()), "x must be a tensor of floats"),
     ((torch.ones(2).long(), torch.bfloat16, seeded()), "x must be a tensor of floats")],
)  # fmt: skip
def test_what_cannot_be_rounded_at_random(given, words):
    with pytest.raises((TypeError, ValueError), match=words):
        formats.round_stochastic(*given)


# TF32


def pattern(value):
    """The bits of a float32 as a whole number."""
    return torch.tensor(value).view(torch.int32).item() & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("bits", "expected"),
    [
        (0x3F800000, 0x3F800000),  # 1 stays
        (0x3F800FFF, 0x3F800000),  # less than half a step above 1
        (0x3F801000, 0x3F800000),  # half a step: 1 is even
        (0x3F801001, 0x3F802000),
        (0x3F803000, 0x3F804000),  # half a step above an odd number
        (0x3F802FFF, 0x3F802000),
        (0xBF801001, 0xBF802000),  # negative
        (0x3FFFF000, 0x40000000),  # up to the next power of two
        (0x00000FFF, 0x00000000),  # subnormal
        (0x00001001, 0x00002000),
        (0x007FF000, 0x00800000),  # up to the smallest normal number
        (0x80000001, 0x80000000),  # −0
        (0x7F7FEFFF, 0x7F7FE000),  # the largest
        (0x7F7FF000, 0x7F800000),  # beyond it
        (0x7F800000, 0x7F800000),  # infinite
        (0xFF800000, 0xFF800000),
    ],
)
def test_tf32_bit_by_bit(bits, expected):
    signed = bits - (1 << 32) if bits >> 31 else bits
    x = torch.tensor(signed, dtype=torch.int32).view(torch.float32)
    assert pattern(formats.round_tf32(x).item()) == expected


@quick
@given(any_float)
def test_tf32_is_the_nearest_number_of_ten_bits(value):
    came = formats.round_tf32(torch.tensor(value)).item()
    if abs(value) > float(TF32.largest):
        assert abs(came) in (float(TF32.largest), math.inf)
        return
    exponent = max(math.frexp(value)[1] - 1, TF32.smallest_exponent)
    step = Fraction(2) ** (exponent - TF32.mantissa_bits)
    assert Fraction(came) == round(Fraction(value) / step) * step
    assert math.copysign(1, came) == math.copysign(1, value)


def test_tf32_keeps_nan_shape_and_x():
    x = torch.tensor([[math.nan, 1.0003], [-math.nan, 2.0]]).T
    before = x.clone()
    came = formats.round_tf32(x)
    assert came.shape == x.shape and came.dtype == torch.float32
    assert came.isnan().equal(x.isnan()) and torch.equal(came[1], torch.tensor([1.0, 2.0]))
    assert torch.equal(x.nan_to_num(), before.nan_to_num())
    assert formats.round_tf32(torch.tensor(1 / 3, dtype=torch.float64)).dtype == torch.float32
    with pytest.raises(TypeError, match="x must be a tensor of floats"):
        formats.round_tf32(3.0)


def test_tf32_in_a_matmul_errs_like_fp16_and_keeps_the_range_of_fp32():
    a, b = (torch.randn(64, 64, generator=seeded(s)) for s in (1, 2))
    exact = a.double() @ b.double()
    tf32 = formats.round_tf32(a).double() @ formats.round_tf32(b).double()
    fp16 = a.half().double() @ b.half().double()
    errors = [((came - exact).norm() / exact.norm()).item() for came in (tf32, fp16)]
    assert errors[0] == pytest.approx(errors[1], rel=0.01) and 1e-4 < errors[0] < 5e-4
    assert formats.round_tf32(torch.tensor(1e30)).isfinite()
