from pathlib import Path

import pytest

from gradcast.errors import GradcastError
from gradcast.runs.manifest import (
    NAME,
    check_all,
    check_entries,
    checked_bytes,
    describe,
    read_manifest,
    seed_files,
    spec_digest,
    write_manifest,
)

SPEC = 'name = "a"\n[[row]]\nname = "b"\n'


@pytest.fixture
def row(tmp_path: Path) -> Path:
    """A finished row of one seed."""
    made = tmp_path / "run" / "row"
    (made / "seed-4").mkdir(parents=True)
    (made / "seed-4" / "accuracy.csv").write_text("0.5")
    (made / "env.json").write_text("{}")
    write_manifest(made, SPEC, describe(made, seed_files([4])))
    return made


def test_it_knows_all_files_and_finds_one_that_changed(row: Path) -> None:
    found = read_manifest(row)
    assert found is not None
    assert set(found.files) == {"seed-4/accuracy.csv", "env.json"}
    check_all(row)
    assert checked_bytes(row / "seed-4" / "accuracy.csv") == b"0.5"
    (row / "seed-4" / "accuracy.csv").write_text("0.6")
    for check in (lambda: check_all(row), lambda: checked_bytes(row / "seed-4" / "accuracy.csv")):
        with pytest.raises(GradcastError, match=r"accuracy\.csv was changed .*; delete .*row and run again"):
            check()


def test_a_file_that_came_later_is_not_believed(row: Path) -> None:
    (row / "diverged.json").write_text("{}")
    with pytest.raises(GradcastError, match=r"diverged\.json was not there when the row was finished"):
        checked_bytes(row / "diverged.json")


def test_behind_a_link_the_manifest_beside_the_file_counts(row: Path, tmp_path: Path) -> None:
    view = tmp_path / "table" / "gem"
    view.mkdir(parents=True)
    (view / "seed-4").symlink_to(row / "seed-4")
    assert checked_bytes(view / "seed-4" / "accuracy.csv") == b"0.5"
    (row / "seed-4" / "accuracy.csv").write_text("0.6")
    with pytest.raises(GradcastError, match=r"seed-4/accuracy\.csv was changed"):
        checked_bytes(view / "seed-4" / "accuracy.csv")


def test_a_damaged_manifest_is_named_and_none_is_that_of_earlier_runs(row: Path) -> None:
    (row / NAME).write_text((row / NAME).read_text().replace("accuracy", "../../x"))
    with pytest.raises(GradcastError, match=r"manifest\.json cannot be read \(its digest does not fit\)"):
        read_manifest(row)
    (row / NAME).unlink()
    assert read_manifest(row) is None
    check_all(row)


def test_a_file_that_is_gone_is_named(row: Path) -> None:
    entries = describe(row, ["env.json"])
    (row / "env.json").unlink()
    with pytest.raises(GradcastError, match=r"env\.json is missing; delete"):
        check_entries(row, entries)


def test_what_a_row_is_a_control_of_may_change() -> None:
    assert spec_digest(SPEC) == spec_digest(SPEC + "control = true\n")
    assert spec_digest(SPEC) != spec_digest(SPEC.replace('"b"', '"c"'))
