"""Checks of chapter 02's second half: what a cast costs, how it rounds, what an addition loses."""

import math
import random
import struct
from collections.abc import Callable, Iterator

import torch

from course_utils.arguments import shown
from course_utils.check.exercise import Wrong, exercise, function, number
from course_utils.check.timed import copy_takes


@exercise(
    "02.6",
    "A cast from fp32 to bf16 reads 4 bytes per number and writes 2.",
    "n = seconds × rate / 6. The rate depends on the size: time your first n, and correct it.",
    measured=True,
)
def ex02_6(answer: object) -> str:
    """A cast to bf16 that takes 0.2 ms here, predicted and measured."""
    return copy_takes(answer, 0.0002, torch.bfloat16)


@exercise(
    "02.7",
    "Which power of two lies just below |value|? math.frexp tells, and so does math.log2, nearly.",
    "In units of the spacing there, 2 ** (power − 10), every fp16 number is whole: round to that.",
    "Python's round() takes ties to even. What if rounding reaches 2048 units, the next power?",
    "Below 2 ** −14 the spacing no longer shrinks, and the stored exponent is 0.",
)
def ex02_7(answer: object) -> str:
    """An encoder from a float to the 16 bits of the nearest fp16 number."""
    encode = function(answer, "a function encode_fp16(value)")
    for kind, value in _values(random.Random()):
        got, wanted = encode(value), _bits(value)
        if not isinstance(got, str) or len(got) != 16 or set(got) - set("01"):
            raise Wrong(f"a text of 16 zeros and ones is expected, got {shown(got)}.")
        if got != wanted:
            raise Wrong(f"{kind}: {value!r} gives {got}{_misread(got, value)}.")
    return "right for thousands of values: ties, subnormal numbers and what is too large."


def _bits(value: float) -> str:
    """Of the nearest fp16 number, as Python's own struct rounds it; infinity for what overflows."""
    try:
        packed = struct.pack(">e", value)
    except OverflowError:
        packed = struct.pack(">e", math.copysign(math.inf, value))
    return f"{int.from_bytes(packed, 'big'):016b}"


def _values(drawn: random.Random) -> Iterator[tuple[str, float]]:
    """Kinds of values, the simple ones first, each with either sign."""
    yield from (("a power of two", 2.0**k) for k in range(-14, 16))
    for kind, made in _kinds(drawn).items():
        for _ in range(300):
            yield kind, made() * drawn.choice((-1, 1))
    yield from (("zero", 0.0), ("a minus zero", -0.0))
    yield from (("just below infinity", 65519.99), ("the tie below infinity", 65520.0))
    for power in range(5, 300):
        yield "a value that is too large", drawn.choice((-1, 1)) * 10.0**power


def _kinds(drawn: random.Random) -> dict[str, Callable[[], float]]:
    def whole(low: int, high: int) -> int:
        return drawn.randrange(low, high)

    return {
        "a negative or a positive number that fp16 has": lambda: math.ldexp(
            whole(1024, 2048), whole(-24, 6)
        ),
        "a number that has to be rounded": lambda: math.ldexp(
            drawn.uniform(1024, 2047), whole(-24, 6)
        ),
        "a tie between two numbers": lambda: math.ldexp(whole(1024, 2047) + 0.5, whole(-24, 6)),
        "a number that rounds to the next power of two": lambda: math.ldexp(
            drawn.uniform(2047.5, 2048), whole(-24, 5)
        ),
        "a tie below a power of two": lambda: math.ldexp(2047.5, whole(-24, 5)),
        "a tie between subnormal numbers": lambda: math.ldexp(whole(0, 1023) + 0.5, -24),
        "a value that rounds to the smallest normal number": lambda: math.ldexp(
            drawn.choice((1023.5, drawn.uniform(1023.5, 1024))), -24
        ),
        "a subnormal number": lambda: math.ldexp(whole(1, 1024), -24),
        "a value between subnormal numbers": lambda: math.ldexp(drawn.uniform(0.6, 1023), -24),
        "a value too small for fp16": lambda: math.ldexp(drawn.uniform(0, 0.499), -24),
    }


def _misread(got: str, value: float) -> str:
    """What a likely mistake about `value` gives, if `got` is that."""
    exact = abs(value)
    if exact >= 65520:
        return ": what is too large becomes infinity, with exponent 31 and mantissa 0"
    if got[1:] == _bits(exact)[1:]:
        return ": the sign is the first bit, 1 for negative numbers and for −0.0"
    power = max(math.frexp(exact)[1] - 1, -14) if exact else -14
    units = exact * 2.0 ** (10 - power)
    if got[1:] == _bits(math.ldexp(math.floor(units), power - 10))[1:]:
        return ": it is cut off, not rounded to the nearest"
    if got[1:] == _bits(math.ldexp(math.floor(units + 0.5), power - 10))[1:]:
        return ": a tie goes to the number whose last bit is 0, not always up"
    if exact < 2.0**-14 and int(got[1:], 2) == 0:
        return ": below the smallest normal number come the subnormal ones"
    return ""


@exercise(
    "02.8",
    "A payment vanishes when it is less than half of the spacing of the numbers there.",
    "Between 2 ** k and 2 ** (k + 1) the spacing of fp32 is 2 ** (k − 23).",
    "Half of it, 2 ** (k − 24), must be more than 0.01.",
)
def ex02_8(answer: object) -> str:
    """From which power of two on a cent vanishes in fp32."""
    number(
        answer,
        2**18,
        within=1e-9,
        unit="euros",
        mistakes=[
            (18, "that is the exponent; the amount in euros is asked."),
            (2**17, "there half of the spacing is still less than a cent, so a cent counts."),
            (2**19, "it vanishes one power earlier already."),
            (2**24, "that is where 1 vanishes; a cent vanishes earlier."),
            (167772.16, "a power of two is asked: the spacing changes only there."),
            (2**18 * 100, "that is in cents; euros, please."),
        ],
    )
    return (
        "right: from there on cents vanish, and one power below each is booked as one and a half. "
        "Money is counted in whole cents."
    )
