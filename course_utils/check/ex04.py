"""Checks of chapter 04: FLOPs, rates, MFU, roofline."""

from collections.abc import Mapping

from course_utils import hardware, predict
from course_utils.arguments import shown
from course_utils.check.exercise import Wrong, exercise, number

__all__ = ["ex04_1", "ex04_2", "ex04_3", "ex04_4"]

EINSUMS = {
    "bsd,dk->bsk": 2 * 4 * 128 * 64 * 32,
    "bqd,bkd->bqk": 2 * 4 * 128 * 128 * 64,
    "bd,d->b": 2 * 4 * 64,
}
MISTAKES = {
    "first call": "warm-up",
    "one call": "repeats",
    "GPU not waited for": "synchronise",
    "torch.ones": "random data",
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
    for name, right in EINSUMS.items():
        if answer.get(name) is None:
            raise Wrong(f"{name} is still open.")
        try:
            number(
                answer[name],
                right,
                within=1e-9,
                mistakes=[
                    (right // 2, "a multiply-add is two FLOPs."),
                    (right // 8, "the batch is missing, and the factor 2."),
                    (right // 4, "the batch of 4 is missing: every index counts."),
                    (right * 64, "an index is counted twice: each counts once."),
                ],
            )
        except Wrong as reason:
            raise Wrong(f"{name}: {reason}") from None
    return "all three right: every index once, times two."


@exercise(
    "04.2",
    "Compute-bound means: FLOPs / bytes is at least peak / bandwidth.",
    "An n×n product in bf16 does 2·n³ FLOPs and moves three matrices of n² × 2 bytes.",
    "So n / 3 must reach 989.5e12 / 3350e9. Round up.",
)
def ex04_2(answer: object) -> str:
    """From which n on a square bf16 product is compute-bound on an H100."""
    h100 = hardware.find("H100 SXM")
    ridge = h100.promised("bf16") / h100.bandwidth
    number(
        answer,
        predict.ceil_to_whole(3 * ridge),
        within=1e-9,
        mistakes=[
            (3 * ridge, "that is just at or below the ridge: round up to a whole number."),
            (ridge, "that is the ridge in FLOPs a byte; which n has that intensity?"),
            (6 * ridge, "bf16 numbers take 2 bytes, not 4."),
            (2 * ridge, "three matrices move: two are read, one is written."),
            (ridge * 1.5, "2·n³ FLOPs: a multiply-add is two."),
        ],
    )
    return "right. Below it the memory is the limit, and a faster peak would not help."


@exercise(
    "04.3",
    "MFU = FLOPs that the model needed / (seconds × peak of all devices).",
    "A step of 4 194 304 tokens takes 6 · 7e9 · 4 194 304 FLOPs.",
    "Divide by 8.1 s × 64 × 989.5e12 FLOP/s.",
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
            (right / 2, "half of it: did you use 1979e12, the rate with sparsity?"),
            (right * 8.1, "the seconds are missing: FLOPs are not a rate."),
            (1 / right, "upside down."),
        ],
    )
    return "right. The rest of the time goes to communication, memory and waiting."


@exercise(
    "04.4",
    "Read the code line by line and ask: what happens before, and after, this line?",
    "Look at the data, at the loop that is not there, and at the two clock readings.",
    "The four remedies are 'warm-up', 'repeats', 'synchronise' and 'random data'.",
)
def ex04_4(answer: object) -> str:
    """Four timing mistakes in a piece of code."""
    if not isinstance(answer, (set, list, tuple)) or not all(isinstance(a, str) for a in answer):
        raise Wrong(f"a set of four remedies in words is expected, got {shown(answer)}.")
    got = {word.strip().lower() for word in answer}
    right = set(MISTAKES.values())
    strange = sorted(got - right)
    if strange:
        known = ", ".join(sorted(right | {"more threads", "larger matrices"}))
        raise Wrong(f"{strange[0]!r} does not mend this code. Choose from: {known}.")
    if got != right:
        raise Wrong(f"{len(got)} of 4 found; there is more wrong with this code.")
    return "all four. Not waiting can be off a hundredfold, easy data by a tenth."
