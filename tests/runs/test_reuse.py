import json
from pathlib import Path

import pytest

from gradcast.bench.faults import difference, snapshot
from gradcast.errors import Diverged, GradcastError
from gradcast.runs import run as run_module
from gradcast.runs.directory import RunDirectory
from gradcast.runs.reuse import CELL, REUSED
from gradcast.runs.run import run
from gradcast.runs.seed_store import STORE, SeedStore
from gradcast.specs.spec import Spec
from tests.trained_runs import small


def one_row(*settings: str, row: str = "predicted") -> Spec:
    spec = small(*settings)
    return spec.model_copy(update={"rows": [own for own in spec.rows if own.name == row]})


def forbid_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def train(*_: object, **__: object) -> None:
        raise AssertionError("something was trained")

    monkeypatch.setattr(run_module, "train_row", train)


def env(directory: RunDirectory, row: str = "predicted") -> dict[str, object]:
    found: dict[str, object] = json.loads((directory.path / row / "env.json").read_text())
    return found


def test_more_seeds_train_only_those_that_are_missing(tmp_path: Path) -> None:
    run(one_row("seeds=[0, 2]"), out=tmp_path, device="cpu")
    directory, (result,) = run(one_row("seeds=[0, 1, 2]"), out=tmp_path, device="cpu")
    whole, (expected,) = run(one_row("seeds=[0, 1, 2]"), out=tmp_path / "whole", device="cpu")
    assert result.seeds == [0, 1, 2]
    assert result.acc() == pytest.approx(expected.acc())
    told = env(directory)
    assert [own["seed"] for own in told[REUSED]] == [0, 2]  # type: ignore[attr-defined,index]
    assert told["time"]["seeds_at_once"] == 1  # type: ignore[index]
    assert told[CELL] == env(whole)[CELL]
    shared = directory.seed("predicted", 0) / "weights.safetensors"
    assert shared.stat().st_nlink == 3  # both runs and the store
    assert "stream.json" in {path.name for path in (directory.path / "predicted").iterdir()}


def test_a_run_of_trained_seeds_has_the_files_of_one_that_trained_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = small()
    trained, _ = run(spec, out=tmp_path / "a", device="cpu")
    with monkeypatch.context() as patch:
        forbid_training(patch)
        other, _ = run(spec, out=tmp_path / "b", device="cpu", store=tmp_path / "a" / STORE)
    assert difference(snapshot(trained.path), snapshot(other.path)) == ""


def test_a_row_added_to_a_specification_trains_that_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, names = small(), list[str]()
    run(spec.model_copy(update={"rows": spec.rows[:2]}), out=tmp_path, device="cpu")
    real = run_module.train_row

    def noted(own: Spec, row: object, *rest: object, **more: object) -> None:
        names.append(row.name)  # type: ignore[attr-defined]
        real(own, row, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(run_module, "train_row", noted)
    run(spec, out=tmp_path, device="cpu")
    assert names == [spec.rows[2].name]


def test_fresh_and_other_settings_take_nothing_and_a_pruned_store_trains_again(tmp_path: Path) -> None:
    spec = one_row("seeds=[0]", row="base")
    run(spec, out=tmp_path, device="cpu")
    directory, _ = run(one_row("seeds=[0]", "learner.lr=0.2", row="base"), out=tmp_path, device="cpu")
    assert REUSED not in env(directory, "base")
    store = SeedStore(tmp_path / STORE)
    assert len(store.cells()) == 2
    store.remove([cell.name for cell in store.cells()])
    run(one_row("seeds=[0, 1]", row="base"), out=tmp_path, device="cpu")
    assert [cell.seeds for cell in store.cells()] == [[0, 1]]


def test_seeds_that_diverge_are_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = one_row("learner.lr=1e20", "learner.name=finetune", "seeds=[0, 1]", row="base")
    with pytest.raises(Diverged):
        run(spec, out=tmp_path, device="cpu")
    forbid_training(monkeypatch)
    with pytest.raises(Diverged, match="not finite"):
        run(spec, out=tmp_path, device="cpu")


def test_nothing_is_trained_here_where_cells_were_trained_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(one_row("seeds=[0]", row="base"), out=tmp_path, device="cpu")
    forbid_training(monkeypatch)
    with pytest.raises(GradcastError, match=r"row 'predicted': not all seeds were trained \(and 1 more rows failed\)"):
        run(small("seeds=[0]"), out=tmp_path, device="cpu", elsewhere={})
    places = [RunDirectory(path.parent) for path in tmp_path.glob("*/spec.toml")]
    (directory,) = (place for place in places if len(place.spec.rows) == 3)
    assert directory.finished("base")
    assert not directory.finished("predicted")
