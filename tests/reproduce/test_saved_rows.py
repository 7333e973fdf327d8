"""Rows of tables saved before."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools import merge_results

from gradcast.errors import GradcastError
from gradcast.reproduce import reproduce
from gradcast.reproduce.cells import Cell
from gradcast.reproduce.experiment_tables import Kind
from gradcast.reproduce.measured_tables import folder
from gradcast.reproduce.reproduce import Request, outcome, request, train
from gradcast.reproduce.rows import not_drawn, results
from gradcast.reproduce.saved_rows import known
from gradcast.reproduce.show_table import save
from gradcast.reproduce.trained import Trained
from tests.reproduce.scene import experiment, trained, wanted
from tests.reproduce.test_error_rates import experiment as table_of_errors

RESULTS = folder()


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
    again = request("T1", out=tmp_path / "third", rows=["gem", "predicted"], seeds=3, saved=second)
    assert json.loads(saved(again).read_text())["rows"] == json.loads(second.read_text())["rows"]
    assert not again.cells.exists()


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


def test_a_figure_takes_the_rows_of_another_table_and_says_nothing_of_the_rest(tmp_path: Path) -> None:
    wanted = request("F11", out=tmp_path, settings=["dtype=bf16"], saved=RESULTS / "E3.json")
    assert list(wanted.known) == ["base", "1-pl", "p-pl", "predicted"]
    assert wanted.unknown == []


def test_costs_are_of_one_machine(tmp_path: Path) -> None:
    wanted = request("E11", out=tmp_path, settings=["dtype=bf16"], saved=RESULTS / "E11.json")
    assert list(wanted.known) == ["resnet-gem-predicted"]
    with pytest.raises(GradcastError, match="E11 tells costs"):
        train(wanted, data=None, device="cpu", display=None)


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
    with pytest.raises(GradcastError, match="does not exist"):
        request("T1", out=tmp_path, saved=tmp_path / "nothing.json")


@pytest.mark.parametrize("kind", ["curves", "courses", "scatter", "matrices"])
def test_a_figure_is_the_same_from_a_saved_table(kind: Kind, tmp_path: Path) -> None:
    here = wanted(trained(), kind)
    found = outcome(here, {})
    file = save(replace(here, out=tmp_path), found) / "result.json"
    elsewhere = replace(here, out=tmp_path / "empty", known=known(file, here.experiment, here.seeds, "float32"))
    rows, again = results(found), results(outcome(elsewhere, {}))
    assert [(row.name, row.seeds) for row in again] == [(row.name, row.seeds) for row in rows] != []
    for row, copy in zip(rows, again, strict=True):
        assert np.abs(copy.matrices - row.matrices).max() <= 0.5e-4
        assert copy.courses.keys() == row.courses.keys() >= {"loss"}
        for name, values in row.courses.items():
            np.testing.assert_allclose(copy.courses[name], values, rtol=1e-3)
    assert "cosine" in next(row for row in again if row.name == "predicted").courses


def test_tables_keep_of_tasks_what_figures_draw_and_nothing_else(tmp_path: Path) -> None:
    figure, table = (wanted(trained(), kind) for kind in ("matrices", "table"))
    larger, smaller = (
        (save(replace(own, out=tmp_path / kind), outcome(own, {})) / "result.json").read_text()
        for own, kind in ((figure, "matrices"), (table, "table"))
    )
    assert '"tasks"' in larger
    assert '"tasks"' not in smaller


def test_a_figure_of_every_task_trains_what_a_saved_table_does_not_say(tmp_path: Path) -> None:
    own = wanted(trained(), "matrices")
    file = save(replace(own, out=tmp_path), outcome(own, {})) / "result.json"
    facts = json.loads(file.read_text())
    for row in facts["rows"]:
        if row["name"] in ("gem", "base-1"):  # of one cell
            del row["trained"]["seeds"]["0"]["tasks"]
    file.write_text(json.dumps(facts))
    figure = replace(own, out=tmp_path / "empty", known=known_rows(file, own))
    table = replace(wanted(trained(), "table"), out=tmp_path / "empty", known=figure.known)
    assert figure.missing(figure.experiment.item("gem"), own.seeds) == [0]
    assert table.missing(table.experiment.item("gem"), own.seeds) == []
    assert [line.item.name for line in not_drawn(figure.experiment, outcome(figure, {}))] == ["gem", "base-1"]
    assert not not_drawn(table.experiment, outcome(table, {}))


def test_a_damaged_matrix_is_refused(tmp_path: Path) -> None:
    own = wanted(trained(), "matrices")
    file = save(replace(own, out=tmp_path), outcome(own, {})) / "result.json"
    facts = json.loads(file.read_text())
    for row in facts["rows"]:
        if row["trained"]:
            row["trained"]["seeds"]["0"]["tasks"]["accuracy"].pop()
    file.write_text(json.dumps(facts))
    with pytest.raises(GradcastError, match="an accuracy matrix has a row before training"):
        known(file, own.experiment, own.seeds, "float32")


def test_merged_tables_keep_what_happened_task_by_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row of the same name that lacks it is replaced; others stay."""
    monkeypatch.setattr(merge_results, "folder", lambda: tmp_path)
    own = wanted(trained(), "matrices")
    file = save(replace(own, out=tmp_path / "new"), outcome(own, {})) / "result.json"
    before = json.loads(file.read_text())
    for row in before["rows"]:
        for seed in (row["trained"] or {"seeds": {}})["seeds"].values():
            del seed["tasks"]
    (tmp_path / "T1.json").write_text(json.dumps(before))
    assert not results(outcome(replace(own, out=tmp_path, known=known_rows(tmp_path / "T1.json", own)), {}))
    merge_results.main([str(file)])
    assert json.loads((tmp_path / "T1.json").read_text()) == json.loads(file.read_text())
    after = replace(own, out=tmp_path / "empty", known=known_rows(tmp_path / "T1.json", own))
    assert [row.seeds for row in results(outcome(after, {}))] == [row.seeds for row in results(outcome(own, {}))]


def test_merging_keeps_rows_of_more_seeds() -> None:
    """A file of a new row has a part of its base's seeds."""
    seeds = {"0": {}, "1": {}, "2": {}}
    table = {
        "dtype": "float32",
        "settings": [],
        "seeds": [0, 1, 2],
        "rows": [merged("gem", "g", seeds), merged("new", "", {})],
    }
    fewer, other = {"0": {}, "1": {}}, {"0": {}}
    found = {
        "dtype": "float32",
        "settings": [],
        "seeds": [0, 1],
        "rows": [merged("gem", "g", fewer), merged("new", "n", fewer)],
    }
    merge_results.merge(table, found, "file")
    assert [(row["name"], row["trained"]["seeds"]) for row in table["rows"]] == [("gem", seeds), ("new", fewer)]
    merge_results.merge(table, {**found, "rows": [merged("gem", "of another setting", other)]}, "file")
    assert table["rows"][0]["trained"]["seeds"] == other


def test_merging_keeps_what_is_said_of_rows_that_diverged() -> None:
    """A row that was trained before stays."""
    facts = {"dtype": "float32", "settings": [], "seeds": [0]}
    lost = [merged(name, "", {}) | {"state": "diverged: at step 3"} for name in ("gem", "new")]
    table = facts | {"rows": [merged("gem", "g", {"0": {}}), merged("new", "", {}) | {"state": "not run"}]}
    merge_results.merge(table, {**facts, "rows": lost}, "file")
    assert [row.get("state") for row in table["rows"]] == [None, "diverged: at step 3"]


def test_a_course_of_another_length_is_merged_into_a_table_of_its_own() -> None:
    facts = {"id": "E6", "quick": False, "settings": [], "dtype": "bf16", "seeds": [0], "rows": []}
    course = ["schedule.steps=8000", "schedule.warm_up=80"]
    assert merge_results.table_name(facts, "file") == "E6"
    assert merge_results.table_name({**facts, "settings": course}, "file") == "E6-8000"
    for own in ({"quick": True}, {"settings": [*course, "learner.lr=1"]}, {"settings": ["schedule.warm_up=80"]}):
        with pytest.raises(SystemExit, match="file is a quick look or has other settings"):
            merge_results.table_name({**facts, **own}, "file")
    with pytest.raises(SystemExit, match=r"another course than the table: schedule\.steps=8000"):
        merge_results.merge(facts, {**facts, "settings": course}, "file")


def test_rows_that_name_no_commit_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the code without its history does not know its commit."""
    monkeypatch.setattr(merge_results, "folder", lambda: tmp_path)
    origins = ["abacus, 2026-01-01", "abacus, 2026-01-01, commit 12ab; abacus, 2026-01-02", ""]
    rows = [merged(f"row-{place}", "c", {}) | {"origin": own} for place, own in enumerate(origins)]
    facts = {"id": "T1", "quick": False, "settings": [], "dtype": "float32", "seeds": [], "rows": rows}
    (tmp_path / "result.json").write_text(json.dumps(facts))
    merge_results.main(["--commit", "34cd", str(tmp_path / "result.json")])
    found = [row["origin"] for row in json.loads((tmp_path / "T1.json").read_text())["rows"]]
    assert found == ["abacus, 2026-01-01, commit 34cd", f"{origins[1]}, commit 34cd", ""]


def merged(name: str, cell: str, seeds: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "trained": {"cell": cell, "data": "d", "seeds": seeds} if cell else None}


def test_merging_fills_in_pools_of_rows_that_saw_the_same_data() -> None:
    rows: list[dict[str, Any]] = [
        {"data": "a", "pool_images": [12_000]},
        {"data": "a"},
        {"data": "a", "pool_images": []},
        {"data": "b"},
        {"data": ""},
    ]
    merge_results.fill_pools(rows)
    assert [own.get("pool_images") for own in rows] == [[12_000], [12_000], [12_000], None, None]


def known_rows(file: Path, own: Request) -> dict[str, Trained]:
    return known(file, own.experiment, own.seeds, own.dtype)
