import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gradcast.cli.app import app
from gradcast.errors import GradcastError
from gradcast.runs.run import run
from gradcast.runs.seed_store import STORE
from tests.trained_runs import small


def called(*arguments: str) -> str:
    found = CliRunner(env={"COLUMNS": "80"}).invoke(app, ["runs", *arguments])
    if isinstance(found.exception, GradcastError):
        raise found.exception
    assert found.exit_code == 0, found.output
    return found.output


def test_list_prune_and_merge(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    assert "Nothing was trained" in called("list", "--out", str(here))
    directory, _ = run(small("seeds=[0, 1, 2, 5]"), out=there, device="cpu")
    shown = called("list", "--out", str(there))
    assert "3 of 3" in shown
    assert "0-2, 5" in shown
    assert max(map(len, shown.splitlines()[:-1])) <= 80  # the last line has a path
    assert "12 seeds of 3 cells" in called("merge", str(there), "--out", str(here))
    assert "12 were here already" in called("merge", str(there / STORE), "--out", str(here))
    assert "every cell is used" in called("prune", "--out", str(there))
    told = json.loads(called("list", "--out", str(here), "--json"))
    assert [cell["used"] for cell in told["cells"]] == [False] * 3
    assert "would free" in called("prune", "--out", str(here), "--dry-run")
    assert "freed" in called("prune", "--out", str(here))
    assert json.loads(called("list", "--out", str(here), "--json"))["cells"] == []
    shutil.rmtree(directory.path)
    assert "in 3 cells" in called("prune", "--out", str(there))


def test_what_is_no_store_of_another_machine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GradcastError, match="is not there; give the folder that --out named"):
        called("merge", str(tmp_path / "nothing"))
    (tmp_path / STORE).mkdir()
    with pytest.raises(GradcastError, match="the folder of --out itself"):
        called("merge", str(tmp_path), "--out", str(tmp_path))
