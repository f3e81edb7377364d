"""Checks of chapter 01's second half: what memory a tensor keeps, and what moving it takes."""

from itertools import product

import torch

from course_utils.check.exercise import Wrong, exercise, function, number
from course_utils.check.programs import called, equal, normal, sizes, values
from course_utils.check.timed import copy_takes


@exercise(
    "01.6",
    "Which storage does a row of x keep alive?",
    "Compare numel · element_size with untyped_storage().nbytes() of what you return.",
    "A copy of the row has a storage of its own: which function always copies?",
)
def ex01_6(answer: object) -> str:
    """Fix the leak."""
    first_row = function(answer, "a function of x")
    rows, width = sizes(2)
    for x in (normal(rows, width), normal(width, rows).T):
        raw = called(first_row, x=x)
        got = values(raw)
        if tuple(got.shape) != (width,):
            raise Wrong(f"x[0] has shape ({width},), got shape {tuple(got.shape)}.")
        if got.dtype != x.dtype:
            raise Wrong(f"the dtype must be that of x, {x.dtype}, got {got.dtype}.")
        if not equal(got, x[0]):
            raise Wrong("the shape is right, but the values are not those of x[0].")
        kept, needed = raw.untyped_storage().nbytes(), got.nbytes
        if kept > needed:
            raise Wrong(f"it needs {needed} bytes and still keeps {kept} alive.{_leak(raw, x)}")
    return "right: the copy owns its few bytes, and the large storage can be freed."


def _leak(got: torch.Tensor, x: torch.Tensor) -> str:
    """Why the storage of `got` is larger than it."""
    if got.untyped_storage().data_ptr() != x.untyped_storage().data_ptr():
        return " You copied all of x and then took a row of the copy: take the row first."
    return " It is a view of x. (contiguous() does not help: a row is in order already.)"


@exercise(
    "01.7",
    "A copy reads 4 bytes per number and writes 4.",
    "n = seconds × rate / 8. The rate depends on the size: time your first n, and correct it.",
    measured=True,
)
def ex01_7(answer: object) -> str:
    """A copy that takes 0.2 ms here, predicted and measured."""
    return copy_takes(answer, 0.0002, torch.float32)


@exercise(
    "01.8",
    "A window over a row needed one more dimension with the same stride. A patch needs two.",
    "What do x.stride(0) and x.stride(1) say about one step down, and one to the right?",
    "A patch begins wherever there is room for it, and x may begin anywhere in its storage.",
)
def ex01_8(answer: object) -> str:
    """Every patch of a matrix, on the same storage."""
    patches = function(answer, "a function of x, height and width")
    for rows, columns, height, width in _patch_sizes():
        for x in _matrices(rows, columns):
            raw = called(patches, x=x, height=height, width=width)
            _judge_patches(raw, x, height, width)
    return "right: every number is read in many patches, and not one byte was added."


def _patch_sizes() -> list[tuple[int, int, int, int]]:
    height, width, *more = sizes(4)
    tall, wide = height + more[0], width + more[1]
    return [(tall, wide, height, width), (height, width, height, width), (tall, wide, 1, width)]


def _matrices(rows: int, columns: int) -> list[torch.Tensor]:
    """The same shape four times: in order, transposed, from the middle of a larger one, stepped."""
    return [
        normal(rows, columns),
        normal(columns, rows).T,
        normal(rows + 3, columns + 4)[2 : rows + 2, 1 : columns + 1],
        normal(2 * rows, 3 * columns)[::2, ::3],
    ]


def _judge_patches(raw: object, x: torch.Tensor, height: int, width: int) -> None:
    got, wanted = values(raw), _patches(x, height, width)
    if got.shape != wanted.shape:
        asked = f"for x of shape {tuple(x.shape)} and patches of {height} × {width}"
        raise Wrong(f"{asked} the shape must be {tuple(wanted.shape)}, got {tuple(got.shape)}.")
    if not equal(got, wanted):
        raise Wrong(f"the shape is right, but not every patch is.{_which(got, x, height, width)}")
    if raw.untyped_storage().data_ptr() != x.untyped_storage().data_ptr():
        raise Wrong("the values are right, but they are a copy: the storage must be that of x.")


def _patches(x: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """Made by slicing, patch by patch."""
    rows, columns = x.shape[0] - height + 1, x.shape[1] - width + 1
    every = [x[i : i + height, j : j + width] for i, j in product(range(rows), range(columns))]
    return torch.stack(every).view(rows, columns, height, width)


def _which(got: torch.Tensor, x: torch.Tensor, height: int, width: int) -> str:
    """What a likely mistake gives, if `got` is that."""
    down, right = x.stride()
    shape, begin = got.shape, x.storage_offset()
    mistakes = {
        " You started at cell 0: x may begin elsewhere.": ((down, right, down, right), 0),
        " You took the strides of a contiguous matrix: ask x for its own.": (
            (x.shape[1], 1, x.shape[1], 1),
            begin,
        ),
        " Down and right are exchanged.": ((right, down, right, down), begin),
        " Within a patch, down and right are exchanged.": ((down, right, right, down), begin),
    }
    for words, (steps, offset) in mistakes.items():
        last = offset + sum((n - 1) * step for n, step in zip(shape, steps, strict=True))
        fits = last < x.untyped_storage().nbytes() // x.element_size()
        if fits and equal(got, x.as_strided(shape, steps, offset)):
            return words
    return ""


@exercise(
    "01.9",
    "How many cells lie between x[0, 0] and x[1, 0]? And from there to x[1, 1]?",
    "One step along the diagonal is one step down and one to the right.",
)
def ex01_9(answer: object) -> str:
    """The stride of a diagonal."""
    number(
        answer,
        701,
        within=1e-9,
        mistakes=[
            (700, "that is a step straight down."),
            (1, "that is a step to the right."),
            (500, "that is the number of rows: a step down jumps over the length of a row."),
            (501, "one step down jumps over a row, and a row has as many numbers as columns."),
            (699, "that leads down and to the left."),
            (2804, "those are bytes: a stride is counted in elements."),
            (2, "a step down jumps over a whole row."),
        ],
    )
    return "right: a row down and one to the right, in a single stride."
