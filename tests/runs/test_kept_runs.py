from pathlib import Path

from gradcast.runs.kept_runs import summaries, used_cells
from gradcast.runs.run import run
from gradcast.runs.seed_store import STORE, SeedStore
from tests.trained_runs import small


def test_runs_are_listed_with_rows_seeds_and_sizes_and_name_their_cells(tmp_path: Path) -> None:
    assert summaries(tmp_path) == []
    directory, _ = run(small("seeds=[0, 4]"), out=tmp_path, device="cpu")
    (found,) = summaries(tmp_path)
    assert (found.name, found.rows, found.finished, found.seeds) == (directory.path.name, 3, 3, [0, 4])
    assert found.size > 10_000
    assert used_cells(tmp_path) == {cell.name for cell in SeedStore(tmp_path / STORE).cells()}
    (directory.path / "spec.toml").write_text("not a table")
    assert summaries(tmp_path)[0].rows == 0
