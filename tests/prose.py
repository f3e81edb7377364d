"""Reads what the chapters say: sentences of their prose, and the numbers in them."""

import re
from decimal import Decimal
from functools import cache

import nbformat

from course_utils.workshop.files import find_chapter

NUMBER = r"([-−]?\d+(?: \d{3})*(?:\.\d+)?(?:e[-−]?\d+)?)"


@cache
def cells(chapter: str) -> list[str]:
    """The markdown cells of a chapter, each on one line."""
    notebook = nbformat.read(find_chapter(chapter), as_version=4)
    found = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    return [" ".join(re.sub("^>", "", text, flags=re.MULTILINE).split()) for text in found]


def numbers(chapter: str, sentence: str) -> list[str]:
    """What stands for each {} of `sentence`, which exactly one prose cell of `chapter` says."""
    pattern = NUMBER.join(map(re.escape, sentence.split("{}")))
    found = [match for cell in cells(chapter) for match in re.finditer(pattern, cell)]
    assert len(found) == 1, f"chapter {chapter} says {len(found)} times, not once: {sentence}"
    return list(found[0].groups())


def says(chapter: str, sentence: str, *values: float) -> None:
    """Hold what stands for each {} to its value: a whole number exactly, others as rounded."""
    for written, value in zip(numbers(chapter, sentence), values, strict=True):
        assert agree(written, value), f"chapter {chapter} says {written}, not {value}: {sentence}"


def agree(written: str, value: float) -> bool:
    stated = Decimal(written.replace(" ", "").replace("−", "-"))
    if isinstance(value, int):
        return stated == value
    if "." not in written:
        stated = stated.normalize()  # 27 000 stands for thousands
    unit = Decimal((0, (1,), stated.as_tuple().exponent))
    return abs(stated - Decimal(value)) <= unit / 2
