"""Checks of chapter 04's second half: the two bounds, on this machine and on paper."""

import random
from collections.abc import Sequence
from math import isclose

import torch

from course_utils import hardware, measure, units
from course_utils.arguments import shown
from course_utils.check.exercise import Unsure, Wrong, exercise, finite, function, number
from course_utils.check.programs import named_in_all

SIDE = 4096
MOST = 65_536  # rows
PLANS = 200
Plan = dict[str, float]


@exercise(
    "04.5",
    "Two rows take as long as the weight takes to come: look at the second point of the figure.",
    "An fp32 weight has 4 bytes and does 2 FLOPs per row: how many rows make up for the bytes?",
    "That is twice your ridge. If the clock disagrees, read the figure at twice its second time.",
    measured=True,
)
def ex04_5(answer: object) -> str:
    """Rows that take twice as long as two, predicted and measured here."""
    rows = finite(answer)
    if rows != int(rows) or not 3 <= rows <= MOST:
        told = units.digits(rows)
        raise Wrong(f"a whole number of rows from 3 to {MOST:,} is expected, got {told}.")
    two, many = _rows_time(2), _rows_time(int(rows))
    doubt = two.doubt or many.doubt
    ratio = many.value / two.value
    words = f"{int(rows):,} rows take {units.ratio(ratio)} the time of two"
    if doubt:
        raise Unsure(f"{words}, and {doubt}")
    if not 1.4 <= ratio <= 2.8:
        raise Wrong(f"{words}: {'fewer' if ratio > 2 else 'more'} rows come closer to 2.")
    return f"{words}: here the arithmetic costs about as much as the weight that all rows share."


def _rows_time(rows: int) -> measure.Time:
    """Of `rows` rows of 4096 fp32 numbers times a weight of 4096 × 4096."""
    x = torch.randn(rows, SIDE, device=hardware.backend())
    w = torch.randn(SIDE, SIDE, device=hardware.backend())
    return measure.time(lambda: x @ w, budget=0.4)


@exercise(
    "04.6",
    "Which two times are there, and which of them has to be waited for?",
    "Three matrices move: two are read, one is written.",
    "Return the longer time and its name: arithmetic or memory.",
)
def ex04_6(answer: object) -> str:
    """The least time of a matmul, and its bound, as a function."""
    bound = function(answer, "a function least_seconds(B, D, K, nbytes, peak, bandwidth)")
    drawn = random.Random()
    found = [(plan, _pair(bound(**plan))) for plan in (_plan(drawn) for _ in range(PLANS))]
    named_in_all([(seconds, _slips(**plan)) for plan, (seconds, _) in found])
    for plan, got in found:
        _judge(plan, *got)
    return f"right for {PLANS} random matmuls: the roofline, in three lines."


def _pair(got: object) -> tuple[float, str]:
    if not isinstance(got, Sequence) or isinstance(got, str) or len(got) != 2:
        raise Wrong(f"a pair of seconds and a word is expected, got {shown(got)}.")
    seconds, word = got
    if _bound(seconds) and not _bound(word):
        raise Wrong(f"the seconds come first, then the word, got {shown(got)}.")
    if not (bound := _bound(word)):
        raise Wrong(f"the bound is 'arithmetic' or 'memory', got {shown(word)}.")
    return finite(seconds), bound


def _bound(word: object) -> str:
    """'arithmetic' or 'memory', whichever `word` means, else ''."""
    known = word.strip().lower().removesuffix("-bound") if isinstance(word, str) else ""
    return {"compute": "arithmetic", "arithmetic": "arithmetic", "memory": "memory"}.get(known, "")


def _plan(drawn: random.Random) -> Plan:
    """Sizes without collisions and a device: in about half of the plans memory is the bound."""
    while True:
        sizes = [round(10 ** drawn.uniform(0.5, 4.3)) for _ in range(3)]
        plan = dict(zip("BDK", sizes, strict=True)) | {
            "nbytes": drawn.choice((1, 2, 4)),
            "peak": 10 ** drawn.uniform(11, 15.5),
            "bandwidth": 10 ** drawn.uniform(10, 13),
        }
        arithmetic, memory = _times(**plan)
        if len(set(sizes)) == 3 and not isclose(arithmetic, memory, rel_tol=0.01):
            return plan


def _times(
    B: int, D: int, K: int, nbytes: int, peak: float, bandwidth: float
) -> tuple[float, float]:
    """Seconds that the arithmetic takes, and the memory."""
    return 2 * B * D * K / peak, (B * D + D * K + B * K) * nbytes / bandwidth


def _slips(
    B: int, D: int, K: int, nbytes: int, peak: float, bandwidth: float
) -> list[tuple[float, str]]:
    """What each likely mistake gives in this plan, and its sentence."""
    arithmetic, memory = _times(B, D, K, nbytes, peak, bandwidth)
    inputs = (B * D + D * K) * nbytes / bandwidth
    return [
        (
            min(arithmetic, memory),
            "it takes the shorter time: one waits for the longer one.",
        ),
        (arithmetic + memory, "it adds the two: at best they overlap, and the longer remains."),
        (arithmetic, "it looks at the arithmetic only."),
        (memory, "it looks at the memory only."),
        (max(arithmetic / 2, memory), "a multiply-add is two FLOPs."),
        (max(arithmetic, inputs), "the result is written, too."),
        (max(arithmetic, memory / nbytes), "memory moves bytes, not numbers."),
        (max(arithmetic, D * K * nbytes / bandwidth), "the rows that go in and come out move too."),
        (max(arithmetic, 8 * memory), "a byte has eight bits, and nbytes are bytes already."),
    ]


def _judge(plan: Plan, seconds: float, word: str) -> None:
    """Raise `Wrong` with what fails in the `plan`."""
    arithmetic, memory = _times(**plan)
    settings = ", ".join(f"{name}={value:.4g}" for name, value in plan.items())
    if seconds < 0:
        raise Wrong(f"for {settings} it gives a negative time.")
    if not isclose(seconds, max(arithmetic, memory), rel_tol=1e-6):
        way = "long" if seconds > max(arithmetic, memory) else "short"
        raise Wrong(f"for {settings} it gives {units.duration(seconds)}: too {way}.")
    if word != ("arithmetic" if arithmetic > memory else "memory"):
        raise Wrong(f"for {settings} the time is right, and {word} is not what it waits for.")


@exercise(
    "04.7",
    "How many bytes does one token read?",
    "Tokens per second = bytes per second / bytes per token.",
)
def ex04_7(answer: object) -> str:
    """Tokens per second of one user, at most."""
    right = 8 * 3.35e12 / (70e9 * 2)
    number(
        answer,
        right,
        within=0.01,
        unit="tokens per second",
        mistakes=[
            (2 * right, "bf16 has two bytes per parameter."),
            (right / 2, "that is fp32: bf16 has two bytes per parameter."),
            (right / 8, "that is one H100: eight deliver at the same time."),
            (1 / right, "those are the seconds per token."),
            (8 * 989.5e12 / (2 * 70e9), "that is the arithmetic's bound: memory is slower here."),
            (1000 / right, "those are the milliseconds per token."),
        ],
    )
    return "right: and for 100 users at once the same parameters, read once, serve 100 tokens."
