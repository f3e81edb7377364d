"""Checks of chapter 09: what a recipe keeps, which scale fits, what must not be short."""

import math

from course_utils.check.exercise import Wrong, exercise, finite, names, number

SMALLEST, LARGEST = 2.0**-24, 65504.0  # of fp16
GRADIENTS = (2e-9, 0.5)
MOST_INT32 = 2**31 - 1
NEEDS_FP32 = {
    "softmax": "small exponentials become 0, and their sum loses digits",
    "sum of a million numbers": "it overflows, or stops counting",
    "cross-entropy": "it is built on exponentials and a sum",
    "optimizer update": "small updates are rounded away",
}
SAFE = {
    "matmul": "its terms are added up in fp32",
    "convolution": "it is computed as a matmul is, and its terms are added up in fp32",
    "relu": "it changes no number that it keeps",
    "reshape": "it computes nothing",
}


@exercise(
    "09.1",
    "Write the parts down: parameters, gradients, master copy, and how many averages?",
    "bf16 takes 2 bytes, fp32 takes 4. Which parts are in which?",
    "Five numbers belong to each parameter: give each of them its bytes, then add them up.",
)
def ex09_1(answer: object) -> str:
    """Bytes of a recipe."""
    number(
        answer,
        14,
        within=1e-9,
        unit="bytes",
        mistakes=[
            (18, "Adam's averages are in bf16 here: 2 bytes each."),
            (12, "one average is missing, or the parameter, or the gradient is counted in bf16."),
            (10, "4 bytes are missing: is the master copy counted, and are both averages?"),
            (16, "that is fp32 throughout, or the usual mixed recipe: read this one again."),
            (20, "that is fp32 with a second copy: which parts are in bf16?"),
            (8, "that is pure bf16: here some parts are in fp32."),
            (5, "that counts the numbers: how many bytes does each of them take?"),
            (112, "those are bits: a byte has eight."),
        ],
    )
    return "right. What this recipe risks is that averages in bf16 round small changes away."


@exercise(
    "09.2",
    "There are two conditions: one for the smallest gradient times S, one for the largest.",
    "Divide 2⁻²⁴ by the smallest gradient: S must be at least that.",
    "Divide 65 504 by the largest gradient: S must be at most that. Which powers lie between?",
)
def ex09_2(answer: object) -> str:
    """Choose a loss scale."""
    low, high = SMALLEST / GRADIENTS[0], LARGEST / GRADIENTS[1]
    scale = float(finite(answer))
    if scale <= 0:
        raise Wrong("a loss scale is above 0, because it multiplies the loss.")
    if scale < low:
        does = "fp16 keeps no digit of it" if scale > low / 2 else "it becomes 0"
        also = ". If that is an exponent, give the power itself" if 5 <= scale <= 16 else ""
        raise Wrong(f"too small: {GRADIENTS[0]:g} × S lies below 2⁻²⁴, and {does}{also}.")
    if scale > high:
        raise Wrong(f"too large: {GRADIENTS[1]:g} × S exceeds 65 504 and becomes infinite.")
    if not math.log2(scale).is_integer():
        raise Wrong("S lies in the range but is no power of two: others round every gradient.")
    return "right. GradScaler looks for such a scale by itself, between these two limits."


@exercise(
    "09.3",
    "Ask of each operation: can it leave fp16's range, or does it add many small things up?",
    "Exponentials grow fast; long sums pass 65 504; an update is small beside its parameter.",
    "There are four of the eight. A matmul is not among them: its terms are added up in fp32.",
)
def ex09_3(answer: object) -> str:
    """What must not run in fp16."""
    found = names(answer, [*NEEDS_FP32, *SAFE], "{} is not in the list: copy the names.")
    for name in sorted(found & SAFE.keys()):
        raise Wrong(f"{name} may run in fp16: {SAFE[name]}.")
    if len(found) < len(NEEDS_FP32):
        hint = "think of exponentials, of long sums, and of small changes"
        raise Wrong(f"you have found {len(found)} of {len(NEEDS_FP32)}: {hint}.")
    return "right: on a GPU, autocast keeps such a list, and the optimizer works outside of it."


@exercise(
    "09.4",
    "bf16 has 7 bits of fraction. How far apart do its numbers lie from 1 to 2, and below 1?",
    "An update is lost while 0.5 is the number nearest to the sum. Where does that end?",
    "In the middle between two numbers is a tie, which the even one of the two wins.",
)
def ex09_4(answer: object) -> str:
    """Why a run stalls."""
    right, update = 2**-9, float(finite(answer))
    if update != right and math.isclose(update, right, rel_tol=0.03):
        raise Wrong("close: give the power of two exactly, such as 2**-3.")
    if update == int(update) and 6 <= abs(update) <= 20:
        raise Wrong("that may be an exponent: give the power of two itself.")
    number(
        update,
        right,
        within=0,
        exact_mistakes=True,
        mistakes=[
            (2**-8, "that is a whole step: from half of one on, a sum may be rounded up."),
            (0.0039, "that is about a whole step: from half of one on, a sum may be rounded up."),
            (2**-7, "that is a step above 1; from 0.5 to 1 numbers lie closer."),
            (2**-10, "going down, below 0.5, steps are half as wide; this goes up."),
            (0.001, "that update is lost, but a larger one is lost, too."),
            (2**-11, "that is a step of fp16, with 10 bits of fraction; bf16 has 7."),
            (2**-12, "that is half a step of fp16, with 10 bits of fraction; bf16 has 7."),
            (2**9, "that is upside down: an update is far below 1."),
            (-right, "this update goes up, so it is above 0."),
        ],
    )
    return "right: 2⁻⁹ ≈ 0.002. A master copy in fp32, or a larger step, brings it back to life."


@exercise(
    "09.7",
    "How large can one term of the sum be, and how large can an int32 be?",
    "A term is a number times another number: the largest is 127 · 127.",
    "The largest int32 is 2³¹ − 1. How many whole terms fit into it?",
)
def ex09_7(answer: object) -> str:
    """How long a sum int32 can hold."""
    right, length = MOST_INT32 // 127**2, finite(answer)
    if length != int(length) and abs(length - right) < 1:
        raise Wrong("K counts terms, so it is a whole number: which one is still safe?")
    number(
        length,
        right,
        within=0,
        unit="terms",
        exact_mistakes=True,
        mistakes=[
            (right + 1, "with that many terms of the largest size the sum is already too large."),
            (right - 1, "one more term of the largest size would still fit."),
            (2**31 // 128**2, "the numbers end at 127, not at 128, and so does each factor."),
            (MOST_INT32 // 128**2, "the numbers end at 127, not at 128, and so does each factor."),
            (2**32 // 127**2, "an int32 has a sign, which takes one of its 32 bits."),
            (MOST_INT32 // 127, "a term is one number times another: each may be 127."),
            (MOST_INT32, "that is the largest int32: how large is one term of the sum?"),
            (2**31, "that is about the largest int32: how large is one term of the sum?"),
            (MOST_INT32 // 255**2, "the size of a number counts, 127 at most, not its range."),
            (MOST_INT32 // 254**2, "the size of a number counts, 127 at most, not its range."),
            ((2**15 - 1) // 127**2, "that is a sum in int16: here it is kept in int32."),
            (2**24 // 127**2, "that is a sum in fp32, which counts exactly up to 2²⁴."),
            (127**2, "that is the largest term: how many of them fit?"),
            (right // 2, "half of it: a multiply-add is two FLOPs, but adds only one term."),
        ],
    )
    return "right. fp8 matmuls add up in a wider format for the same reason."
