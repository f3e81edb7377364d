"""How results show themselves: a small table or a line, as plain text and as HTML."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from course_utils.units import MEASURED

IDS = ("section", "exercise")  # columns of names such as 04.10, which are no numbers


@dataclass(frozen=True)
class Table:
    """Rows of text under `columns`; `note` is a sentence that stands below.

    A cell that begins with ≈ is a live value: the plain text leaves it unpadded, so that only the
    value itself differs between two machines.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(
                    f"a row must have {len(self.columns)} cells, got {len(row)}: {row}"
                )

    def __repr__(self) -> str:
        widths = [
            _width([head, *cells]) for head, *cells in zip(self.columns, *self.rows, strict=True)
        ]
        rule = "-+-".join("-" * width for width in widths)
        lines = [_line(self.columns, widths), rule, *(_line(row, widths) for row in self.rows)]
        return "\n".join([*filter(None, [self.title]), *lines, *filter(None, [self.note])])

    def _repr_html_(self) -> str:
        sides = [
            "left" if head in IDS else _side([row[i] for row in self.rows])
            for i, head in enumerate(self.columns)
        ]
        head = _cells("th", self.columns, sides)
        body = "\n".join(f"<tr>{_cells('td', row, sides)}</tr>" for row in self.rows)
        title = f"<p><b>{escape(self.title)}</b></p>\n" if self.title else ""
        note = f"\n<p>\n{escape(self.note)}\n</p>" if self.note else ""
        return f"{title}<table>\n<tr>{head}</tr>\n{body}\n</table>{note}"


class Result:
    """What an instrument or a comparison found: it shows itself, and says what speaks against it.

    `doubt` is one sentence on why it is not to be trusted, '' if nothing is known against it.
    Subclasses give what is shown: a `Table`, or one line of text.
    """

    doubt: str = ""

    @property
    def trusted(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.doubt

    def shown(self) -> "Table | str":
        """What a notebook shows."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return str(self.shown())

    def _repr_html_(self) -> str:
        shown = self.shown()
        return shown._repr_html_() if isinstance(shown, Table) else f"<p>{escape(shown)}</p>"


class Sentence(str):
    """A text that a notebook shows without quotes."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<p>\n{escape(self)}\n</p>"


def first_doubt(*values: object) -> str:
    """The first doubt among results; what is no result, such as a plain number, has none."""
    return next(filter(None, (getattr(value, "doubt", "") for value in values)), "")


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], **texts: str) -> Table:
    """A `Table` from any sequences; every cell is turned into text."""
    lines = tuple(tuple(str(cell) for cell in row) for row in rows)
    return Table(tuple(columns), lines, **texts)


def _is_live(cell: str) -> bool:
    return cell.startswith(MEASURED)


def _width(cells: Sequence[str]) -> int:
    return max((len(cell) for cell in cells if not _is_live(cell)), default=0)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (c if _is_live(c) else c.ljust(w) for c, w in zip(cells, widths, strict=True))
    return " | ".join(padded).rstrip()


def _side(cells: Sequence[str]) -> str:
    """Numbers stand to the right, one under the other; words, and live values, to the left."""
    fixed = [cell for cell in cells if not _is_live(cell)]
    numbers = fixed and all(re.match(r"[-+−]?[\d.]", cell) for cell in fixed)
    return "right" if numbers else "left"


def _cells(tag: str, row: Sequence[str], sides: Sequence[str]) -> str:
    return "".join(
        f'<{tag} style="text-align: {side}">{escape(cell)}</{tag}>'
        for cell, side in zip(row, sides, strict=True)
    )
