import shutil
from pathlib import Path

import pytest

from gradcast.results.stored import mean_ratio, stored_ratio
from gradcast.runs.directory import RunDirectory, TableFamily
from gradcast.runs.sealed import write_sealed
from tests.trained_runs import finished


def test_the_ratio_is_what_the_steps_said() -> None:
    directory, (base, predicted, _) = finished()
    assert stored_ratio(directory, "predicted") == predicted.ratio == predicted.diagnostics["pseudo_ratio_median"].mean
    assert stored_ratio(directory, "base") is base.ratio is None


def test_a_part_of_a_table_has_that_of_the_table(tmp_path: Path) -> None:
    write_sealed(tmp_path / "family.json", TableFamily(elsewhere=[], ratios={"row": 0.5}))
    assert stored_ratio(RunDirectory(tmp_path), "row") == 0.5
    assert stored_ratio(RunDirectory(tmp_path), "other") is None


@pytest.mark.parametrize("text", [None, "{", "[]", "{}", '[{"name": "row"}]', '[{"name": "row", "diagnostics": 3}]'])
def test_without_such_a_file_it_is_not_known(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "result.json").write_text(text)
    assert stored_ratio(RunDirectory(tmp_path), "row") is None


def test_an_edited_result_changes_nothing_and_earlier_runs_have_but_that(tmp_path: Path) -> None:
    directory, (_, predicted, _) = finished()
    copy = RunDirectory(shutil.copytree(directory.path, tmp_path / "copy"))
    file = copy.path / "result.json"
    file.write_text(file.read_text().replace("pseudo_ratio_median", "other"))
    assert stored_ratio(copy, "predicted") == predicted.ratio
    (copy.path / "predicted" / "manifest.json").unlink()
    environment = copy.path / "predicted" / "env.json"
    environment.write_text("{}")
    assert stored_ratio(copy, "predicted") is None


def test_the_mean_of_medians_is_that_of_the_logs() -> None:
    logs = [[{"pseudo_ratio": 1.0}, {"pseudo_ratio": 3.0}, {"loss": 1.0}], [{"pseudo_ratio": "inf"}], []]
    assert mean_ratio(logs) == 2.0
    assert mean_ratio([[], []]) is None
