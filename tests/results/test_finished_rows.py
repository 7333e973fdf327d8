from pathlib import Path

import pytest

from gradcast.errors import GradcastError
from gradcast.results.finished_rows import locate
from tests.results.report.copies import copy_of_run, unfinish
from tests.trained_runs import finished


def test_a_path_names_a_run_or_a_row_of_it() -> None:
    directory, results = finished()
    whole, one = locate(directory.path), locate(directory.path / "random")
    assert (whole.row, one.row) == (None, "random")
    assert (one.whole().given, one.whole().row) == (directory.path, None)
    rows, damage = whole.rows()
    assert damage == []
    assert [(row.name, row.sample) for row in rows] == [(own.name, own.sample()) for own in results]
    assert [row.name for row in one.rows()[0]] == ["random"]


def test_rows_that_are_not_finished_are_named(tmp_path: Path) -> None:
    directory = copy_of_run(tmp_path / "run")
    unfinish(directory, "random", lines=1)
    assert locate(directory.path).unfinished() == ["random"]
    with pytest.raises(GradcastError, match="random is not finished; complete it: gradcast run"):
        locate(directory.path / "random")
