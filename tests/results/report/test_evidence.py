from dataclasses import replace

import pytest

from gradcast.results.report.evidence import (
    _chance,
    cost_table,
    diagnostics_table,
    differences_table,
    results_table,
    unfinished_table,
)
from gradcast.results.report.read import Run, read_run
from gradcast.results.report.words import number
from gradcast.results.result import Added
from gradcast.results.statistics import Interval
from tests.compared import compare
from tests.results.report.copies import copy_of_run, unfinish


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return read_run(copy_of_run(tmp_path_factory.mktemp("runs") / "digits-1").path)


def test_results_have_every_measure_and_the_difference(run: Run) -> None:
    table = results_table(run)
    assert [row[0].text for row in table.rows] == [own.label for own in run.results]
    assert [row[1].text for row in table.rows] == [number(own.over_seeds("acc"), 100) for own in run.results]
    assert [row[5].value for row in table.rows] == [own.over_seeds("forgetting").mean for own in run.results]
    assert table.rows[0][-1].text == ""
    paired = run.results[1].paired
    assert paired is not None
    assert table.rows[1][-1].value == paired.difference.mean
    assert len(table.head) == len(table.rows[0]) == 7


def test_differences_have_every_number_behind_a_verdict(run: Run) -> None:
    table = differences_table(run, run.results[1:])
    paired = run.results[2].paired
    assert paired is not None
    numbers = [paired.difference.mean, paired.shift.value, paired.t_test, paired.wilcoxon]
    assert [cell.value for cell in table.rows[1][2:8]] == [*numbers, paired.wilcoxon_holm, paired.effect_size]
    assert table.rows[1][1].text == run.results[0].label
    assert table.rows[1][8].text == ("" if paired.seeds_needed is None else str(paired.seeds_needed))
    assert "corrected for 1 claim (Holm); seeds needed are a guess from 3 seeds" in table.title  # random is a control
    assert len(table.head) == len(table.rows[1])


def test_what_a_signal_adds_alone_is_among_the_differences(run: Run) -> None:
    paired = compare([81.0, 82.5], [80.0, 81.0])
    many = compare([81.0, 82.0, 83.0, 84.0, 85.0, 86.0], [80.0] * 6)
    last = replace(run.results[2], added=(Added("averaged", paired),))
    table = differences_table(replace(run, results=[*run.results[:2], last]), run.results[1:])
    assert len(table.rows) == 3
    assert [cell.text for cell in table.rows[2][:3]] == [last.label, "averaged", "+1.25 ± 3.18"]
    assert table.rows[2][3].text == "+1.25"  # two seeds have no such interval
    last = replace(last, added=(Added("averaged", many),))
    table = differences_table(replace(run, results=[*run.results[:2], last]), run.results[1:])
    assert table.rows[2][3].text == "+3.50 (+1.00 to +6.00)"


def test_diagnostics_have_a_column_a_row_and_gaps(run: Run) -> None:
    table = diagnostics_table(run)
    assert table.head == ["number", *(own.label for own in run.results)]
    named = {row[0].text: row[1:] for row in table.rows}
    assert named["cosine to the true logit gradient"][0].text == ""
    assert named["cosine to the true logit gradient"][1].value == run.results[1].diagnostics["cosine"].mean


def test_accuracies_of_labels_are_in_per_cent(run: Run) -> None:
    right = replace(run.results[1], diagnostics={"label_accuracy": Interval(0.25, 0.2, 0.3, 2)})
    ((name, cell),) = diagnostics_table(replace(run, results=[right])).rows
    assert (name.text, cell.text) == ("accuracy of pseudo labels (%)", "25")


def test_cost_shows_what_the_environment_tells(run: Run) -> None:
    table = cost_table(run)
    assert "peak GPU memory (MB)" not in table.head  # trained on a CPU
    assert [row[1].value for row in table.rows] == [row.time["seconds"] for row in run.rows]
    gpu = replace(run.rows[0], time={"seconds": 1.0, "peak_gpu_memory_mb": 18731, "training_seconds": "?"})
    other = cost_table(replace(run, rows=[gpu]))
    assert other.head == ["row", "seconds", "peak GPU memory (MB)"]
    assert [cell.text for cell in other.rows[0]] == ["GEM", "1.0", "18,731"]


def test_unfinished_rows_are_listed(tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = copy_of_run(tmp_path_factory.mktemp("runs") / "digits-2")
    unfinish(directory, "random", lines=3)
    table = unfinished_table(read_run(directory.path))
    assert [[cell.text for cell in row] for row in table.rows] == [["GEM + random directions", "2 of 3 tasks"]]


def test_a_small_p_value_is_never_shown_as_zero() -> None:
    assert [_chance(p).text for p in (0.5, 0.0005, 0.0004, None)] == ["0.500", "0.001", "< 0.001", ""]
    assert _chance(0.0004).value == 0.0004  # sorted by, and written to CSV
