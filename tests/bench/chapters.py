"""How long each chapter takes from a kernel's start to its end, as nbval and Run All run it."""

from statistics import mean
from time import perf_counter

from course_utils.table import Table, table
from course_utils.workshop.execute import run
from course_utils.workshop.files import NOTEBOOKS
from tests.bench.report import Figure, Section
from tests.quiet import watch

MEAN, MOST = 20, 30  # seconds, on the reference machine: 2 cores without an accelerator
MOST_OF = {"10": 60}  # by chapter, where it is not MOST


def section() -> Section:
    """The part of the report on the chapters; their files are not touched."""
    took = {}
    with watch() as seen:
        for path in sorted(NOTEBOOKS.glob("*.ipynb")):
            began = perf_counter()
            run(path)
            took[path.stem] = perf_counter() - began
    return Section("Chapters", (_table(took, seen.share),), figures(took, seen.share))


def figures(took: dict[str, float], elsewhere: float) -> tuple[Figure, Figure]:
    """The verdicts on the seconds of all chapters: their mean, and the one nearest its limit."""
    average, nearest = mean(took.values()), max(took, key=lambda name: took[name] / most(name))
    return (
        Figure("chapters: seconds in the mean", f"{average:.1f}", f"≤ {MEAN}",
               average <= MEAN, elsewhere),
        Figure(f"chapters: seconds of {nearest}", f"{took[nearest]:.1f}",
               f"≤ {most(nearest)}, each its own", took[nearest] <= most(nearest), elsewhere),
    )  # fmt: skip


def most(chapter: str) -> int:
    """The seconds that a chapter may take at most."""
    return MOST_OF.get(chapter[:2], MOST)


def _table(took: dict[str, float], elsewhere: float) -> Table:
    rows = [(name, f"{seconds:.1f}", f"{most(name)}") for name, seconds in took.items()]
    note = f"Of the processors {elsewhere:.0%} went elsewhere meanwhile."
    return table(("chapter", "seconds", "at most"), rows, note=note)
