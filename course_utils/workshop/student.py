"""Copies of the notebooks for handing out: no solutions, no outputs."""

from itertools import pairwise
from pathlib import Path

import nbformat
from nbconvert.preprocessors import TagRemovePreprocessor

from .files import NOTEBOOKS, PICTURES, STUDENT, chapters, copy, without_outputs, write_notebook

SOLUTION = "solution"  # the tag


def make_copies(student: Path = STUDENT, notebooks: Path = NOTEBOOKS) -> list[Path]:
    """Write the student's version of every notebook to `student`; returns the files.

    Files of the same names are replaced.

    Raises:
        WorkshopError: there are no notebooks, or `student` cannot be written.
    """
    written = []
    for source in chapters(notebooks):
        write_notebook(_handed_out(nbformat.read(source, as_version=4)), student / source.name)
        written.append(student / source.name)
    for source in [*notebooks.glob("glossary.md"), *notebooks.glob(PICTURES)]:
        copy(source, student / source.name)
        written.append(student / source.name)
    return written


def _handed_out(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """`notebook` less its solutions, the heading "Solution" over each, and all outputs."""
    for heading, cell in pairwise(notebook.cells):
        if SOLUTION in cell.metadata.get("tags", []) and _is_solution_heading(heading):
            heading.metadata.setdefault("tags", []).append(SOLUTION)
    notebook, _ = TagRemovePreprocessor(remove_cell_tags={SOLUTION}).preprocess(notebook, {})
    return without_outputs(notebook)


def _is_solution_heading(cell: nbformat.NotebookNode) -> bool:
    is_heading = cell.cell_type == "markdown" and cell.source.startswith("#")
    return is_heading and cell.source.lstrip("# ").startswith("Solution")
