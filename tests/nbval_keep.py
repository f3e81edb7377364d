"""Pytest plugin: with `--keep-outputs FOLDER`, each notebook nbval ran is kept there as it ran."""

from itertools import groupby
from pathlib import Path

import nbformat
from nbval.plugin import IPyNbCell


def pytest_addoption(parser):
    group = parser.getgroup("nbval")
    group.addoption("--keep-outputs", type=Path, help="folder for the notebooks with new outputs")


def pytest_sessionfinish(session):
    folder = session.config.option.keep_outputs
    if folder is None:
        return
    cells = [item for item in session.items if isinstance(item, IPyNbCell)]
    for parent, ran in groupby(cells, key=lambda item: item.parent):
        book = nbformat.read(parent.path, as_version=4)
        code = [cell for cell in book.cells if cell.cell_type == "code"]
        for item in ran:
            code[item.cell_num].outputs = item.test_outputs or []
        nbformat.write(book, folder / parent.path.name)
