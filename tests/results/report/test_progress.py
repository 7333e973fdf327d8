from pathlib import Path

import numpy as np
import pytest

from gradcast.errors import GradcastError
from gradcast.results.report.progress import accuracy_so_far, metrics_so_far, over_all_tasks, over_seen_tasks

HEAD = "tasks_done,task_0,task_1\n"


def test_lines_that_are_still_being_written_do_not_count(tmp_path: Path) -> None:
    file = tmp_path / "accuracy.csv"
    file.write_text(HEAD + "0,0.1,0.2\n1,0.9,0.3\n2,0.8")
    matrix = accuracy_so_far(file, 2)
    np.testing.assert_array_equal(matrix, [[0.1, 0.2], [0.9, 0.3], [np.nan, np.nan]])
    log = tmp_path / "metrics.jsonl"
    log.write_text('{"task": 0, "loss": 2.0}\n{"task": 0, "lo')
    assert metrics_so_far(log, 2) == [{"task": 0, "loss": 2.0}]


def test_before_the_first_line_there_is_nothing(tmp_path: Path) -> None:
    assert np.isnan(accuracy_so_far(tmp_path / "accuracy.csv", 3)).all()
    assert metrics_so_far(tmp_path / "metrics.jsonl", 3) == []


def test_mean_over_the_tasks_seen_and_over_all_after_each() -> None:
    matrix = np.array([[0.1, 0.1, 0.1], [0.9, 0.2, 0.1], [0.7, 0.5, 0.2], [np.nan] * 3])
    np.testing.assert_allclose(over_seen_tasks(matrix), [90, 60, np.nan])
    np.testing.assert_allclose(over_all_tasks(matrix), [40, 140 / 3, np.nan])


@pytest.mark.parametrize("text", ["0,0.1\n", "0,a,b\n", "0,0.1,0.2\n" * 4])
def test_a_damaged_matrix_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "row" / "seed-0" / "accuracy.csv"
    file.parent.mkdir(parents=True)
    file.write_text(HEAD + text)
    with pytest.raises(GradcastError, match=r"accuracy\.csv cannot be read \(.*\); delete .*row and run again"):
        accuracy_so_far(file, 2)


@pytest.mark.parametrize("text", ["nonsense\n", "[1]\n", '{"loss": 1.0}\n', '{"task": 2, "loss": 1.0}\n'])
def test_a_damaged_log_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "metrics.jsonl").write_text(text)
    with pytest.raises(GradcastError, match=r"metrics\.jsonl cannot be read"):
        metrics_so_far(tmp_path / "metrics.jsonl", 2)
