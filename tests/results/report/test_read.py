import json
from pathlib import Path

import numpy as np
import pytest

from gradcast.errors import GradcastError
from gradcast.results.report.read import find, read_run, read_runs
from gradcast.results.result import course, read
from gradcast.results.statistics import holm
from gradcast.runs.directory import FAMILY, TableFamily
from gradcast.runs.run import run as train
from gradcast.runs.sealed import digest, write_sealed
from gradcast.runs.seed_store import STORE
from gradcast.specs.text import load
from tests.results.report.copies import copy_of_run, unfinish, with_portrait
from tests.trained_runs import finished


def test_a_finished_run_is_what_result_reads(tmp_path: Path) -> None:
    directory = copy_of_run(tmp_path / "a")
    run = read_run(directory.path)
    assert [own.as_dict() for own in run.results] == [own.as_dict() for own in read(directory)]
    assert [row.done for row in run.rows] == [[3, 3, 3]] * 3
    assert run.unfinished == run.damage == []
    assert run.base is run.results[0]
    assert [run.place(own) for own in run.results] == [0, 1, 2]


def test_curves_are_those_of_the_files(tmp_path: Path) -> None:
    directory = copy_of_run(tmp_path / "a")
    row = read_run(directory.path).rows[1]
    loss = [course(directory.metrics("predicted", seed), "loss", 3) for seed in (0, 1, 2)]
    np.testing.assert_array_equal(row.curves["loss"], loss)
    matrix = directory.accuracy("predicted", 2)
    expected = [100 * matrix[1, 0], 50 * (matrix[2, 0] + matrix[2, 1]), 100 * matrix[3].sum() / 3]
    np.testing.assert_allclose(row.curves["accuracy"][2], expected)
    np.testing.assert_array_equal(row.curves["cosine"], finished()[1][1].courses["cosine"])
    assert "cosine" not in read_run(directory.path).rows[0].curves


def test_a_damaged_portrait_is_missing_and_said_and_the_row_stands_without_it(tmp_path: Path) -> None:
    directory = copy_of_run(tmp_path / "a")
    assert all(row.feature_map is None for row in read_run(directory.path).rows)
    feature_map = with_portrait(directory, "base")
    found = read_run(directory.path).rows[0].feature_map
    assert found is not None
    assert found.shared.probe == feature_map.shared.probe
    (directory.seed("base", 0) / "features.json").write_text("[1]")
    run = read_run(directory.path)
    assert run.rows[0].feature_map is None
    assert len(run.results) == 3
    (sentence,) = run.damage
    assert sentence.startswith("A picture of features is missing: ")


def test_unfinished_rows_say_how_far_they_are(tmp_path: Path) -> None:
    directory = copy_of_run(tmp_path / "a")
    unfinish(directory, "predicted", lines=2)
    run = read_run(directory.path)
    (row,) = run.unfinished
    assert row.done == [1, 1, 1]
    assert np.isnan(row.curves["accuracy"]).tolist() == [[False, True, True]] * 3
    assert [own.name for own in run.results] == ["base", "random"]
    assert run.place(run.results[1]) == 2


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("predicted/seed-1/accuracy.csv", "tasks_done,task_0\n0,x\n", "accuracy.csv cannot be read"),
        ("predicted/seed-1/accuracy.csv", "tasks_done,task_0\n0,0.1\n1,0.5\n", "1 tasks where the specification"),
        ("predicted/seed-0/accuracy.csv", "", "accuracy.csv cannot be read"),
    ],
)
def test_a_damaged_row_is_left_out_with_a_sentence(tmp_path: Path, file: str, content: str, said: str) -> None:
    directory = copy_of_run(tmp_path / "a")
    (directory.path / file).write_text(content)
    run = read_run(directory.path)
    assert [own.name for own in run.results] == ["base", "random"]
    (sentence,) = run.damage
    assert sentence.startswith("The row 'GEM + predicted gradients' is left out: ")
    assert said in sentence


@pytest.mark.parametrize(
    ("content", "said"),
    [("{", "metrics.jsonl cannot be read"), ('{"loss": 1.0, "task": 9}\n', "a step without a known task")],
)
def test_accuracies_stand_without_the_steps_of_one_seed(tmp_path: Path, content: str, said: str) -> None:
    directory = copy_of_run(tmp_path / "a")
    whole = read_run(directory.path)
    (directory.seed("predicted", 2) / "metrics.jsonl").write_text(content)
    run = read_run(directory.path)
    (sentence,) = run.damage
    assert sentence.startswith("What training told of seed 2 of 'GEM + predicted gradients' is missing, its accuracies")
    assert said in sentence
    assert [own.paired for own in run.results] == [own.paired for own in whole.results]
    assert run.results[1].diagnostics["training_loss"].seeds == 2
    assert np.isnan(run.rows[1].curves["loss"]).all(1).tolist() == [False, False, True]


def test_the_best_error_of_few_labels_does_not(tmp_path: Path) -> None:
    spec = load("digits-100", ["seeds=[0]", "schedule.steps=4", "schedule.milestones=[]", "schedule.test_every=2"])
    directory, _ = train(spec.model_copy(update={"rows": spec.rows[:1]}), out=tmp_path, device="cpu")
    (directory.seed("supervised", 0) / "metrics.jsonl").write_text("{")
    (sentence,) = read_run(directory.path).damage
    assert sentence.startswith("The row 'labels alone' is left out: ")


@pytest.mark.parametrize("content", ["{", "[]", '{"time": 3}', "\xff"])
def test_a_row_without_environment_keeps_its_numbers(tmp_path: Path, content: str) -> None:
    directory = copy_of_run(tmp_path / "a")
    (directory.path / "random" / "env.json").write_text(content, encoding="latin-1")
    run = read_run(directory.path)
    assert [own.name for own in run.results] == ["base", "predicted", "random"]
    assert run.rows[2].environment == ""
    (sentence,) = run.damage
    assert "random/env.json cannot be read" in sentence


def test_a_part_of_a_table_is_corrected_for_the_whole_of_it(tmp_path: Path) -> None:
    directory = copy_of_run(tmp_path / "gem")
    alone = read_run(directory.path)
    write_sealed(directory.path / FAMILY, TableFamily(elsewhere=[0.2, 1.0], ratios={}))
    part = read_run(directory.path)
    assert (alone.family, part.family) == (1, 3)  # random directions are a control
    raw, found = (run.results[1].paired for run in (alone, part))
    assert raw is not None
    assert found is not None
    assert found.wilcoxon_holm == holm([raw.wilcoxon, 0.2, 1.0])[0]
    said = {"elsewhere": [2.0], "ratios": {}}
    (directory.path / FAMILY).write_text(json.dumps({**said, "digest": digest(said)}))
    with pytest.raises(
        GradcastError, match=r"family\.json cannot be read \(elsewhere\.0: input should be less than or"
    ):
        read_run(directory.path)


def test_a_damaged_first_row_leaves_nothing_to_compare_with(tmp_path: Path) -> None:
    directory = copy_of_run(tmp_path / "a")
    (directory.path / "base" / "seed-0" / "accuracy.csv").unlink()
    run = read_run(directory.path)
    assert run.base is None
    assert [own.paired for own in run.results] == [None, None]


def test_runs_of_a_folder_in_order_and_a_damaged_one_named(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        copy_of_run(tmp_path / name)
    (tmp_path / "notes").mkdir()
    (tmp_path / STORE / "cell" / "seed-0").mkdir(parents=True)
    (tmp_path / "c" / "spec.toml").write_text("seeds = 3")
    (tmp_path / "b" / "spec.toml").unlink()
    assert [path.name for path in find(tmp_path)] == ["a", "b", "c"]
    found = read_runs(tmp_path)
    assert [run.name for run in found.runs] == ["a"]
    assert [sentence.split(" is left out")[0] for sentence in found.damage] == ["b", "c"]
    assert find(tmp_path / "a") == [tmp_path / "a"]


def test_nothing_to_report_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(GradcastError, match=r"there is no run in .*; name a run directory"):
        read_runs(tmp_path)
    with pytest.raises(GradcastError, match=r"there is no folder .*nowhere; name a run directory"):
        read_runs(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(GradcastError, match=r"file is a file; name a run directory"):
        find(tmp_path / "file")
    (tmp_path / "spec.toml").write_text("?")
    with pytest.raises(GradcastError, match=r"spec\.toml cannot be read"):
        read_runs(tmp_path)


def test_finished_rows_are_not_read_again(tmp_path: Path) -> None:
    directory = copy_of_run(tmp_path / "a")
    kept = (directory.path / "random" / "env.json").read_text()
    unfinish(directory, "random", lines=2)
    before = read_run(directory.path)
    copied = copy_of_run(tmp_path / "whole")
    for file in copied.path.glob("random/seed-*/*"):
        (directory.path / file.relative_to(copied.path)).write_bytes(file.read_bytes())
    for file in directory.path.glob("base/seed-*/metrics.jsonl"):
        file.rename(file.with_suffix(".away"))  # seen only by those who look again
    still = read_run(directory.path, before)
    assert still.rows[0] is before.rows[0]
    assert still.results is before.results
    assert still.unfinished[0].done == [3, 3, 3]
    for file in directory.path.glob("base/seed-*/metrics.away"):
        file.rename(file.with_suffix(".jsonl"))
    (directory.path / "random" / "env.json").write_text(kept)
    after = read_run(directory.path, still)
    assert [own.as_dict() for own in after.results] == [own.as_dict() for own in read(copied)]
