import json
from pathlib import Path

import pytest

from gradcast.errors import GradcastError
from gradcast.reproduce.cells import ROW, Cell
from gradcast.specs.spec import Setting
from gradcast.specs.text import load
from tests.reproduce.scene import experiment


def setting(name: str) -> Setting:
    found = experiment().item(name).setting
    assert found is not None
    return found


def train(cell: Cell, seeds: list[int], out: Path) -> None:
    cell.train(seeds, out, None, "cpu", None)


def test_only_missing_seeds_are_trained_and_all_are_found(tmp_path: Path) -> None:
    cell = Cell(setting("predicted"))
    train(cell, [0], tmp_path)
    train(cell, [0, 1, 2], tmp_path)
    train(cell, [1, 2], tmp_path)
    assert sorted(place.spec.seeds for place in cell.directories(tmp_path)) == [[0], [1, 2]]
    found = cell.results(tmp_path)
    assert found.keys() == cell.seeds(tmp_path) == {0, 1, 2}
    together = Cell(setting("predicted"))
    train(together, [0, 1, 2], tmp_path / "other")
    once = together.results(tmp_path / "other")
    for seed in range(3):
        ours, theirs = (results[seed][1] for results in (found, once))
        assert ours.measures[ours.seeds.index(seed)] == theirs.measures[theirs.seeds.index(seed)]


def test_a_name_says_what_decides_the_result() -> None:
    gem, predicted = setting("gem"), setting("predicted")
    other = experiment().changed({"policy": {"p": 0.1}}, ["gem", "predicted"])
    assert Cell(gem).name != Cell(predicted).name != Cell(predicted, "tf32").name
    assert Cell(gem) != Cell(other.item("gem").setting or gem)
    assert Cell(gem).name == Cell(other.item("gem").setting or gem).name  # no signal, no policy
    assert Cell(predicted).name != Cell(other.item("predicted").setting or predicted).name


def test_the_pool_of_a_head_start_decides_the_result_and_an_unused_head_start_does_not() -> None:
    def name(row: str, **changes: dict[str, object]) -> str:
        return Cell(experiment().changed(changes, [row]).item(row).setting or setting(row)).name

    steps, pool = {"steps": 5, "batch": 4}, {"name": "pixels", "count": 30}
    assert name("gem", head_start=steps, pool=pool) != name("gem", head_start=steps) != name("gem")
    assert name("gem", head_start=steps, policy={"p": 0.1}) == name("gem", head_start=steps)
    assert name("gem", head_start={"batch": 4}, pool=pool) == name("gem")
    assert name("predicted", head_start={"batch": 4}) == name("predicted")


def test_the_name_of_several_signals_is_one_that_a_run_may_have() -> None:
    (several,) = (row.setting for row in load("digits-100").rows if row.name == "mg-predicted")
    spec = Cell(several).spec([0])
    assert spec.name.startswith("digits-finetune-meta-gradient-predicted-")
    assert spec.rows[0].setting == several


def test_seeds_that_saw_other_data_are_not_put_together(tmp_path: Path) -> None:
    cell = Cell(setting("gem"))
    train(cell, [0], tmp_path)
    (old,) = cell.directories(tmp_path)
    (old.path / ROW / "manifest.json").unlink()  # as rows were finished before there were any
    file = old.path / ROW / "stream.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"source": "other digits"}))
    train(cell, [1], tmp_path)
    assert cell.seeds(tmp_path) == {1}
    for damaged in ("{", "[]", "{}"):
        file.write_text(damaged)
        with pytest.raises(GradcastError, match=r"stream\.json cannot be read"):
            cell.seeds(tmp_path)


def test_a_damaged_specification_is_named(tmp_path: Path) -> None:
    cell = Cell(setting("gem"))
    train(cell, [0], tmp_path)
    (cell.directories(tmp_path)[0].path / "spec.toml").write_text("seeds = ")
    for read in (cell.seeds, cell.results):
        with pytest.raises(GradcastError, match=r"spec\.toml cannot be read"):
            read(tmp_path)


def test_with_few_labels_the_policy_decides_too_for_its_batch_is_that_of_unlabelled_images() -> None:
    names = []
    for batch in (64, 32):
        rows = load("digits-100", [f"policy.batch={batch}"]).rows
        names.append(Cell(next(row.setting for row in rows if row.name == "mg")).name)
    assert names[0] != names[1]


def test_a_cell_that_was_killed_before_its_report_is_completed(tmp_path: Path) -> None:
    cell = Cell(setting("gem"))
    train(cell, [0], tmp_path)
    (place,) = cell.directories(tmp_path)
    for name in ("result.json", "report.md", "accuracy-matrix.png"):
        (place.path / name).unlink()
    train(cell, [0], tmp_path)
    assert {"result.json", "report.md", "accuracy-matrix.png"} <= {path.name for path in place.path.iterdir()}
