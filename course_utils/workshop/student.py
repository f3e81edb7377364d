"""Copies of the notebooks for handing out: no solutions, no outputs."""

from pathlib import Path

import nbformat

from .files import NOTEBOOKS, STUDENT, chapters, copy, write_notebook


def make_copies(student: Path = STUDENT, notebooks: Path = NOTEBOOKS) -> list[Path]:
    """Write the student's version of every notebook to `student`; returns the files.

    Files of the same names are replaced.

    Raises:
        WorkshopError: there are no notebooks, or `student` cannot be written.
    """
    written = []
    for source in chapters(notebooks):
        notebook = without_outputs(without_solutions(nbformat.read(source, as_version=4)))
        write_notebook(notebook, student / source.name)
        written.append(student / source.name)
    for source in notebooks.glob("glossary.md"):
        copy(source, student / source.name)
        written.append(student / source.name)
    return written


def without_solutions(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """`notebook` without the cells tagged `solution` and the heading "Solution" above each."""
    kept: list[nbformat.NotebookNode] = []
    for cell in notebook.cells:
        if "solution" not in cell.metadata.get("tags", []):
            kept.append(cell)
        elif kept and _is_solution_heading(kept[-1]):
            kept.pop()
    notebook.cells = kept
    return notebook


def without_outputs(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """`notebook` as if it had never been run."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook


def _is_solution_heading(cell: nbformat.NotebookNode) -> bool:
    is_heading = cell.cell_type == "markdown" and cell.source.startswith("#")
    return is_heading and cell.source.lstrip("# ").startswith("Solution")
