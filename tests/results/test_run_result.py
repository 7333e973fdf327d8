from dataclasses import replace
from pathlib import Path

import pytest

from gradcast.errors import GradcastError
from gradcast.results.run_result import RunResult
from tests.trained_runs import few_labels, finished


def whole() -> RunResult:
    directory, rows = finished()
    return RunResult(directory.path, rows)


def test_it_says_what_the_run_said() -> None:
    result = whole()
    assert result.seeds == [0, 1, 2]
    assert result.row("predicted") is result.rows[1]
    assert isinstance(result.directory, Path)
    directory, rows = result
    assert (directory, rows) == (result.directory, result.rows)
    with pytest.raises(GradcastError, match=r"there is no row 'predict' .*did you mean 'predicted'"):
        result.row("predict")


def test_every_row_is_compared_with_the_first_as_in_the_report() -> None:
    result = whole()
    assert [own.variant.name for own in result.comparisons] == ["predicted", "random"]
    for comparison, row in zip(result.comparisons, result.rows[1:], strict=True):
        assert comparison.base.name == "base"
        assert comparison.paired == row.paired
        assert comparison.difference.low <= comparison.difference.mean <= comparison.difference.high
        assert repr(comparison) == f"{row.label} against GEM: {comparison.verdict}"
        assert comparison.seeds == result.seeds
    assert RunResult(result.directory, result.rows[:1]).comparisons == []


def test_its_text_is_a_table_with_the_verdicts_and_the_place() -> None:
    result = whole()
    *lines, place = repr(result).splitlines()
    assert max(map(len, lines)) <= 80
    assert all(any(line.startswith(row.label) for line in lines) for row in result.rows)
    assert "GEM + predicted gradients against GEM: " in repr(result)
    assert place == str(result.directory)
    directory, rows = few_labels()
    assert "last error (%)" in repr(RunResult(directory.path, rows))


def test_notebooks_show_it_as_html() -> None:
    result = whole()
    odd = RunResult(result.directory, [replace(row, label="<i>x</i>") for row in result.rows])
    assert "<i>" not in odd._repr_html_()
    assert odd._repr_html_().startswith("<div><table>")


def test_a_finished_run_is_read_again() -> None:
    again = RunResult.read(finished()[0].path)
    assert [row.acc() for row in again.rows] == [row.acc() for row in whole().rows]
    assert repr(again) == repr(whole())
    with pytest.raises(GradcastError, match="does not exist; name a run directory"):
        RunResult.read("nowhere")
