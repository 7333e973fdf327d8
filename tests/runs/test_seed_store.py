import errno
import os
from pathlib import Path

import pytest

from gradcast.errors import GradcastError
from gradcast.runs.cell_key import CellKey
from gradcast.runs.manifest import describe
from gradcast.runs.seed_store import BUILDING, FEATURES, SeedStore, TrainedSeed

KEY = CellKey("digits-gem-none-0123", {"setting": {}, "dtype": "float32"})
TEXTS = {"accuracy.csv": "before,0.1\n", "metrics.jsonl": "{}\n", FEATURES: "{}\n"}


def trained(folder: Path, seed: int = 3) -> TrainedSeed:
    folder.mkdir(parents=True)
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    return TrainedSeed(seed=seed, origin={"device": "cpu"}, files=describe(folder, TEXTS))


def kept(tmp_path: Path, seed: int = 3, place: str = "store") -> SeedStore:
    store, folder = SeedStore(tmp_path / place), tmp_path / f"run-{place}-{seed}"
    store.keep(KEY, trained(folder, seed), folder)
    return store


def test_a_seed_is_found_again_and_takes_no_room_twice(tmp_path: Path) -> None:
    store = kept(tmp_path)
    found = store.find(KEY, 3)
    assert found is not None
    assert found.origin == {"device": "cpu"}
    assert store.find(KEY, 4) is None
    linked = store.link(KEY, found, tmp_path / "other" / "seed-3", first=True)
    assert set(linked) == set(TEXTS)
    assert (tmp_path / "other" / "seed-3" / "accuracy.csv").stat().st_nlink == 3
    assert store.seeds(KEY) == {3}
    assert [(cell.name, cell.seeds) for cell in store.cells()] == [(KEY.name, [3])]


def test_features_are_those_of_a_rows_first_seed(tmp_path: Path) -> None:
    store = kept(tmp_path)
    found = store.find(KEY, 3)
    assert found is not None
    assert FEATURES not in store.link(KEY, found, tmp_path / "seed-3", first=False)
    assert not (tmp_path / "seed-3" / FEATURES).exists()


def test_a_damaged_seed_is_named_and_gone(tmp_path: Path) -> None:
    store = kept(tmp_path)
    (store.path / KEY.name / "seed-3" / "accuracy.csv").write_text("before,0.9\n")
    with pytest.warns(UserWarning, match=r"seed-3 is damaged \(.*accuracy.csv was changed.*trained anew"):
        assert store.find(KEY, 3) is None
    assert store.seeds(KEY) == set()


def test_where_links_are_not_possible_files_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "another file system")

    monkeypatch.setattr(os, "link", refuse)
    store = kept(tmp_path)
    assert store.find(KEY, 3) is not None
    assert (store.path / KEY.name / "seed-3" / "accuracy.csv").stat().st_nlink == 1


def test_merging_takes_over_what_is_missing_and_refuses_what_is_damaged(tmp_path: Path) -> None:
    ours, theirs = kept(tmp_path, 3), kept(tmp_path, 3, "theirs")
    kept(tmp_path, 5, "theirs")
    assert ours.merge(theirs) == [(KEY.name, 5)]
    assert ours.merge(theirs) == []
    assert ours.seeds(KEY) == {3, 5}
    kept(tmp_path, 6, "theirs")
    (theirs.path / KEY.name / "seed-6" / "metrics.jsonl").write_text("x")
    with pytest.raises(GradcastError, match=r"seed-6 cannot be merged \(.*metrics.jsonl was changed.*copy it again"):
        ours.merge(theirs)
    assert ours.seeds(KEY) == {3, 5}


def test_names_of_files_lead_nowhere_else(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="pattern"):
        TrainedSeed(seed=3, origin={}, files={"../accuracy.csv": trained(tmp_path / "a").files["accuracy.csv"]})


def test_what_a_killed_process_left_goes_with_the_next_write_and_the_first_seed_stays(tmp_path: Path) -> None:
    store = kept(tmp_path)
    left = store.path / KEY.name / f"{BUILDING}x"
    left.mkdir()
    before = (store.path / KEY.name / "seed-3" / "trained.json").stat().st_ino
    store.keep(KEY, trained(tmp_path / "again"), tmp_path / "again")
    assert (store.path / KEY.name / "seed-3" / "trained.json").stat().st_ino == before
    store.keep(KEY, trained(tmp_path / "new", 8), tmp_path / "new")
    assert not left.exists()


def test_removed_cells_leave_the_files_of_runs(tmp_path: Path) -> None:
    store = kept(tmp_path)
    assert store.remove([KEY.name]) > 0
    assert store.cells() == []
    assert (tmp_path / "run-store-3" / "accuracy.csv").read_text() == TEXTS["accuracy.csv"]
