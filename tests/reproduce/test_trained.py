"""Seeds of a row, from run directories."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gradcast.reproduce import reproduce
from gradcast.reproduce.cells import Cell
from gradcast.reproduce.reproduce import outcome, request
from gradcast.reproduce.show_table import table
from gradcast.reproduce.trained import Trained, _environment, joined_origins
from gradcast.results.measures import Measures
from gradcast.runs.directory import RunDirectory
from tests.reproduce import scene
from tests.reproduce.scene import experiment
from tests.reproduce.test_saved_rows import saved

ONE, OTHER = (Measures(acc, 0.1, 0.2, 0.05, 0.15, 0.8, 0.0) for acc in (0.7, 0.6))


def test_tables_of_many_epochs_divide_backward_transfer_by_one_task_less() -> None:
    assert Trained({0: ONE}).values("bwt") == [0.05]
    assert Trained({0: ONE}, scheduled=True).values("bwt") == [0.1]
    assert Trained({0: ONE}, scheduled=True).values("acc") == [70.0]


def test_seeds_of_the_same_setting_and_data_are_put_together() -> None:
    errors = {0: 40.0, 1: 41.0}
    here = Trained({1: ONE}, {"megabytes": [2.0]}, "here", "a", "images", "all", best_errors={1: 30.0})
    before = Trained({0: OTHER, 1: OTHER}, {"megabytes": [3.0]}, "x; here", "a", "images", "all", best_errors=errors)
    both = here.with_seeds_of(before)
    assert both.values("acc") == [60.0, 70.0]  # what was trained here counts
    assert (both.seeds, both.best_errors, both.cost) == ([0, 1], {0: 40.0, 1: 30.0}, {"megabytes": [2.0]})
    assert both.origin == "here; x"
    assert both.values("acc", [1]) == [70.0]
    assert here.with_seeds_of(replace(before, cell="b")) is here
    assert here.with_seeds_of(replace(before, data="other")) is here
    assert here.with_seeds_of(replace(before, measures={1: OTHER})).origin == "here"


SPLIT = """
id = "T2"
title = "Table: split digits"
about = "Small."
seeds = 2
task = "both"

[stream]
scenario = "split"
tasks = 2
samples = 60

[model]
name = "mlp"
hidden = [8]
heads = "seen"

[learner]
name = "er"
memory = 8

[[row]]
name = "er"
label = "ER"
published = { acc = 80.0, acc_unknown = 40.0 }

[[row]]
name = "finetune"
label = "finetune"
learner = { name = "finetune" }
"""


def test_accuracies_without_the_task_are_in_tables_that_ask_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reproduce, "load", lambda _: experiment(SPLIT))
    wanted = request("T2", out=tmp_path / "here")
    file = saved(wanted)
    lines = outcome(wanted, {})
    for line in lines:
        assert line.item.setting is not None
        rows = [row for _, row in Cell(line.item.setting).results(wanted.cells).values()]
        expected = [100 * rows[seed].unknown.matrices[seed, -1].mean() for seed in (0, 1)]  # type: ignore[union-attr]
        assert line.ours["acc_unknown"].mean == pytest.approx(sum(expected) / 2)
        assert line.trained is not None
        assert list(line.trained.unknown.values()) == pytest.approx(expected)
    head, *_ = [line for line in (file.parent / "table.md").read_text().splitlines() if line.startswith("|")]
    assert "ACC, task unknown (%) published | ACC, task unknown (%) ours" in head
    assert " 40.00 |" in (file.parent / "table.md").read_text()
    elsewhere = request("T2", out=tmp_path / "there", saved=file)
    assert [line.ours["acc_unknown"] for line in outcome(elsewhere, {})] == [line.ours["acc_unknown"] for line in lines]
    plain = replace(wanted, experiment=experiment(SPLIT.replace('task = "both"\n', "")))
    assert not any("unknown" in title for title in table(plain, lines).head)


def test_memory_is_told_an_image_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The peak is that of all seeds at once, each with a batch of ten."""
    place = RunDirectory(next((scene.trained() / "cells").glob("digits-*")))
    facts = json.loads(place.read("row", "env.json"))
    on_gpu = facts | {"time": facts["time"] | {"peak_gpu_memory_mb": 600, "seeds_at_once": 3}}
    monkeypatch.setattr(RunDirectory, "read", lambda *_: json.dumps(on_gpu))
    cost, _ = _environment(place)
    assert (cost["megabytes"], cost["megabytes_an_image"]) == (600.0, 20.0)


def test_every_origin_is_told_once() -> None:
    assert joined_origins(["cpu, 1; gpu, 2", "gpu, 2", "cpu, 3"]) == "cpu, 1; gpu, 2; cpu, 3"
