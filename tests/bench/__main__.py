"""Run the bench, print and save its report; exit with 1 if a figure is missed."""

import sys
from pathlib import Path
from time import perf_counter

from tests.bench import chapters, counting, feeding, rates, starting, timing, weighing
from tests.bench.machine import head
from tests.bench.report import Section, document, exit_status, verdicts

RESULTS = Path(__file__).with_name("results.md")
PARTS = (rates, timing, starting, counting, weighing, feeding, chapters)


def show(section: Section) -> None:
    """Print one section as it is finished."""
    print(f"\n== {section.title}")
    for shown in section.tables:
        print(f"\n{shown}")


def main() -> int:
    """The whole bench; the exit status."""
    began, sections = perf_counter(), []
    machine = head()
    print(machine)
    for part in PARTS:
        sections.append(part.section())
        show(sections[-1])
    figures = [figure for section in sections for figure in section.figures]
    RESULTS.write_text(document(machine, sections), encoding="utf-8")
    print(f"\n== Figures to reach\n\n{verdicts(figures)}")
    print(f"\nSaved as tests/bench/{RESULTS.name} after {perf_counter() - began:.0f} s.")
    return exit_status(figures)


if __name__ == "__main__":
    sys.exit(main())
