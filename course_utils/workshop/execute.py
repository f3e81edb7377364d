"""Run notebooks and save them exactly as JupyterLab would, so that a diff shows real changes."""

import os
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from course_utils.session import VARIABLE

from .files import WorkshopError, without_outputs, write_notebook

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
SECONDS_PER_CELL = 900  # far more than any cell needs: only one that hangs is ended
PATIENCE = 600  # seconds for a kernel to start or to answer


def execute(path: Path) -> None:
    """Run the notebook at `path` in a fresh kernel and save it with its outputs.

    Raises:
        WorkshopError: a cell failed or wrote to stderr, or the file cannot be written. The file
            then stays as it was.
    """
    notebook = run(path)
    for cell in _code_cells(notebook):
        _refuse_stderr(cell, path)
        cell.outputs = _as_saved(cell.outputs)
    write_notebook(notebook, path)


def run(path: Path) -> NotebookNode:
    """The notebook at `path`, run from top to bottom in its folder; the file is not touched."""
    notebook = _unrun(nbformat.read(path, as_version=4))
    client = NotebookClient(
        notebook,
        kernel_name=KERNELSPEC["name"],
        timeout=SECONDS_PER_CELL,
        startup_timeout=PATIENCE,
        iopub_timeout=PATIENCE,
        record_timing=False,
        store_widget_state=False,
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
        resources={"metadata": {"path": str(path.parent)}},
    )
    # A terminal of the learner's JupyterLab names their progress: an author's run is not theirs.
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    try:
        return client.execute(env=environment)
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        raise WorkshopError(f"{path.name} is left as it was: {error}") from error


def _unrun(notebook: NotebookNode) -> NotebookNode:
    notebook.metadata.kernelspec = KERNELSPEC
    notebook.metadata.pop("widgets", None)
    notebook.nbformat_minor = max(notebook.nbformat_minor, 5)
    for cell in _code_cells(notebook):
        cell.metadata.pop("execution", None)
    return without_outputs(notebook)


def _code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _refuse_stderr(cell: NotebookNode, path: Path) -> None:
    for output in cell.outputs:
        if output.get("name") == "stderr":
            raise WorkshopError(
                f"{path.name} is left as it was: cell {cell.execution_count}, "
                f"{cell.source.splitlines()[0]!r}, wrote to stderr: {output.text.strip()}"
            )


def _as_saved(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Without widget views, and with neighbouring pieces of one stream joined, as Lab does."""
    saved: list[NotebookNode] = []
    for output in outputs:
        output.get("data", {}).pop(WIDGET_VIEW, None)
        if saved and output.get("name") and output.get("name") == saved[-1].get("name"):
            saved[-1].text += output.text
        else:
            saved.append(output)
    return saved
