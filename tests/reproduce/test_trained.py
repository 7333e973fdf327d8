"""Seeds of a row, from run directories and from tables saved before."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradcast.errors import GradcastError
from gradcast.reproduce import reproduce
from gradcast.reproduce.cells import Cell
from gradcast.reproduce.draw import results
from gradcast.reproduce.experiment import load
from gradcast.reproduce.measured_tables import folder
from gradcast.reproduce.reproduce import Request, outcome, request, train
from gradcast.reproduce.show_table import save, table
from gradcast.reproduce.trained import Trained, _environment, known
from gradcast.results.measures import Measures
from gradcast.runs.directory import RunDirectory
from tests.reproduce import scene
from tests.reproduce.scene import experiment
from tests.reproduce.test_error_rates import experiment as table_of_errors

RESULTS = folder()
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


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduce, "load", lambda _: experiment())


def saved(wanted: Request) -> Path:
    assert train(wanted, data=None, device="cpu", display=None) == {}
    return save(wanted, outcome(wanted, {})) / "result.json"


@pytest.mark.usefixtures("_small")
def test_a_table_is_finished_on_another_machine(tmp_path: Path) -> None:
    first = saved(request("T1", out=tmp_path / "first", rows=["gem"], seeds=2))
    wanted = request("T1", out=tmp_path / "second", rows=["predicted"], seeds=3, saved=first)
    second = saved(wanted)
    trained = {name: Cell(wanted.experiment.item(name).setting).seeds(wanted.cells) for name in ("gem", "predicted")}
    assert trained == {"gem": {2}, "predicted": {0, 1, 2}}
    whole = request("T1", out=tmp_path / "whole", rows=["predicted"], seeds=3)
    saved(whole)
    for line, expected in zip(outcome(wanted, {}), outcome(whole, {}), strict=True):
        assert line.ours.get("acc") == expected.ours.get("acc")
        assert line.paired == expected.paired
        assert line.noise == expected.noise
    drawn = {row.name: row.seeds for row in results(wanted, outcome(wanted, {}), steps=False)}
    assert (drawn["gem"], drawn["predicted"]) == ([2], [0, 1, 2])
    again = request("T1", out=tmp_path / "third", rows=["gem", "predicted"], seeds=3, saved=second)
    assert json.loads(saved(again).read_text())["rows"] == json.loads(second.read_text())["rows"]
    assert not again.cells.exists()
    assert results(again, outcome(again, {}), steps=False) == []


@pytest.mark.usefixtures("_small")
def test_seeds_of_other_data_are_trained_again(tmp_path: Path) -> None:
    first = saved(request("T1", out=tmp_path / "first", rows=["gem"], seeds=2))
    facts = json.loads(first.read_text())
    for row in facts["rows"]:
        row["trained"] = row["trained"] and row["trained"] | {"data": "of another pool"}
    first.write_text(json.dumps(facts))
    wanted = request("T1", out=tmp_path / "second", rows=["gem"], seeds=3, saved=first)
    assert outcome(wanted, {})[0].ours["acc"].seeds == 2  # nothing is known of the data here
    saved(wanted)
    line = outcome(wanted, {})[0]
    assert Cell(wanted.experiment.item("gem").setting).seeds(wanted.cells) == {0, 1, 2}
    assert line.trained is not None
    assert (line.trained.data != "of another pool", line.trained.seeds) == (True, [0, 1, 2])


@pytest.mark.usefixtures("_small")
def test_a_row_is_known_by_what_was_trained(tmp_path: Path) -> None:
    file = saved(request("T1", out=tmp_path / "first", rows=["base-1"], seeds=1))  # the setting of gem
    facts = json.loads(file.read_text())
    facts["rows"] = [row for row in facts["rows"] if row["name"] == "base-1"]
    file.write_text(json.dumps(facts))
    assert {"gem", "base-1"} <= request("T1", out=tmp_path, seeds=1, saved=file).known.keys()


@pytest.mark.usefixtures("_small")
def test_rows_of_other_settings_are_named(tmp_path: Path) -> None:
    file = saved(request("T1", out=tmp_path / "first", rows=["predicted"], seeds=1))
    facts = json.loads(file.read_text())
    assert request("T1", out=tmp_path, seeds=1, saved=file).unknown == []
    facts["rows"] = [row for row in facts["rows"] if row["name"] in ("gem", "predicted")]
    facts["rows"][1]["trained"]["cell"] = "of another learning rate"
    file.write_text(json.dumps(facts))
    wanted = request("T1", out=tmp_path, seeds=1, saved=file)
    assert (wanted.unknown, "gem" in wanted.known) == (["predicted"], True)


@pytest.mark.parametrize("name", ["C", "C-cpu", "E1", "E2", "E3", "E4", "E6", "E6-15200", "E8"])
def test_tables_in_the_documentation_can_be_gone_on_with(name: str, tmp_path: Path) -> None:
    file = RESULTS / f"{name}.json"
    facts = json.loads(file.read_text())
    settings = [*facts["settings"], f"dtype={facts['dtype']}"]
    wanted = request(facts["id"], out=tmp_path, seeds=len(facts["seeds"]), settings=settings, saved=file)
    assert wanted.unknown == []


def test_costs_are_of_one_machine(tmp_path: Path) -> None:
    with pytest.raises(GradcastError, match="E11 tells costs"):
        known(tmp_path / "none.json", load("E11"), [0], "float32")


@pytest.mark.usefixtures("_small")
def test_a_table_of_other_settings_gains_a_row_and_keeps_the_others(tmp_path: Path) -> None:
    changes = ["learner.lr=0.3"]
    first = saved(request("T1", out=tmp_path / "first", rows=["p-1"], seeds=2, settings=changes))
    wanted = request("T1", out=tmp_path / "second", rows=["predicted"], seeds=2, settings=changes, saved=first)
    assert list(wanted.known) == ["gem", "p-1"]  # not the rows of a sweep, which keep their settings
    rows = json.loads(saved(wanted).read_text())["rows"]
    assert [(row["name"], row["ours"]["acc"]["seeds"]) for row in rows] == [("gem", 2), ("predicted", 2), ("p-1", 2)]
    assert Cell(wanted.experiment.item("gem").setting).seeds(wanted.cells) == set()


def test_best_errors_are_known_too(tmp_path: Path) -> None:
    wanted = Request(table_of_errors(), [0, 1], "float32", tmp_path)
    file = saved(wanted)
    again = replace(wanted, out=tmp_path / "again", known=known(file, wanted.experiment, [0, 1], "float32"))
    assert [line.ours for line in outcome(again, {})] == [line.ours for line in outcome(wanted, {})]
    assert outcome(again, {})[0].ours["error"].seeds == 2


Damage = Callable[[dict[str, Any]], object]


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda row: row.pop("name"), "cannot be read"),
        (lambda row: row["trained"].pop("data"), "cannot be read"),
        (lambda row: row["trained"]["seeds"]["0"].pop("acc"), "cannot be read"),
        (lambda row: row.update(trained=7), "cannot be read"),
        (lambda row: row.update(trained=None), "has no seeds of T1"),
        (lambda row: row.pop("trained"), "earlier versions have no seeds"),
        (lambda row: row["trained"].update(cell="another"), "has no seeds of T1"),
        (lambda row: row["trained"].update(seeds={}), "has no seeds of T1"),
    ],
)
def test_files_that_are_no_such_table(damage: Damage, message: str, tmp_path: Path) -> None:
    file = saved(request("T1", out=tmp_path, rows=["gem"], seeds=1))
    facts = json.loads(file.read_text())
    for row in facts["rows"]:
        if row["trained"]:
            damage(row)
    file.write_text(json.dumps(facts))
    with pytest.raises(GradcastError, match=message):
        request("T1", out=tmp_path, saved=file)


@pytest.mark.usefixtures("_small")
def test_other_settings_and_arithmetic_are_not_known(tmp_path: Path) -> None:
    file = saved(request("T1", out=tmp_path, rows=["gem"], seeds=1))
    for changed in ("learner.lr=0.3", "dtype=float64"):
        with pytest.raises(GradcastError, match="repeat the options it was made with"):
            request("T1", out=tmp_path, settings=[changed], saved=file)
    with pytest.raises(GradcastError, match="cannot be read"):
        request("T1", out=tmp_path, saved=tmp_path / "nothing.json")


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
