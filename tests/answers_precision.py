"""Answers to the exercises of chapter 09: right ones, and wrong ones with a word of the reply."""

import random

import numpy as np
import torch

from course_utils import formats

# Programs that round to bf16 at random, each in a way of its own


def with_bits(x, source, chances=2**16, dtype=torch.int32):
    noise = torch.randint(0, chances, x.shape, generator=source, dtype=dtype)
    return ((x.view(torch.int32) + noise).int() & -65536).view(torch.float32).bfloat16()


def split(x):
    """The neighbours of x, the one towards zero first, and how far x is from that one."""
    low = (x.view(torch.int32) >> 16 << 16).view(torch.float32)
    high = (low.view(torch.int32) + 65536).view(torch.float32)
    return low, high, (x - low) / (high - low)


def with_values(x, source, chance=lambda far, u, x: u < far):
    low, high, far = split(x)
    return torch.where(chance(far, torch.rand(x.shape, generator=source), x), high, low).bfloat16()


def with_nextafter(x, source):
    near = x.bfloat16()
    way = torch.where(x > near.float(), torch.inf, -torch.inf).bfloat16()
    other = torch.nextafter(near, way)
    far = (x - near.float()) / (other.float() - near.float())
    return torch.where(torch.rand(x.shape, generator=source) < far.nan_to_num(), other, near)


def with_steps(x, source, narrowest=-126, shift=0):
    """x counted in steps; without the `narrowest` exponent subnormal numbers go wrong."""
    exponent = (torch.frexp(x).exponent - 1 + shift).clamp(min=narrowest)
    step = 2.0 ** (exponent - 7).double()
    u = torch.rand(x.shape, generator=source, dtype=torch.float64)
    return ((x.double() / step + u).floor() * step).bfloat16()


def one_by_one(x, source):
    bits = x.reshape(-1).view(torch.int32).tolist()
    noise = torch.randint(2**16, (len(bits),), generator=source).tolist()
    sums = [(b % 2**32 + n) >> 16 << 16 for b, n in zip(bits, noise, strict=True)]
    patterns = np.array(sums, dtype=np.uint32).view(np.float32)
    return torch.from_numpy(patterns).reshape(x.shape).to(torch.bfloat16)


def of_the_package(x, source):
    return formats.round_stochastic(x, torch.bfloat16, source)


# Programs that do not


def coin(x, source):
    return with_values(x, source, lambda far, u, x: u < 0.5)


def exchanged(x, source):
    return with_values(x, source, lambda far, u, x: u > far)


def by_magnitude(x, source):
    """As if up were away from zero for negative numbers, too."""
    return with_values(x, source, lambda far, u, x: torch.where(x > 0, u < far, u > far))


def negative_cut(x, source):
    return with_values(x, source, lambda far, u, x: (x > 0) & (u < far))


def one_coin(x, source, shape=()):
    low, high, far = split(x)
    many = [n if kept else 1 for n, kept in zip(x.shape, shape, strict=False)] if shape else ()
    return torch.where(torch.rand(many, generator=source) < far, high, low).bfloat16()


def coin_of_a_row(x, source):
    return one_coin(x, source, (True,) + (False,) * (x.ndim - 1)) if x.ndim else coin(x, source)


def coin_of_a_column(x, source):
    return one_coin(x, source, (False,) * (x.ndim - 1) + (True,)) if x.ndim else coin(x, source)


def with_noise(x, source, relative=0.0, fixed=0.0):
    noise = torch.rand(x.shape, generator=source) - 0.5
    return (x + noise * (fixed + relative * x)).bfloat16()


def widest_step(x, source):
    """With the spacing above the next power of two: chances are half of what they should be."""
    far = (x - split(x)[0]).abs() / 2.0 ** (torch.log2(x.abs()).ceil() - 7)
    return torch.where(torch.rand(x.shape, generator=source) < far, *split(x)[1::-1]).bfloat16()


def spacing_above_1(x, source):
    """Right but for numbers just below 1, for which it takes the spacing above."""
    below_1 = (x.abs() < 1) & (x.abs() > 1 - 2**-8)
    return with_values(x, source, lambda far, u, x: u < torch.where(below_1, far / 2, far))


def globally(x, source):
    return with_values(x, None)


def numpy_s(x, source):
    noise = torch.from_numpy(np.asarray(np.random.rand(*x.shape))).float()
    return torch.where(noise < split(x)[2], *split(x)[1::-1]).bfloat16()


def python_s(x, source):
    return with_bits(x, torch.Generator().manual_seed(random.getrandbits(32)))


def seeds_anew(x, source):
    return with_bits(x, source.manual_seed(0))


def own_source(x, source):
    fresh = torch.Generator()
    fresh.seed()
    return with_bits(x, fresh)


def stands_still(x, source):
    return with_bits(x, torch.Generator().manual_seed(source.initial_seed()))


def in_place(x, source):
    rounded = with_bits(x, source)
    x.copy_(rounded.float())
    return rounded


RIGHT_ROUNDING = [with_bits, with_values, with_nextafter, with_steps, one_by_one, of_the_package,
                  lambda x, source: with_bits(x, source, dtype=torch.int64)]  # fmt: skip
WRONG_ROUNDING = [
    (lambda x, source: x.bfloat16(), "rounds to nearest, as a cast does"),
    (lambda x, source: (coin(x, source), x.bfloat16())[1], "draws, and still rounds to near"),
    (lambda x, source: split(x)[0].bfloat16(), "always goes towards zero"),
    (lambda x, source: split(x)[1].bfloat16(), "always goes away from zero"),
    (lambda x, source: torch.where(x > 0, *split(x)[:2]).bfloat16(), "always goes down"),
    (lambda x, source: torch.where(x < 0, *split(x)[:2]).bfloat16(), "always goes up"),
    (lambda x, source: torch.ones_like(x).bfloat16(), "another state of source"),
    (coin, "a coin of 1/2"),
    (one_coin, "one coin decides for the whole tensor"),
    (coin_of_a_row, "all numbers of a row"),
    (coin_of_a_column, "all numbers of a column"),
    (exchanged, "the two chances are exchanged"),
    (by_magnitude, "for a negative number"),
    (negative_cut, "for a negative number"),
    (lambda x, source: with_noise(x, source, relative=2**-23), "draws, and still rounds to near"),
    (lambda x, source: with_noise(x, source, relative=2**-10), "draws, and still rounds to near"),
    (lambda x, source: with_noise(x, source, fixed=2**-7), "noise of a fixed size"),
    (lambda x, source: with_noise(x, source, relative=2**-5), "the noise is larger"),
    (widest_step, "so that the mean is not x"),
    (spacing_above_1, "just below 1"),
    (lambda x, source: with_steps(x, source, narrowest=-999), "2⁻¹³³ apart"),
    (lambda x, source: with_steps(x, source, shift=1), "neither of its neighbours"),
    (lambda x, source: with_bits(x, source, 2**16 + 2000), "which must stay"),
    (lambda x, source: with_bits(x, source).float(), "torch.bfloat16, got torch.float32"),
    (lambda x, source: with_bits(x, source).half(), "torch.bfloat16, got torch.float16"),
    (lambda x, source: with_bits(x, source).reshape(-1), "x's shape"),
    (globally, "a global generator"),
    (numpy_s, "a global generator"),
    (python_s, "a global generator"),
    (seeds_anew, "another state of source"),
    (own_source, "two results"),
    (stands_still, "calls in a row"),
    (in_place, "changed x"),
    (lambda x, source: None, "a tensor is expected"),
    (lambda x: x, "TypeError"),
    (lambda x, source: with_bits(x, source) * torch.nan, "became NaN"),
]

CASES = {
    "09.1": (
        [14],
        [(18, "in bf16 here"), (12, "is missing"), (10, "master copy"), (16, "read this one again"),
         (20, "second copy"), (8, "pure bf16"), (5, "how many bytes"), (112, "bits"),
         (22, "too large"), (13, "too small"), (100, "too large")],
    ),
    "09.2": (
        [*(2**power for power in range(5, 17)), 65536.0],
        [(16, "keeps no digit"), (16, "an exponent"), (8, "becomes 0"), (12, "an exponent"),
         (2, "becomes 0"), (131072, "too large"), (2**24, "too large"), (1000, "no power of two"),
         (-64, "above 0"), (0, "above 0"), (65504, "no power of two")],
    ),
    "09.3": (
        [{"softmax", "sum of a million numbers", "cross-entropy", "optimizer update"},
         ["Softmax ", "sum of a million numbers", "cross-entropy", "optimizer update"]],
        [({"softmax"}, "1 of 4"), ({"matmul", "softmax"}, "matmul may run"),
         ({"convolution"}, "as a matmul is"), ({"relu"}, "changes no number"),
         ({"reshape"}, "computes nothing"), ({"dropout"}, "not in the list"), ({3}, "not in"),
         (set(), "0 of 4"), ("softmax", "a set")],
    ),
    "09.4": (
        [2**-9, 0.5 * 2**-8, torch.tensor(2.0**-9)],
        [(2**-8, "a whole step"), (0.0039, "a whole step"), (2**-7, "above 1"),
         (2**-10, "going down"), (0.001, "a larger one"), (2**-11, "fp16"), (2**-12, "fp16"),
         (0.002, "the power of two exactly"), (0.00195, "the power of two exactly"),
         (0.0019531, "the power of two exactly"), (-9, "an exponent"), (9, "an exponent"),
         (512, "upside down"), (-(2**-9), "above 0"), (1.0, "too large"), (2**-20, "too small")],
    ),
    "09.5": (
        [299, 299.0, np.int64(299)],
        [(298, "this is the lower"), (298, "4,121,936 bytes"), (298.8, "rows come whole"),
         (300, "one row less"), (341, "first layer"), (342, "first layer"), (1, "copies"),
         (597, "2 bytes per number, not 4"), (598, "2 bytes per number, not 4"),
         (149, "keeps the inputs"), (150, "keeps the inputs"), (336, "one input"),
         (337, "one input"), (384, "too few inputs"), (385, "too few inputs"),
         (2689, "not one of them"), (308, "the chapter's own"), (200, "nothing is saved yet"),
         (5000, "one row less"), (65_537, "a whole number of rows"), (0, "a whole number of rows"),
         (12.5, "a whole number of rows"), (-3, "a whole number of rows")],
    ),
    "09.6": (RIGHT_ROUNDING, WRONG_ROUNDING),
    "09.7": (
        [133_144, 133_144.0],
        [(133_145, "already too large"), (133_143, "would still fit"), (133_144.2, "whole number"),
         (131_072, "not at 128"), (131_071, "not at 128"), (266_288, "has a sign"),
         (16_909_320, "one number times another"), (2**31 - 1, "how large is one term"),
         (2**31, "how large is one term"), (33_025, "not its range"), (33_286, "not its range"),
         (2, "int16"), (1040, "fp32"), (16_129, "how many of them"), (66_572, "half of it"),
         (133_000, "too small"), (1e6, "too large")],
    ),
}  # fmt: skip
