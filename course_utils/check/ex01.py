"""Checks of chapter 01: tensors, storage, strides."""

from collections.abc import Iterator, Mapping
from numbers import Real

import torch

from course_utils.arguments import shown
from course_utils.check.exercise import Wrong, exercise, function, number
from course_utils.check.programs import called, different, equal, normal, values

KINDS = {
    "x[1:]": "view",
    "x.T": "view",
    "x.view(8, 2)": "view",
    "x.expand(2, 4, 4)": "view",
    "x.clone()": "copy",
    "x + 0": "copy",
    "x.T.contiguous()": "copy",
    "x.contiguous()": "view",
    "x.T.reshape(16)": "copy",
    "x[[0, 1]]": "copy",
}
REMARKS = {
    "x[1:]": "the slice: start, stop and step change offset, shape and stride.",
    "x.T": "the transpose: does any number have to move?",
    "x.view(8, 2)": "view, which raises an error when it would have to copy.",
    "x.expand(2, 4, 4)": "expand: which stride repeats a dimension?",
    "x.clone()": "clone, which does the same whatever it is given.",
    "x + 0": "the addition: where do its results go?",
    "x.T.contiguous()": "contiguous of a transpose: is its order in storage already?",
    "x.contiguous()": "contiguous of x itself: is its order in storage already?",
    "x.T.reshape(16)": "the reshape of a transpose: is there one stride that reads it?",
    "x[[0, 1]]": "indexing with a list, which could pick any rows in any order.",
}


@exercise(
    "01.1",
    "Write down the strides of x first: the last is 1, each one to the left is the product of the "
    "sizes to its right.",
    "permute moves strides with their dimensions; it changes none of them.",
    "A slice with step s multiplies that dimension's stride by s; a start changes the offset only.",
)
def ex01_1(answer: object) -> str:
    """The strides of a permuted, sliced tensor."""
    got = _whole_numbers(answer, 3)
    mistakes = {
        (48, 8, 1): "those are x's own strides: permute(2, 0, 1) reorders them.",
        (1, 48, 8): "the step of the slice is missing: x[::2] moves two at a time.",
        (18, 6, 1): "those are the strides of a contiguous copy; a view keeps the storage.",
        (24, 6, 1): "those are the strides of a contiguous copy; a view keeps the storage.",
        (2, 48, 1): "permute(2, 0, 1) puts x's dimensions 2, 0, 1 in this order: the last is "
        "dimension 1, whose stride is not 1.",
        (4, 3, 6): "that is the shape of y; a stride says how far one step moves in storage.",
        (8, 192, 32): "those are bytes; a stride counts elements.",
        (16, 1, 48): "permute(2, 0, 1) was read the other way round: dimension 0 of the result "
        "is x's dimension 2.",
    }
    _expect(got, (2, 48, 8), mistakes, "permute reorders the strides, the step multiplies one.")
    return (
        "right: permute reorders the strides, a step multiplies one, a start only moves the offset."
    )


@exercise(
    "01.2",
    "Position = offset + Σ index × stride.",
    "The strides are those of exercise 01.1; the offset is where y[0, 0, 0] lies.",
    "The slice [:, 1:] starts one step later along that dimension: how many cells is one step?",
)
def ex01_2(answer: object) -> str:
    """Where an element lies in storage."""
    number(
        answer,
        170,
        within=0,
        mistakes=[
            (122, "the offset is missing: y does not begin where x begins."),
            (171, "positions count from 0."),
            (123, "the offset is missing, and positions count from 0."),
            (169, "the step of the slice is missing: it takes every second."),
            (121, "the offset is missing, and the step of the slice too."),
            (680, "that is in bytes; the question is in elements."),
        ],
    )
    return "right: 48 + 1·2 + 2·48 + 3·8."


@exercise(
    "01.3",
    "A view only changes shape, stride and offset.",
    "Ask of each: is there a shape, stride and offset that reads the old storage in the new order?",
    "contiguous and reshape copy only when they have to.",
)
def ex01_3(answer: object) -> str:
    """Ten operations: view or copy."""
    if not isinstance(answer, Mapping):
        raise Wrong(f"a dict from operation to 'view' or 'copy' is expected, got {shown(answer)}.")
    missing = [name for name in KINDS if name not in answer]
    if missing:
        raise Wrong(f"{len(missing)} of 10 are missing, among them {missing[0]}.")
    unanswered = [name for name in KINDS if answer[name] is None]
    given = {name: str(answer[name]).strip().lower() for name in KINDS}
    odd = [name for name in KINDS if given[name] not in ("view", "copy", "none")]
    if odd:
        raise Wrong(f"{odd[0]} must be 'view' or 'copy', got {shown(answer[odd[0]])}.")
    if unanswered:
        raise Wrong(f"{10 - len(unanswered)} of 10 answered; the next open one is {unanswered[0]}.")
    wrong = [name for name, kind in KINDS.items() if given[name] != kind]
    if wrong:
        raise Wrong(f"{10 - len(wrong)} of 10 are right. Look again at {REMARKS[wrong[0]]}")
    return "all ten right. Only the storage pointer decides, and you read it without running."


@exercise(
    "01.4",
    "torch.arange(T) holds the positions. Which two of its views give a T × T table when compared?",
    "A query may look at its own position and at earlier ones: key ≤ query.",
    "Queries are the rows of the table. Which of the two views must vary along a row?",
)
def ex01_4(answer: object) -> str:
    """A causal mask from broadcasting."""
    make = function(answer, "a function of T")
    for T in (*different(2, 3, 20), 1):
        got = values(make(T))
        if tuple(got.shape) != (T, T):
            raise Wrong(f"for T = {T} the shape must be ({T}, {T}), got {tuple(got.shape)}.")
        if got.dtype != torch.bool:
            raise Wrong(f"the dtype must be torch.bool, as a comparison gives, got {got.dtype}.")
        wanted = torch.ones(T, T, dtype=torch.bool, device="cpu").tril()
        mistakes = {
            "transposed: each query sees the future. Rows are queries.": wanted.T,
            "inverted: True must mark the keys that a query may see.": ~wanted,
            "the diagonal is missing: a query sees its own position too.": wanted.tril(-1),
            "every query sees every key there, the future too.": torch.ones_like(wanted),
        }
        if not got.equal(wanted):
            known = [reason for reason, mask in mistakes.items() if got.equal(mask)]
            which = f"for T = {T}, query 0 must see key 0 only, query 1 keys 0 and 1, and so on."
            raise Wrong([*known, which][0])
    return "right. With broadcasting it takes one comparison: T positions against T positions."


@exercise(
    "01.5",
    "The windows overlap, so they must share storage cells. Which strides read cell 1 twice?",
    "A step to the next window moves by one element of x; a step within a window does too.",
    "as_strided(size, stride, offset) reads any pattern. But x may be a view: where does it begin, "
    "and how far apart do its elements lie?",
)
def ex01_5(answer: object) -> str:
    """A sliding window without copying."""
    windows = function(answer, "a function of x and width")
    for x, width in _rows_and_widths():
        got, count = values(called(windows, x=x, width=width)), len(x) - width + 1
        if tuple(got.shape) != (count, width):
            wanted = f"{len(x)} elements, width {width}: shape must be {(count, width)}"
            raise Wrong(f"{wanted}, got {tuple(got.shape)}.{_misshapen(got, count, width)}")
        rows = torch.stack([x[i : i + width] for i in range(count)])
        if not equal(got, rows):
            hint = " Use x's own stride and offset: it may be a view." * (x.storage_offset() > 0)
            raise Wrong(f"row i must be x[i : i + width]; some rows are not.{hint}")
        x.neg_()  # which a view of x shows
        if not equal(got, -rows):
            raise Wrong("the values are right, but they were copied: the storage is a new one.")
    return "right: width × more elements to read, not a byte more to store."


def _rows_and_widths() -> Iterator[tuple[torch.Tensor, int]]:
    """Rows, among them views, and widths of windows, of which each row has more than width + 1."""
    length = different(1, 11, 19)[0]
    width, offset, step = different(3, 2, 5)
    yield normal(length + 3)[:length], width  # with cells behind it, for a window too many
    yield normal(length + offset)[offset:], width
    yield normal(offset + length * step)[offset::step], width
    yield normal(length), 1
    yield normal(length), length


def _misshapen(got: torch.Tensor, count: int, width: int) -> str:
    """What is wrong with windows of this shape, if it shows; else ''."""
    if tuple(got.shape) == (width, count):
        return " Transposed: each row is a window."
    return " There are n − width + 1 windows." if got.shape[1:] == (width,) else ""


def _whole_numbers(answer: object, length: int) -> tuple[int, ...]:
    if not isinstance(answer, (tuple, list)):
        raise Wrong(f"a tuple of {length} whole numbers is expected, got {shown(answer)}.")
    if len(answer) != length:
        raise Wrong(f"one number a dimension is expected, {length} in all, got {len(answer)}.")
    answer = [getattr(value, "item", lambda v=value: v)() for value in answer]
    for value in answer:
        if isinstance(value, bool) or not isinstance(value, Real) or value != value // 1:
            raise Wrong(f"whole numbers are expected, got {shown(value)}.")
    return tuple(int(value) for value in answer)


def _expect(
    got: tuple[int, ...],
    right: tuple[int, ...],
    mistakes: Mapping[tuple[int, ...], str],
    else_: str,
) -> None:
    if got == right:
        return
    if got in mistakes:
        raise Wrong(mistakes[got])
    if sorted(got) == sorted(right):
        raise Wrong("the right numbers in another order: follow each dimension through permute.")
    good = sum(a == b for a, b in zip(got, right, strict=True))
    raise Wrong(f"{good} of {len(right)} are right. Remember: {else_}")
