import json
import shutil
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gradcast.results.measures import measure
from gradcast.results.report import verdicts
from gradcast.results.result import course, courses, diagnose, errors, read
from gradcast.results.verdict import Pair, judge
from gradcast.runs.directory import RunDirectory
from gradcast.runs.run import run
from gradcast.runs.step_log import Line
from gradcast.specs.spec import EvaluationSpec
from gradcast.specs.text import parse
from tests.trained_runs import class_incremental, few_labels, finished, small


def test_results_are_a_function_of_the_directory() -> None:
    directory, returned = finished()
    results = read(directory)
    assert [r.as_dict() for r in results] == [r.as_dict() for r in returned]
    assert results[0].as_dict()["seeds"] == {
        str(seed): own.as_dict() for seed, own in zip(results[0].seeds, results[0].measures, strict=True)
    }
    base = results[0]
    assert base.paired is None
    predicted, random = results[1:]
    claim = Pair(predicted.sample(), base.sample(), controls=[random.sample()])
    assert [own.paired for own in results[1:]] == judge([claim, Pair(random.sample(), base.sample(), "control")])
    assert base.matrices.shape == (3, 4, 3)
    assert base.measures[1] == measure(
        np.loadtxt(directory.seed("base", 1) / "accuracy.csv", delimiter=",", skiprows=1)[:, 1:]
    )
    assert base.over_seeds("acc").mean == pytest.approx(np.mean(base.acc()) / 100)


def test_one_task_with_few_labels_has_no_transfer() -> None:
    _, (result, *_) = few_labels()
    told = result.as_dict()
    assert told["measures"] == {"acc": vars(result.over_seeds("acc"))}
    assert told["seeds"] == {str(s): {"acc": m.acc} for s, m in zip(result.seeds, result.measures, strict=True)}


def test_accuracies_alone_are_the_same_without_the_steps() -> None:
    directory, returned = finished()
    for short, whole in zip(read(directory, steps=False), returned, strict=True):
        assert (short.measures, short.paired) == (whole.measures, whole.paired)
        assert (short.diagnostics, short.courses) == ({}, {})
        assert whole.diagnostics


def test_diagnostics_of_a_log() -> None:
    log = [
        {"step": 0, "task": 0, "loss": 2.0, "projected": 0.0, "cosine": 0.2, "unlabelled": 0.0, "movement": 0.1},
        {
            "step": 1,
            "task": 0,
            "loss": 1.0,
            "projected": 1.0,
            "cosine": 0.4,
            "unlabelled": 4.0,
            "movement": 0.3,
            "pseudo_ratio": 0.5,
        },
        {
            "step": 2,
            "task": 1,
            "loss": "inf",
            "projected": 1.0,
            "cosine": 0.6,
            "unlabelled": 4.0,
            "movement": 0.2,
            "pseudo_ratio": 0.7,
        },
    ]
    found = diagnose(log)
    assert found["training_loss"] == pytest.approx(1.5)
    assert found["projection_rate"] == pytest.approx(2 / 3)
    assert found["cosine"] == pytest.approx(0.4)
    assert found["cosine_last_tenth"] == pytest.approx(0.6)
    assert found["pseudo_ratio_median"] == pytest.approx(0.6)
    assert found["learner_movement"] == 0.2
    assert found["unlabelled_images"] == 8
    assert set(diagnose([{"step": 0, "task": 0, "loss": 1.0}])) == {"training_loss"}


def test_courses_are_means_of_each_task() -> None:
    values: list[tuple[int, object]] = [(0, 1.0), (0, 2.0), (2, 5), (2, "inf"), (1, None)]
    log: list[Line] = [{"step": step, "task": task, "agreement": value} for step, (task, value) in enumerate(values)]
    found = course(log, "agreement", 4)
    assert found[[0, 2]].tolist() == [1.5, 5]
    assert np.isnan(found[[1, 3]]).all()


def test_accuracies_of_labels_are_shares_in_files_and_per_cent_in_curves() -> None:
    log: list[Line] = [{"step": 0, "task": 0, "loss": 1.0, "cosine": 0.5, "label_accuracy": 0.25}]
    found = courses(small("stream.tasks=1").rows[0].setting, [log])
    assert {name: values.tolist() for name, values in found.items()} == {"cosine": [[0.5]], "label_accuracy": [[25.0]]}
    assert diagnose(log)["label_accuracy"] == 0.25


def test_what_the_signal_did_is_told_per_row() -> None:
    base, predicted, random = finished()[1]
    assert "cosine" not in base.diagnostics
    assert {"cosine", "fitness_gain", "learner_movement", "tau", "pseudo_ratio_median"} <= set(predicted.diagnostics)
    assert "cosine" not in random.diagnostics
    assert predicted.diagnostics["unlabelled_images"] == random.diagnostics["unlabelled_images"]  # the same coins


def test_errors_where_test_images_were_looked_at_while_training() -> None:
    lines: list[Line] = [
        {"step": 4, "task": 0, "loss": 1.0, "test_accuracy": 0.9},
        {"step": 9, "task": 0, "loss": 1.0},
        {"step": 14, "task": 0, "loss": 1.0, "test_accuracy": 0.7},
    ]
    found = errors(lines, np.array([[0.1], [0.8]]))
    assert found == {"last_error": pytest.approx(20), "best_error": pytest.approx(10)}
    assert errors(lines, np.array([[0.1], [0.95]]))["best_error"] == pytest.approx(5)  # the end is a look too
    assert errors(lines[1:2], np.array([[0.1], [0.8]])) == {}


def test_what_a_signal_adds_to_an_average_is_told_apart(tmp_path: Path) -> None:
    rows = [
        "[[row]]",
        "[[row]]\nevaluation.average = 5",
        "[[row]]\nevaluation.average = 5\nsignal.name = 'predicted'",
    ]
    tables = "\n".join(["[stream]", "tasks = 2", "samples = 40", "[model]", "hidden = [8]", *rows])
    spec = parse({"name": "own", "seeds": [0, 1, 2]} | tomllib.loads(tables))
    directory, (base, averaged, best) = run(spec, out=tmp_path, device="cpu")
    assert base.added == averaged.added == ()
    (added,) = best.added
    pairs = [(averaged, base), (best, base), (best, averaged)]
    several = judge([Pair(own.sample(), against.sample()) for own, against in pairs])
    assert [averaged.paired, best.paired, added.paired] == several
    assert verdicts([base, averaged, best])[-1] == f"{best.label} against {averaged.label}: {added.paired.verdict}"
    told = json.loads((directory.path / "result.json").read_text())[2]["one_thing_added"][0]
    assert (told["against"], told["difference"]["mean"]) == (averaged.label, added.paired.difference.mean)
    assert averaged.label in (directory.path / "report.md").read_text().partition("predicted gradients")[2]


def test_seeds_that_skipped_no_step_count_in_the_mean() -> None:
    logs: list[list[Line]] = [
        [{"step": step, "task": 0, "loss": 1.0, "skipped": skipped} for step, skipped in enumerate(own)]
        for own in ([1.0, 1.0, 0.0], [0.0, 0.0, 0.0])
    ]
    assert [diagnose(log)["skipped_steps"] for log in logs] == [2.0, 0.0]
    assert "skipped_steps" not in diagnose([{"step": 0, "task": 0, "loss": 1.0}])


def test_intervals_of_accuracies_stay_among_accuracies() -> None:
    base = finished()[1][0]
    three = [replace(own, acc=acc) for own, acc in zip(base.measures, (0.99, 0.4, 0.98), strict=True)]
    wide = replace(base, measures=three)
    found = wide.over_seeds("acc")
    assert (found.low, found.high) == (0.0, 1.0)


def test_rows_without_the_task_have_measures_and_verdicts_of_their_own() -> None:
    directory, rows = class_incremental()
    base, finetune, masked = rows
    for row in rows:
        assert row.unknown is not None
        file = directory.seed(row.name, 1) / "accuracy-unknown-task.csv"
        matrix = np.loadtxt(file, delimiter=",", skiprows=1)[:, 1:]
        assert row.unknown.measures[1] == measure(matrix)
        assert (matrix[0] == 0).all()
        assert all(matrix[done, done:].max(initial=0) == 0 for done in range(4))  # classes that have not come
        assert row.unknown.sample().chance == 12.5
        assert row.sample().chance == 50.0
        told = row.as_dict()["unknown_task"]
        assert told["measures"]["acc"]["mean"] == row.unknown.over_seeds("acc").mean
    assert base.unknown is not None
    assert base.unknown.paired is None
    for row in (finetune, masked):
        assert row.paired is not None
        assert row.unknown is not None
        assert row.unknown.paired is not None
        assert (row.paired.family, row.unknown.paired.family) == (2, 4)
    sentences = verdicts(rows)
    assert len(sentences) == 4
    assert sentences[2].startswith(
        "Task unknown: finetune, loss over classes seen against ER, loss over classes seen: "
    )


def test_runs_of_earlier_versions_have_no_second_matrix(tmp_path: Path) -> None:
    copied = RunDirectory(Path(shutil.copytree(class_incremental()[0].path, tmp_path / "run")))
    for file in (*copied.path.glob("*/manifest.json"), *copied.path.glob("*/seed-*/accuracy-unknown-task.csv")):
        file.unlink()
    rows = read(copied)
    assert [row.unknown for row in rows] == [None] * 3
    assert [row.measures for row in rows] == [row.measures for row in class_incremental()[1]]
    assert all("unknown_task" not in row.as_dict() for row in rows)


def test_a_run_may_be_measured_without_the_task_alone(tmp_path: Path) -> None:
    spec = class_incremental()[0].spec
    setting = spec.rows[0].setting
    alone = setting.model_copy(update={"evaluation": EvaluationSpec(task="unknown")})
    only = spec.model_copy(update={"rows": [spec.rows[0].model_copy(update={"setting": alone})]})
    _, (row,) = run(only, out=tmp_path, device="cpu")
    expected = class_incremental()[1][0].unknown
    assert expected is not None
    assert row.unknown is None
    assert np.array_equal(row.matrices, expected.matrices)
    assert (row.compared, row.chance, row.as_dict()["task"]) == ("ACC, task unknown", 12.5, "unknown")
