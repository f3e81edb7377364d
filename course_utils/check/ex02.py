"""Checks of chapter 02: number formats."""

import math
import random
from collections.abc import Mapping
from numbers import Real

import torch

from course_utils import formats
from course_utils.arguments import shown
from course_utils.check.exercise import Wrong, exercise, finite, function, number

ROUNDED = "that is rounded; the exact count is asked, to the last digit."
LAST_EXACT = {"float16": 2**11, "bfloat16": 2**8, "float32": 2**24, "float64": 2**53}
T4 = "the same on a T4, whose fast units take fp16 but not bf16"
SITUATIONS = {
    "orbit of a satellite over ten years": "float64",
    "parameters while an optimizer updates them": "float32",
    "activations on a GPU with bf16 units": "bfloat16",
    T4: "float16",
}
WHY = {
    "orbit of a satellite over ten years": "tiny errors add up over millions of steps",
    "parameters while an optimizer updates them": "an update may be a millionth of a parameter",
    "activations on a GPU with bf16 units": "a wide range is needed, few digits are enough",
    T4: "what the hardware lacks is imitated, slowly",
}
SPELLINGS = {
    "fp64": "float64",
    "double": "float64",
    "fp32": "float32",
    "fp16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
}
KINDS = (  # of fp16 patterns, and the first and the last of each, without the sign
    ("normal numbers", 0x0400, 0x7BFF),
    ("subnormal numbers (exponent 0)", 0x0001, 0x03FF),
    ("zero and minus zero", 0x0000, 0x0000),
    ("infinities (exponent 31, mantissa 0)", 0x7C00, 0x7C00),
    ("NaN (exponent 31, mantissa not 0)", 0x7C01, 0x7FFF),
)


@exercise(
    "02.1",
    "How many numbers has one image, and how many has the batch?",
    "An fp16 number has two bytes, and beside each stands one more.",
)
def ex02_1(answer: object) -> str:
    """Bytes of a batch of images in fp16, with a mask."""
    numbers = 32 * 3 * 224 * 224
    right = 3 * numbers
    number(
        answer,
        right,
        within=0,
        unit="bytes",
        mistakes=[
            (numbers, "those are the numbers: fp16 has two bytes for each, and the mask one."),
            (2 * numbers, "you forgot the mask."),
            (4 * numbers, "that would be a mask of two bytes, or fp32 without one."),
            (5 * numbers, "that is fp32: fp16 has two bytes."),
            (right / 32, "that is one image: there are 32."),
            (right / 3, "you forgot the three colours."),
            (2 * numbers + numbers / 3, "the mask has a byte beside each number, colours too."),
            (8 * right, "those are bits; a byte has 8."),
            (right / 1e9, "in bytes, please, not in GB."),
            (right / 2**30, "in bytes, please, not in GiB."),
            (right / 1e6, "in bytes, please, not in MB."),
            (right / 2**20, "in bytes, please, not in MiB."),
            (right, ROUNDED),
        ],
    )
    return "right: 14.45 MB, a third of it for the mask."


@exercise(
    "02.2",
    "Counting by ones stalls where the spacing between numbers becomes 2.",
    "The digits of a whole number in base 2 must fit into the mantissa and the implied 1.",
    "formats.FORMATS['float16'].mantissa_bits and the like say how many bits each mantissa has.",
)
def ex02_2(answer: object) -> str:
    """The largest n up to which every whole number is exact, in four formats."""
    for name, given in _form(answer, LAST_EXACT).items():
        try:
            _last_exact(name, given)
        except Wrong as reason:
            raise Wrong(f"{name}: {reason}") from None
    return "all four: the implied 1 makes it one bit more than the mantissa has."


def _last_exact(name: str, given: object) -> None:
    """Accept the last whole number that `name` counts to, exactly; else say what is wrong."""
    right, count = LAST_EXACT[name], finite(given)
    mistakes = {
        right // 2: "the implied leading 1 is one more bit.",
        right - 1: "the power of two itself is exact too.",
        right + 1: "that one is the first to be skipped.",
        right * 2: "a bit too many: the implied 1 is the only one beside the mantissa's.",
    }
    if count in mistakes:
        raise Wrong(mistakes[count])
    largest = float(formats.FORMATS[name].largest)
    beyond = "the largest number; but most are skipped there."
    number(count, right, within=0, mistakes=[(largest, beyond), (right, ROUNDED)])


@exercise(
    "02.3",
    "Ask of each: how many digits, how wide a range, and what does the hardware have?",
    "Updates need digits; activations need range; a T4 has no bf16 units.",
    "Each of the four formats is used once.",
)
def ex02_3(answer: object) -> str:
    """A format for each of four situations."""
    given = {name: _format_named(name, value) for name, value in _form(answer, SITUATIONS).items()}
    for name, right in SITUATIONS.items():
        if given[name] != right:
            raise Wrong(f"{given[name]} does not suit '{name}': {WHY[name]}.")
    return "all four. Digits, range and hardware decide, in this order of cost."


def _format_named(situation: str, given: object) -> str:
    """The format's whole name: 'float32' for "fp32", "FP32", "torch.float32", torch.float32."""
    known = sorted(SITUATIONS.values())
    said = given if isinstance(given, str | torch.dtype) else getattr(given, "__name__", "")
    name = str(said).strip().lower().removeprefix("torch.")
    name = SPELLINGS.get(name, name)
    if name not in known:
        raise Wrong(f"'{situation}' needs one of {', '.join(known)}, got {shown(given)}.")
    return name


@exercise(
    "02.4",
    "Cut the text into sign, exponent and mantissa: 1, 5 and 10 bits.",
    "For most exponents: the bias comes off, and the mantissa, in steps of 2⁻¹⁰, adds to 1.",
    "With exponent 0 there is no implied 1, and the steps are those of the smallest normal number. "
    "With exponent 31 it is infinity, or NaN with a mantissa.",
)
def ex02_4(answer: object) -> str:
    """A decoder from the 16 bits of an fp16 number to its value."""
    decode = function(answer, "a function of a text of 16 bits")
    for kind, lowest, highest in KINDS:
        inside = random.Random().choices(range(lowest, highest + 1), k=30)
        for pattern in (lowest, highest, *inside):
            for sign in (0, 1):
                bits = f"{sign << 15 | pattern:016b}"
                _decoded(decode(bits), bits, kind)
    return "right for every kind of pattern. All 65 536 follow the same five rules."


def _decoded(given: object, bits: str, kind: str) -> None:
    """Accept the value of an fp16 pattern; else say which misreading it is, or of which kind."""
    got = given.item() if getattr(given, "ndim", None) == 0 else given
    if isinstance(got, bool) or not isinstance(got, Real):
        raise Wrong(f"a number is expected for {bits}, got {shown(given)}.")
    got, right = float(got), formats.decode(int(bits, 2), "float16")
    if (math.isnan(right) and math.isnan(got)) or _alike(got, right):
        return
    misread = {why: value for why, value in _misreadings(bits).items() if _alike(got, value)}
    why = next(iter(misread), "")
    raise Wrong(f"wrong for {kind}: {bits} gave {got:g}.{why and ' ' + why}")


def _alike(one: float, other: float) -> bool:
    return one == other and math.copysign(1, one) == math.copysign(1, other)


def _misreadings(bits: str) -> dict[str, float]:
    """What likely errors make of a pattern, by the sentence about each; the likelier ones first."""
    e, m = int(bits[1:6], 2), int(bits[6:], 2)
    sign = -1.0 if bits[0] == "1" else 1.0
    implied = sign * 2.0 ** (e - 15) * (1 + m / 1024)
    right = formats.decode(int(bits, 2), "float16")
    bare = "The implied leading 1 is missing." if e else "That is not the exponent of these."
    return {
        "The sign is wrong.": -right,
        "That is the rule for the other exponents; this one is special.": implied,
        bare: sign * 2.0 ** (e - 15) * m / 1024,
        "The bias is missing: it must come off the exponent.": implied * 2.0**15,
        "The bias of fp16 is 15.": implied / 2,
        "That bias is fp32's.": implied * 2.0**-112,
        "The mantissa counts in steps of 2⁻¹⁰.": sign * 2.0 ** (e - 15) * (1 + m / 1023),
    }


@exercise(
    "02.5",
    "1 and the next number are eps apart. What happens to 1 + x for x below half of that?",
    "At exactly half, the tie goes to the even neighbour, which is 1.",
    "Half of eps is not enough; the least bit more is. How far is the next fp32 number from it?",
)
def ex02_5(answer: object) -> str:
    """The smallest fp32 number x with 1 + x ≠ 1."""
    half, tiny = 2.0**-24, 2.0**-149
    x = float(finite(answer))
    rounded = torch.tensor(x, dtype=torch.float64, device="cpu").to(torch.float32).item()
    if rounded == half:
        raise Wrong("half of eps is a tie, and a tie goes to the even neighbour, 1.")
    if x < 0:
        raise Wrong("a positive number is meant.")
    number(
        rounded,
        half * (1 + 2.0**-23),
        within=0,
        mistakes=[
            (2 * half, "that is eps; smaller ones already change 1, since it is rounded."),
            (1.2e-7, "that is eps; smaller ones already change 1, since it is rounded."),
            (half, "near half of eps every digit counts: write it with powers of two."),
            (2.0**-53, "that belongs to float64."),
            (2.0**-52, "that is the eps of float64."),
            (2.0**-126, "the smallest normal number; added to 1 it is lost."),
            (tiny, "the smallest number there is; added to 1 it is lost."),
        ],
    )
    return "right: the first number above half of eps."


def _form(answer: object, expected: Mapping[str, object]) -> Mapping[str, object]:
    if not isinstance(answer, Mapping):
        raise Wrong(f"a dict with {len(expected)} entries is expected, got {shown(answer)}.")
    missing = [name for name in expected if answer.get(name) is None]
    if missing:
        raise Wrong(f"{len(missing)} of {len(expected)} are open, among them '{missing[0]}'.")
    return {name: answer[name] for name in expected}
