"""Checks of chapter 02: number formats."""

import math
from collections.abc import Mapping

from course_utils import formats
from course_utils.arguments import shown
from course_utils.check.exercise import Wrong, exercise, number

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


@exercise(
    "02.1",
    "The number of elements does not change; the bytes of each do.",
    "bf16 has 16 bits.",
    "12288 × 49152 elements, 2 bytes each.",
)
def ex02_1(answer: object) -> str:
    """Bytes of GPT-3's feed-forward matrix in bf16."""
    right = 12288 * 49152 * 2
    number(
        answer,
        right,
        within=1e-9,
        unit="bytes",
        mistakes=[
            (2 * right, "that is fp32: 4 bytes an element."),
            (right / 2, "that is one byte an element; bf16 has 16 bits."),
            (16 * right / 2, "those are bits; a byte has 8."),
            (right / 1e9, "in bytes, please, not in GB."),
            (right / 2**30, "in bytes, please, not in GiB."),
        ],
    )
    return "right: 1.208 GB, or 1.125 GiB."


@exercise(
    "02.2",
    "Counting by ones stalls where the spacing between numbers becomes 2.",
    "With m mantissa bits and the implied 1, numbers up to 2 ** (m + 1) are exact.",
    "Mantissa bits: 10 in fp16, 7 in bf16, 23 in fp32, 52 in float64.",
)
def ex02_2(answer: object) -> str:
    """The largest n up to which every whole number is exact, in four formats."""
    given = _form(answer, LAST_EXACT)
    for name, right in LAST_EXACT.items():
        mistakes = [
            (right // 2, "the implied leading 1 is one more bit."),
            (right - 1, "the power of two itself is exact too."),
            (right + 1, "that one is the first to be skipped."),
            (
                float(formats.FORMATS[name].largest),
                "the largest number; but most are skipped there.",
            ),
        ]
        _number_for(name, given[name], right, mistakes)
    return "all four: the implied 1 makes it one bit more than the mantissa has."


@exercise(
    "02.3",
    "Ask of each: how many digits, how wide a range, and what does the hardware have?",
    "Updates need digits; activations need range; a T4 has no bf16 units.",
    "Each of the four formats is used once.",
)
def ex02_3(answer: object) -> str:
    """A format for each of four situations."""
    given = _form(answer, SITUATIONS)
    known = sorted(SITUATIONS.values())
    for name, value in given.items():
        if value not in known:
            raise Wrong(f"'{name}' needs one of {', '.join(known)}, got {shown(value)}.")
    for name, right in SITUATIONS.items():
        if given[name] != right:
            raise Wrong(f"{given[name]} does not suit '{name}': {WHY[name]}.")
    return "all four. Digits, range and hardware decide, in this order of cost."


@exercise(
    "02.4",
    "Cut the text into sign, exponent and mantissa: 1, 5 and 10 bits.",
    "±2 ** (exponent − 15) × (1 + mantissa / 1024), as long as the exponent is not 0.",
    "Exponent 0: ±2 ** −14 × mantissa / 1024. Exponent 31: infinity, or NaN with a mantissa.",
)
def ex02_4(answer: object) -> str:
    """A decoder from the 16 bits of an fp16 number to its value."""
    if not callable(answer):
        raise Wrong(f"a function of a text of 16 bits is expected, got {shown(answer)}.")
    kinds = {
        "normal numbers": ("0011110000000000", "0100001001001000", "1100000000000000"),
        "subnormal numbers (exponent 0)": ("0000000000000001", "1000001000000000"),
        "zero and minus zero": ("0000000000000000", "1000000000000000"),
        "infinities (exponent 31, mantissa 0)": ("0111110000000000", "1111110000000000"),
        "NaN (exponent 31, mantissa not 0)": ("0111111000000000", "1111110000000001"),
    }
    for kind, patterns in kinds.items():
        for bits in patterns:
            _decoded(answer(bits), formats.decode(int(bits, 2), "float16"), bits, kind)
    return "right for every kind of pattern. All 65 536 follow the same five rules."


@exercise(
    "02.5",
    "1 and the next number are eps apart. What happens to 1 + x for x below half of that?",
    "At exactly half, the tie goes to the even neighbour, which is 1.",
    "So x must be just above eps / 2: the next fp32 number after 2 ** −24.",
)
def ex02_5(answer: object) -> str:
    """The smallest fp32 number x with 1 + x ≠ 1."""
    half = 2.0**-24
    right = half * (1 + 2.0**-23)
    number(
        answer,
        right,
        within=1e-9,
        mistakes=[
            (2 * half, "that is eps; smaller ones already change 1, since it is rounded."),
            (half, "half of eps is a tie, and a tie goes to 1: only just above it is enough."),
            (2.0**-53, "that belongs to float64."),
            (2.0**-149, "the smallest number there is; added to 1 it is lost."),
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


def _number_for(name: str, given: object, right: float, mistakes: list) -> None:
    try:
        number(given, right, within=1e-12, mistakes=mistakes, exact_mistakes=True)
    except Wrong as reason:
        raise Wrong(f"{name}: {reason}") from None


def _decoded(got: object, right: float, bits: str, kind: str) -> None:
    if isinstance(got, bool) or not isinstance(got, (int, float)):
        raise Wrong(f"a number is expected for {bits}, got {shown(got)}.")
    if math.isnan(right) and math.isnan(got):
        return
    if got != right or math.copysign(1, got) != math.copysign(1, right):
        raise Wrong(f"wrong for {kind}: {bits} gave {got:g}.")
