from pathlib import Path

import pytest

from gradcast.results.stored import stored_ratio
from gradcast.runs.directory import RunDirectory
from tests.trained_runs import finished


def test_the_ratio_is_what_the_steps_said() -> None:
    directory, (base, predicted, _) = finished()
    assert stored_ratio(directory, "predicted") == predicted.ratio == predicted.diagnostics["pseudo_ratio_median"].mean
    assert stored_ratio(directory, "base") is base.ratio is None


def test_a_part_of_a_table_has_that_of_the_table(tmp_path: Path) -> None:
    (tmp_path / "family.json").write_text('{"elsewhere": [], "ratios": {"row": 0.5}}')
    assert stored_ratio(RunDirectory(tmp_path), "row") == 0.5
    assert stored_ratio(RunDirectory(tmp_path), "other") is None


@pytest.mark.parametrize("text", [None, "{", "[]", "{}", '[{"name": "row"}]', '[{"name": "row", "diagnostics": 3}]'])
def test_without_such_a_file_it_is_not_known(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "result.json").write_text(text)
    assert stored_ratio(RunDirectory(tmp_path), "row") is None
