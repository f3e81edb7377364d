"""Checks of chapter 03's second half: an einsum timed, written, and put in order."""

import random
from collections.abc import Callable

import torch
from torch.overrides import TorchFunctionMode

from course_utils.check.exercise import Wrong, exercise, function, number
from course_utils.check.programs import called, different, normal, same, settings, values
from course_utils.check.timed import matmul_takes

FORBIDDEN = {"einsum", "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "tensordot", "mv", "dot",
             "inner", "outer", "linear"}  # fmt: skip
PATTERNS = 60  # random ones, after the fixed ones
FIXED = ("a b, b c -> a c", "a b, a c -> a b c", "a b, a b -> a b", "a b, b -> a", "a, b -> b a",
         "a b, c b -> c a", "a b c, c -> b", "a b, b c -> ")  # fmt: skip


@exercise(
    "03.7",
    "The names are b, n and m, and all three have the size n.",
    "n³ = seconds × FLOP/s / 2, with the rate that your machine reaches at that size.",
    measured=True,
)
def ex03_7(answer: object) -> str:
    """An einsum that takes 5 ms here, predicted and measured."""
    return matmul_takes(answer, 0.005)


@exercise(
    "03.8",
    "Give both inputs a dimension for every letter, in one order; of size 1 where one lacks it.",
    "permute puts an input's letters into that order, and indexing with None adds the others.",
    "Multiply, by broadcasting, and sum over the letters that the result lacks: put those last.",
)
def ex03_8(answer: object) -> str:
    """Einsum of two inputs, by broadcasting."""
    mine = function(answer, "a function my_einsum(pattern, x, y)")
    drawn = random.Random()
    for pattern in [*FIXED, *(_pattern(drawn) for _ in range(PATTERNS))]:
        _try_einsum(mine, pattern)
    return f"right for {PATTERNS} random patterns. Einsum is a loop over names, and no more."


class _NoMatmul(TorchFunctionMode):
    """Refuses, while it is active, what would do the exercise's work."""

    def __torch_function__(
        self, func: Callable, types: object, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        """Run `func`, or raise `Wrong` if it is an einsum or a matmul."""
        if getattr(func, "__name__", "") in FORBIDDEN:
            raise Wrong(f"{func.__name__} does it for you: use permute, broadcasting, * and sum.")
        return func(*args, **(kwargs or {}))


def _pattern(drawn: random.Random) -> str:
    letters = drawn.sample("abcdefgh", drawn.randint(1, 4))
    left = drawn.sample(letters, drawn.randint(1, len(letters)))
    right = drawn.sample(letters, drawn.randint(1, len(letters)))
    known = sorted({*left, *right})
    kept = drawn.sample(known, drawn.randint(0, len(known)))
    return f"{' '.join(left)}, {' '.join(right)} -> {' '.join(kept)}"


def _try_einsum(mine: Callable, pattern: str) -> None:
    """Raise `Wrong` if `mine` differs from torch.einsum on this pattern with random sizes."""
    inputs, result = pattern.split("->")
    letters = [side.split() for side in inputs.split(",")]
    sizes = dict(zip("abcdefgh", different(8, 2, 9), strict=True))
    x, y = (normal(*(sizes[letter] for letter in side)) for side in letters)
    wanted = torch.einsum(pattern.replace(" ", ""), x, y)
    with _NoMatmul():
        got = values(called(lambda x, y: mine(pattern, x, y), x=x, y=y))
    shapes = f"{tuple(x.shape)} and {tuple(y.shape)}"
    if got.shape != wanted.shape:
        raise Wrong(
            f"{pattern!r} of {shapes} must be {tuple(wanted.shape)}, got {tuple(got.shape)}."
        )
    if not torch.allclose(got, wanted, rtol=1e-4, atol=1e-4):
        lost = sorted({*letters[0], *letters[1]} - set(result.split()))
        why = f" Is it summed over {', '.join(lost)}, and nothing else?" if lost else ""
        raise Wrong(f"{pattern!r}: the shape is right, the values are not.{why}")


@exercise(
    "03.9",
    "Give each argument a kind and names for its dimensions; a type checker looks at each call.",
    "Where a name stands twice, both sizes must agree: batch and token stand in x and in mask.",
    "Bool[Tensor, ...] is a mask; @jaxtyped(typechecker=beartype) makes the call look.",
)
def ex03_9(answer: object) -> str:
    """A function that refuses wrong shapes and kinds when it is called."""
    pool = function(answer, "a function of x and mask")
    for drawn in settings(3):
        batch, token, width = (size + 1 for size in drawn)  # one row would fit every batch
        x, mask = normal(batch, token, width), normal(batch, token) < 0
        mask[:, 0] = True  # at least one token of each is kept
        wanted = (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        same(called(pool, x=x, mask=mask), wanted, {})
        for what, call in _wrong_calls(x, mask).items():
            if _accepts(pool, *call):
                raise Wrong(f"{what} is accepted without an error.")
    return "right: whoever calls it wrongly learns it there, and not three functions later."


def _wrong_calls(x: torch.Tensor, mask: torch.Tensor) -> dict[str, tuple[object, object]]:
    """Arguments that do not fit, each with what they are."""
    return {
        "a mask of numbers": (x, mask.float()),
        "a mask of one row for a whole batch": (x, mask[:1]),
        "a mask of one token for a whole row": (x, mask[:, :1]),
        "a mask without a batch": (x, mask[0]),
        "an x of whole numbers": (x.long(), mask),
        "an x of one row for many masks": (x[:1], mask),
        "an x without a width": (x[..., 0], mask),
        "a list in place of x": (x.tolist(), mask),
    }


def _accepts(pool: Callable, x: object, mask: object) -> bool:
    """Whether the call raises no error."""
    try:
        pool(x, mask)
    except Exception:  # of whatever kind the type checker raises
        return False
    return True


@exercise(
    "03.10",
    "Write down the FLOPs of both orders: each is two matmuls.",
    "What shape has the result of the first matmul in each order?",
)
def ex03_10(answer: object) -> str:
    """The cheaper order of three matrices."""
    number(
        answer,
        400_000,
        within=1e-9,
        unit="FLOPs",
        mistakes=[
            (200_000, "those are multiplications, or one of the two matmuls."),
            (40_000_000, "that is the dearer order: B @ C is 1000 × 1000."),
            (20_000_000, "that is half of the dearer order."),
            (2 * 10 * 1000 * 10 * 1000, "that is all names in one product: two matmuls are less."),
            (100_000, "those are the multiplications of one of the two matmuls."),
            (40_400_000, "that is both orders together: you choose one."),
        ],
    )
    return "right: a hundred times less than the other order. Parentheses are not for free."
