"""Checks of chapter 09: mixed precision."""

import math

from course_utils.check.exercise import Wrong, exercise, finite, names, number

SMALLEST, LARGEST = 2.0**-24, 65504.0  # of fp16
GRADIENTS = (2e-9, 0.5)
NEEDS_FP32 = {
    "softmax": "small exponentials become 0, and their sum loses digits",
    "sum of a million numbers": "it overflows, or stops counting",
    "cross-entropy": "it is built on exponentials and a sum",
    "optimizer update": "small updates are rounded away",
}
SAFE = {
    "matmul": "units add its products up in fp32",
    "convolution": "it is a product",
    "relu": "it changes no number that it keeps",
    "reshape": "it computes nothing",
}


@exercise(
    "09.1",
    "Write the parts down: parameters, gradients, master copy, two averages.",
    "bf16 takes 2 bytes, fp32 takes 4. Which parts are which?",
    "2 for the parameter, 4 for its gradient, 4 for the master copy, and two averages.",
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
            (12, "one part is missing: the parameter itself, one average, or half the gradient."),
            (22, "Adam's averages and the parameter are in bf16 here: 2 bytes each."),
            (10, "is the master copy counted, and are both averages?"),
            (16, "that is fp32 throughout, or the usual mixed recipe: read this one again."),
            (20, "that is fp32 with a second copy: which parts are in bf16?"),
            (8, "that is pure bf16: here some parts are in fp32."),
        ],
    )
    return "right. What it risks: averages in bf16 round small changes away."


@exercise(
    "09.2",
    "Two conditions: S × 2e-9 is at least 2⁻²⁴, and S × 0.5 is at most 65 504.",
    "2⁻²⁴ is about 6e-8, so S is at least 30. And S is at most 131 008.",
    "Any power of two from 32 on will do, as long as half of it stays below 65 504.",
)
def ex09_2(answer: object) -> str:
    """Choose a loss scale."""
    low, high = SMALLEST / GRADIENTS[0], LARGEST / GRADIENTS[1]
    scale = float(finite(answer))
    if scale <= 0:
        raise Wrong("a scale is above 0: it multiplies the loss.")
    if scale < low:
        raise Wrong(f"too small: {GRADIENTS[0]:g} × S stays below 2⁻²⁴ and may become 0.")
    if scale > high:
        raise Wrong(f"too large: {GRADIENTS[1]:g} × S exceeds 65 504 and becomes infinite.")
    if not math.log2(scale).is_integer():
        raise Wrong("in the range, but no power of two: others round every gradient.")
    return "right. The room between the two limits is what a scaler lives in."


@exercise(
    "09.3",
    "Ask of each: can it leave fp16's range, or add many small things up?",
    "Exponentials grow fast; long sums pass 65 504; an update is small beside its parameter.",
    "Four of the eight. Products are not among them: units add them up in fp32.",
)
def ex09_3(answer: object) -> str:
    """What must not run in fp16."""
    found = names(answer, [*NEEDS_FP32, *SAFE], "{} is not in the list: copy the names.")
    for name in sorted(found & SAFE.keys()):
        raise Wrong(f"{name} may run in fp16: {SAFE[name]}.")
    if len(found) < len(NEEDS_FP32):
        hint = "think of exponentials, long sums, and small changes"
        raise Wrong(f"{len(found)} of {len(NEEDS_FP32)} found: {hint}.")
    return "all four. On a GPU, autocast keeps such a list; the optimizer never sees fp16."


@exercise(
    "09.4",
    "bf16 has 7 bits of fraction: near 1 its numbers lie 2⁻⁷ apart. Near 0.5?",
    "From 0.5 to 1 they lie 2⁻⁸ apart. Which updates are rounded back?",
    "Half of a step, exactly, is a tie, and ties go to the even neighbour, which is 0.5.",
)
def ex09_4(answer: object) -> str:
    """Why a run stalls."""
    number(
        answer,
        2**-9,
        within=1e-9,
        exact_mistakes=True,
        mistakes=[
            (2**-8, "that is a whole step: more than half of it is rounded up."),
            (2**-7, "that is a step near 1; from 0.5 to 1 numbers lie closer."),
            (2**-10, "going down, below 0.5, steps are half as wide; this goes up."),
            (0.0039, "that is about a whole step: more than half of it is rounded up."),
            (0.00195, "close: give the power of two exactly."),
            (0.002, "close: give the power of two exactly."),
            (0.001, "that update is lost, but a larger one is, too."),
            (2**-11, "that is fp16's fraction of 10 bits; bf16 has 7."),
            (2**-12, "that is fp16's fraction of 10 bits; bf16 has 7."),
        ],
    )
    return "right: 2⁻⁹ ≈ 0.002. A master copy in fp32, or a larger step, brings it back to life."
