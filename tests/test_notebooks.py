"""The notebooks of examples run from top to bottom, and hold nothing of the machine they were written on."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))


def cells(path: Path) -> list[NotebookNode]:
    """Its cells of code."""
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    return [cell for cell in book.cells if cell.cell_type == "code"]


def test_there_are_two() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["first_run", "own_data"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    assert all(cell.outputs == [] and cell.execution_count is None for cell in cells(path))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("default")  # of the notebook's own machinery
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    book = nbformat.read(path, as_version=4)
    NotebookClient(book, timeout=60, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    tables = [own.data["text/html"] for own in shown if "text/html" in own.get("data", {})]
    assert any("against base" in table for table in tables)
    assert not [own for own in shown if own.output_type == "error"]
