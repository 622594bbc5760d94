"""Run the notebooks of `examples/library` with the bundled model; only `tox -e notebooks` does this."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "library").glob("*.ipynb"))
nbformat = pytest.importorskip("nbformat", reason="tox -e notebooks brings it")
nbclient = pytest.importorskip("nbclient", reason="tox -e notebooks brings it")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_to_its_end_and_its_last_cell_shows_a_picture(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert cells[0].source.startswith("%pip install")
    notebook.cells.remove(cells[0])  # the package is already installed

    nbclient.NotebookClient(notebook, timeout=1800, resources={"metadata": {"path": str(tmp_path)}}).execute()

    assert "image/png" in shown(cells[-1])
    assert any("text/html" in shown(cell) for cell in cells)
    if "JSBENCH_WRITE_NOTEBOOKS" in os.environ:
        executed = nbformat.read(path, as_version=4)
        for cell, kept in zip(cells[1:], [one for one in executed.cells if one.cell_type == "code"][1:], strict=True):
            kept.outputs = [output for output in cell.outputs if remains(output)]
            kept.execution_count = cell.execution_count
        nbformat.write(executed, path)


def remains(output: Any) -> bool:
    """Return whether the output remains after the cell has run; a progress bar then shows 0."""
    return output.get("name") != "stderr" and "application/vnd.jupyter.widget-view+json" not in output.get("data", {})


def shown(cell: Any) -> set[str]:
    """Return the types of a cell's outputs."""
    return {kind for output in cell.outputs for kind in output.get("data", {})}
