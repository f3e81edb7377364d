"""Checks of chapter 04: FLOPs, rates, MFU, roofline."""

import math
from collections.abc import Mapping

from course_utils import hardware, predict
from course_utils.arguments import shown
from course_utils.check.exercise import Wrong, exercise, number

EINSUMS = {
    "bsd,dk->bsk": {"b": 4, "s": 100, "d": 64, "k": 28},
    "bqd,bkd->bqk": {"b": 4, "q": 120, "k": 72, "d": 64},
    "bd,d->b": {"b": 4, "d": 64},
}
SUMMED = 64  # the size of d, which every one of them sums over
LACKING = {2: "random data", 5: "warm-up", 6: "synchronise", 8: "repeats"}
LINES = 8
SOUND = {
    1: "line 1 draws random data, and the timing begins later",
    3: "line 3 names a clock that is fine enough",
    4: "line 4 reads it where the work begins",
    7: "line 7 subtracts the right way round",
}
REMEDIES = {*LACKING.values(), "fresh data", "a second gpu"}
SPELLINGS = {
    "synchronize": "synchronise",
    "repeat": "repeats",
    "random-data": "random data",
    "random_data": "random data",
    "warmup": "warm-up",
    "warm up": "warm-up",
    "warm_up": "warm-up",
}


@exercise(
    "04.1",
    "List every index once, whatever operand it stands in.",
    "The FLOPs are 2 × the product of the sizes of all indices that occur.",
    "bqd,bkd->bqk has the indices b, q, k, d: that is batch, queries, keys, width.",
)
def ex04_1(answer: object) -> str:
    """FLOPs of three einsums."""
    if not isinstance(answer, Mapping):
        raise Wrong(f"a dict from each einsum to its FLOPs is expected, got {shown(answer)}.")
    for name, sizes in EINSUMS.items():
        if answer.get(name) is None:
            raise Wrong(f"{name} is still open.")
        right = predict.einsum_flops(name, **sizes)
        try:
            number(answer[name], right, within=0, mistakes=_miscounts(name, right))
        except Wrong as reason:
            raise Wrong(f"{name}: {reason}") from None
    return "all three right: every index once, times two."


def _miscounts(name: str, right: int) -> list[tuple[float, str]]:
    """What likely errors make of the count of the einsum `name`."""
    sizes = EINSUMS[name]
    every_letter = 2 * math.prod(
        sizes[letter] for letter in name.partition("->")[0] if letter in sizes
    )
    found = [
        (right // 2, "a multiply-add is two FLOPs."),
        (right - right // (2 * SUMMED), "exact, with d − 1 additions: here each term counts 2."),
        (every_letter, "an index that stands in both inputs is counted twice: each counts once."),
    ]
    for size in sorted(set(sizes.values())):
        found += [
            (right * size, f"an index of size {size} is counted twice: each counts once."),
            (right // size, f"an index of size {size} is missing: every index counts."),
        ]
    for size in sorted(set(sizes.values())):
        found.append((right // size // 2, f"an index of size {size} is missing, and the factor 2."))
    return [*found, (right, "that is rounded; the exact count is asked, to the last digit.")]


@exercise(
    "04.2",
    "Compute-bound means: FLOPs / bytes is at least peak / bandwidth.",
    "An n×n matmul does 2·n³ FLOPs. How many matrices does it read and write, of how many bytes?",
    "The intensity grows with n. From which whole number on does it reach the ridge?",
)
def ex04_2(answer: object) -> str:
    """From which n on a square bf16 matmul is compute-bound on an H100."""
    h100 = hardware.find("H100 SXM")
    ridge = h100.promised("bf16") / h100.bandwidth
    right = predict.ceil_to_whole(3 * ridge)  # the intensity is n / 3
    mistakes = [
        (3 * ridge, "that is just at or below the ridge: round up to a whole number."),
        (right + 1, "that one is compute-bound, but is it the first that is?"),
        (ridge, "that is the ridge in FLOPs per byte; which n has that intensity?"),
        (6 * ridge, "a multiply-add is two FLOPs, and a bf16 number takes 2 bytes, not 4."),
        (2 * ridge, "three matrices move: two are read, one is written."),
        (ridge * 1.5, "three matrices of n² numbers, and each number takes 2 bytes."),
    ]
    rounded = [(form(v), why) for v, why in mistakes for form in (float, math.floor, math.ceil)]
    number(answer, right, within=0, mistakes=rounded)
    return (
        "right, by these two bounds. On a real H100 the third one, starting it, rules here: 1.4 µs "
        "of arithmetic is less than a launch takes, and the 4.7 MB lie in its cache."
    )


@exercise(
    "04.3",
    "MFU = FLOPs that the model needed / (seconds × peak of all devices).",
    "FLOPs of the step: 6 for each parameter and token.",
    "The peak of one H100 stands in exercise 04.2; the log names how many there are.",
)
def ex04_3(answer: object) -> str:
    """MFU from a line of a log."""
    step = predict.training_flops(7e9, 4_194_304)
    right = step / (8.1 * 64 * 989.5e12)
    number(
        answer,
        right,
        within=0.01,
        mistakes=[
            (100 * right, "MFU is a share between 0 and 1, not a percentage."),
            (64 * right, "the 64 GPUs are missing."),
            (right / 3, "2·N·T is the forward pass alone: training takes 6."),
            (right / 1.5, "4·N·T is the backward pass alone: training takes 6."),
            (right * 989.5 / 67, "that is against the fp32 promise; the log says bf16."),
            (right / 2, "half of it: did you use 1979e12, the rate with sparsity?"),
            (right * 8.1, "the seconds are missing: FLOPs are not a rate."),
            (1 / right, "upside down."),
        ],
    )
    return "right. The rest of the time goes to communication, memory and waiting."


@exercise(
    "04.4",
    "The clock is the right one, and the subtraction is right: look at what the other lines do.",
    "Of each line ask: what does it hold, has it run before, has it ended, does it run again?",
    "Where may the GPU still be at work? Which line looks like a loop over runs, and is none?",
)
def ex04_4(answer: object) -> str:
    """Four timing mistakes in a piece of code, by line."""
    if not isinstance(answer, Mapping):
        raise Wrong(f"a dict from lines to what they lack is expected, got {shown(answer)}.")
    for line, given in answer.items():
        if isinstance(line, bool) or line not in range(1, LINES + 1):
            raise Wrong(f"the lines are 1 to {LINES}, got {shown(line)}.")
        if line in SOUND:
            raise Wrong(f"{SOUND[line]}: nothing is missing there.")
        word = str(given).strip().lower()
        if (word := SPELLINGS.get(word, word)) not in REMEDIES:
            listed = ", ".join(sorted(REMEDIES))
            raise Wrong(f"line {line}: {shown(given)} is not one of the six: {listed}.")
        if word != LACKING[line]:
            raise Wrong(f"line {line} lacks something, but {word} would not mend it.")
    if len(answer) < len(LACKING):
        raise Wrong(f"{len(answer)} of 4 found; there is more wrong with this code.")
    return "all four. Each alone makes a number that is not the time of this matmul."
