import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradcast.reproduce import measured_tables
from gradcast.reproduce.cells import Cell
from gradcast.reproduce.measured_tables import folder
from gradcast.reproduce.reproduce import outcome
from gradcast.reproduce.show_table import save
from tests.cli.process import ALONE, called
from tests.reproduce.scene import experiment, trained, wanted


def test_show_trains_nothing(tmp_path: Path) -> None:
    shown = called("reproduce", "E3", "--show", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    before, here = shown.stdout.split("Trained here:")
    assert before.startswith("Comes with gradcast:")
    assert "69.10 ± 0.93" in before  # GEM + predicted gradients
    assert "Measured on NVIDIA H200, torch 2.11.0, 2026-11-15 to 2026-11-19\n" in before
    assert "Rows without numbers: 17 of 50\n" in before
    assert "EffNet GEM" not in before
    assert here == "\nnothing yet; gradcast reproduce E3 trains the rows\n"
    assert not (tmp_path / "runs" / "cells").exists()
    assert not (tmp_path / "runs" / "E3" / "result.json").exists()
    table = before.partition("ACC (%)")[2].partition(" against ")[0]
    assert max(map(len, table.splitlines()[:-1])) <= 80
    assert "gradcast report" not in shown.stdout  # there is nothing it could show


def test_what_comes_with_the_package_is_drawn_without_training(tmp_path: Path) -> None:
    shown = called("reproduce", "P2", "--show", cwd=tmp_path).stdout
    picture = Path("runs", "P2", "measured", "figure.png")
    assert f"Drawn: {picture}\n" in shown
    assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")
    assert not (tmp_path / "runs" / "P2" / "figure.png").exists()  # nothing was trained here


def test_a_figure_is_drawn_from_the_table_that_has_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The figure has no file of its own; a row of an old file is left out and named."""
    figure, table = (wanted(trained(), kind) for kind in ("matrices", "table"))
    file = save(replace(figure, out=tmp_path / "saved"), outcome(figure, {})) / "result.json"
    facts = json.loads(file.read_text())
    for row in facts["rows"]:
        if row["name"] == "p-1":
            for seed in row["trained"]["seeds"].values():
                del seed["tasks"]
    (tmp_path / "T1.json").write_text(json.dumps(facts))
    header = figure.experiment.header.model_copy(update={"id": "T2"})
    loaded = {"T1": table.experiment, "T2": replace(figure.experiment, header=header)}
    for module in ("reproduce", "measured_tables"):
        monkeypatch.setattr(f"gradcast.reproduce.{module}.load", loaded.__getitem__)
    monkeypatch.setattr(measured_tables, "folder", lambda: tmp_path)
    shown = called("reproduce", "T2", "--show", cwd=tmp_path).stdout
    drawn = {path.name for path in (tmp_path / "runs" / "T2" / "measured").glob("*.png")}
    assert drawn == {"figure.png", "difference-predicted.png", "difference-p-0.25.png", "difference-ratio-1.png"}
    assert "Not in the figure, or not with all seeds: p 1. " in shown
    assert "gradcast reproduce T2 --rows p-1 trains them\n" in shown


def test_a_table_of_our_own_has_no_published_columns(tmp_path: Path) -> None:
    shown = called("reproduce", "P1", "--show", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    head = next(line for line in shown.stdout.splitlines() if "ACC (%)" in line)
    assert head.split() == ["ACC", "(%)", "gain"]
    assert "publ." not in shown.stdout
    (row,) = (line for line in shown.stdout.splitlines() if "MS COCO" in line and "against" not in line and "±" in line)
    assert row.count("±") == 2  # ACC and gain


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["E99"], "there is no table or figure 'E99'"),
        (["E1", "--rows", "gem,gen"], "E1 has no row 'gen'"),
        (["E1", "--rows", " , "], "--rows names no row; leave it out for all of them"),
        (["list", "--rows", ""], "name an ID"),
        (["list", "--quick"], "name an ID"),
        (["list", "--set", "streem.tasks=2"], "error: unknown key 'streem.tasks'"),
        (["list", "--set", "schedule.steps=100"], "no table or figure can be changed so"),
        (["list", "--known", "E1.json"], "name an ID"),
        (["E1", "--known", "E1.json"], "E1.json does not exist"),
    ],
)
def test_bad_input(arguments: list[str], message: str, tmp_path: Path) -> None:
    found = called("reproduce", *arguments, cwd=tmp_path)
    assert found.returncode == 2
    assert message in found.stderr


def test_correlations_of_a_scatter_plot_are_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = shutil.copytree(trained(), tmp_path / "runs")
    own = wanted(Path(out), "scatter").experiment
    for module in ("reproduce", "measured_tables"):
        monkeypatch.setattr(f"gradcast.reproduce.{module}.load", lambda name: own)
    monkeypatch.setattr(measured_tables, "folder", lambda: tmp_path)  # nothing comes with the package
    shown = called("reproduce", "T1", "--show", cwd=tmp_path).stdout
    told = json.loads(called("reproduce", "T1", "--show", "--json", cwd=tmp_path).stdout)["correlations"]
    assert told == json.loads((tmp_path / "runs" / "T1" / "result.json").read_text())["correlations"]
    found = told["predicted gradients"]
    assert f"cosine and ACC, predicted gradients: r = {found['r']:.2f}, n = {found['n']}\n" in shown


def test_a_table_without_its_data_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    found = called("reproduce", "E1", "--data", "nowhere", cwd=tmp_path)
    assert found.returncode == 2
    assert found.stdout == ""
    assert found.stderr.startswith("error: E1 needs mnist and tiny-imagenet, which are not in nowhere: run 'gradcast")
    assert len(found.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_deviations_and_sizes_stand_beside_the_published_ones(tmp_path: Path) -> None:
    shown = called("reproduce", "E4", "--show", cwd=tmp_path).stdout
    assert "3.28" in shown
    assert "seeds not stored" in shown
    assert "The gradient learner h has 5,061 parameters (published: 1,427)\n" in shown
    costs = called("reproduce", "E11", "--show", cwd=tmp_path).stdout
    assert "MB an image" in costs
    assert "The gradient learner h has 4,896 parameters\n" in costs
    assert "Pool: 12,000 images of tiny-imagenet\n" in costs


def test_a_table_that_is_stopped_has_the_rows_that_were_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, begun = Cell.train, []

    def stopped_in_the_second(cell: Cell, *arguments: Any, **options: Any) -> None:
        begun.append(cell.name)
        if len(begun) == 2:
            raise KeyboardInterrupt
        train(cell, *arguments, **options)

    monkeypatch.setattr("gradcast.reproduce.reproduce.load", lambda name: experiment())
    monkeypatch.setattr(Cell, "train", stopped_in_the_second)
    found = called("reproduce", "T1", "--rows", "gem,predicted", "--device", "cpu", *ALONE, cwd=tmp_path)
    assert found.returncode == 130
    rows = json.loads((tmp_path / "runs" / "T1" / "result.json").read_text())["rows"]
    assert [row["name"] for row in rows if row["trained"]] == ["gem", "base-1"]  # the same, by another name
    assert (tmp_path / "runs" / "T1" / "table.md").read_text().count("not run") >= 1


@pytest.mark.data
def test_a_quick_look_at_a_table(tmp_path: Path, data: Path) -> None:
    wanted = ["reproduce", "E1", "--quick", "--rows", "gem-predicted"]
    arguments = [*wanted, "--data", str(data), "--device", "cpu", *ALONE]
    found = called(*arguments, cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("QUICK LOOK, not a result")
    again = called(*arguments, "--json", cwd=tmp_path)
    assert again.stderr.strip() == ""  # nothing is trained again
    (row,) = json.loads(again.stdout)["rows"]
    assert row["ours"]["acc"]["seeds"] == 2
    assert row["published"]["acc"] == 86.54


def test_a_saved_table_is_worded_anew(tmp_path: Path) -> None:
    results = Path(__file__).parents[2] / "docs" / "results"
    shutil.copy(folder() / "E8.json", tmp_path)
    found = called("reproduce", "E8.json", cwd=tmp_path)
    assert found.stdout == "E8.md\n"
    assert (tmp_path / "E8.md").read_text() == (results / "E8.md").read_text()
    assert "does not exist" in called("reproduce", "E9.json", cwd=tmp_path).stderr
