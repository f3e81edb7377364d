"""What a bench run found: tables, figures with their verdicts, and the markdown that is saved."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from course_utils.table import Table, table
from tests.quiet import noise


@dataclass(frozen=True)
class Figure:
    """One figure to reach: what was found, what is asked, and whether that is met.

    `elsewhere` is the share of the processors that went elsewhere while it was measured, for
    figures that depend on it.
    """

    name: str
    found: str
    wanted: str
    met: bool
    elsewhere: float = 0.0

    @property
    def verdict(self) -> str:
        """In words: met, not met, or not met on a machine that was not quiet."""
        if self.met:
            return "met"
        excuse = noise(self.elsewhere)
        return f"not met ({excuse})" if excuse else "not met"

    @property
    def failed(self) -> bool:
        """Whether this speaks against the instruments: missed, and nothing else to blame."""
        return not self.met and not noise(self.elsewhere)


@dataclass(frozen=True)
class Section:
    """One part of the report."""

    title: str
    tables: tuple[Table, ...]
    figures: tuple[Figure, ...] = ()


def verdicts(figures: Iterable[Figure]) -> Table:
    """All figures in one table, each with its verdict."""
    rows = [(f.name, f.found, f.wanted, f.verdict) for f in figures]
    return table(("figure", "found", "to reach", "verdict"), rows)


def exit_status(figures: Iterable[Figure]) -> int:
    """1 if a figure was missed that a busy machine does not excuse, else 0."""
    return int(any(figure.failed for figure in figures))


def ratio(found: float, formula: float) -> str:
    """`found` over `formula` with three decimals; more where those would hide a difference."""
    value = found / formula
    if found != formula and f"{value:.3f}" == "1.000":
        return f"{value:.9f}".rstrip("0")
    return f"{value:.3f}"


def worst(values: Sequence[float], around: float = 1.0) -> float:
    """The value farthest from `around`, in proportion."""
    return max(values, key=lambda value: max(value / around, around / value))


def share(count: int, missed: Sequence[str]) -> str:
    """How many of `count` were right, and the names of those that were not."""
    right = f"{count - len(missed)} of {count}"
    return f"{right}, not: {', '.join(missed)}" if missed else right


def difference(ours: int, theirs: int) -> str:
    """`ours` − `theirs` in bytes, with its sign."""
    return f"{ours - theirs:+,}" if ours != theirs else "0"


def markdown(what: Table) -> str:
    """The table in markdown, its note below."""
    lines = [what.columns, ["---"] * len(what.columns), *what.rows]
    text = "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)
    title = f"**{what.title}**\n\n" if what.title else ""
    return title + text + (f"\n\n{what.note}" if what.note else "")


def document(head: Table, sections: Sequence[Section]) -> str:
    """The whole report: machine and versions, verdicts, then every section's tables."""
    figures = [figure for section in sections for figure in section.figures]
    parts = [
        "# The instruments beside their peers",
        "Written by `make bench`; each run overwrites it.",
        markdown(head),
        "## Figures to reach",
        markdown(verdicts(figures)),
    ]
    for section in sections:
        parts += [f"## {section.title}", *map(markdown, section.tables)]
    return "\n\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
