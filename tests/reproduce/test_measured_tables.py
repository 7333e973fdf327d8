import json
from pathlib import Path

import numpy as np
import pytest

from gradcast.reproduce import measured_tables
from gradcast.reproduce.experiment import load, names
from gradcast.reproduce.measured_tables import courses, folder, measured, measured_rows


def test_every_file_that_comes_with_the_package_is_a_table_of_its_name() -> None:
    files = sorted(folder().glob("*.json"))
    assert len(files) >= 12
    assert {file.stem.partition("-")[0] for file in files} <= set(names())


def test_what_was_measured_is_known_with_its_origin_and_what_was_not_is_nothing() -> None:
    found = measured("e1")
    assert found is not None
    assert "NVIDIA H200" in found.origins
    (gem,) = (line for line in found.lines if line.item.name == "gem")
    assert gem.ours["acc"].seeds == 32
    assert gem.trained is not None
    assert gem.ours["acc"].mean == pytest.approx(np.mean(gem.trained.values("acc")))
    assert measured("E5") is None
    assert measured_rows("E5") == []
    assert 0 < len(measured_rows("E3")) < len(load("E3").items)


@pytest.mark.parametrize("name", ["F8", "F9", "F10", "F11", "F12"])
def test_rows_of_a_figure_count_as_measured_where_they_can_be_drawn(name: str) -> None:
    found = measured(name)
    assert found is not None
    drawn = [line.item for line in found.lines if line.trained is not None and line.trained.task_numbers]
    assert measured_rows(name) == drawn


def test_a_figure_has_the_rows_that_other_tables_have_of_it() -> None:
    table, figure = measured("E3"), measured("F11")
    assert table is not None
    assert figure is not None
    assert figure.wanted.dtype == table.wanted.dtype
    ours = {line.item.name: line.ours for line in table.lines}
    rows = {"base": "resnet-gem"} | {name: f"resnet-gem-{name}" for name in ("1-pl", "p-pl", "predicted")}
    assert {line.item.name: line.ours for line in figure.lines} == {name: ours[row] for name, row in rows.items()}
    assert measured_tables._of_another(load("E11")) is None  # costs are of one machine
    assert [item.name for item in measured_rows("E11")] == ["resnet-gem-predicted"]
    noise = measured("F12")
    assert noise is not None
    assert [bool(line.ours) for line in noise.lines] == [True] * 5  # E8 has all of them, E3 the first


def test_rows_count_as_measured_in_a_course_of_any_length(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, rows in (("E6", ["cifar100-supervised"]), ("E6-15200", ["cifar100-supervised", "cifar100-mg"])):
        table = json.loads((folder() / f"{name}.json").read_text())
        table["rows"] = [row for row in table["rows"] if row["name"] in rows]
        (tmp_path / f"{name}.json").write_text(json.dumps(table))
    monkeypatch.setattr(measured_tables, "folder", lambda: tmp_path)
    monkeypatch.setattr(measured_tables, "measured", measured.__wrapped__)
    assert [len(own.lines) for own in courses("E6")] == [1, 2]
    assert [item.name for item in measured_rows("E6")] == ["cifar100-supervised", "cifar100-mg"]
    assert courses("E5") == []


def test_a_row_that_shares_its_training_with_a_saved_one_is_measured() -> None:
    found = measured("E6")
    assert found is not None
    ours = {line.item.name: line.ours for line in found.lines}
    assert ours["cifar100-mg-quoted"] == ours["cifar100-mg"]
