import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from gradcast.reproduce.cells import Cell
from gradcast.reproduce.experiment import load, names
from gradcast.reproduce.reproduce import Request, outcome, table_lock, train
from gradcast.reproduce.views import lay_out, plain
from gradcast.results.comparison import compare
from gradcast.results.report.read import read_runs
from gradcast.results.verdict import Paired
from gradcast.specs.spec import Row, Spec
from tests.reproduce.scene import ROWS, TEXT, trained, wanted

OTHER = """
[[row]]
name = "other"
label = "GEM, another rate"
learner.lr = 0.05
"""


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained(), tmp_path / "reproduced"))


def test_rows_are_compared_with_the_tables_base_in_a_report(out: Path) -> None:
    request = wanted(out)
    found = outcome(request, {})
    (folder,) = lay_out(request, found)
    assert folder == request.folder / "gem"
    reported = read_runs(request.folder)
    assert reported.damage == []
    (run,) = reported.runs
    assert run.name == "gem"
    assert run.spec.title.startswith("T1, Table: digits")
    assert run.spec.seeds == [0, 1, 2]
    lines = {plain(line.item.name): line for line in found if line.ours and line.paired is not None}
    assert [own.name for own in run.results] == ["gem", "predicted", "p-0_25", "p-1"]
    for own in run.results[1:]:
        line = lines[own.name]
        assert own.label == line.item.label
        assert own.paired is not None
        assert line.paired is not None
        assert own.paired.difference.mean == pytest.approx(line.paired.difference.mean)
    again = compare(folder / "gem", folder)
    assert [own.variant.name for own in again.found] == ["predicted", "p-0_25", "p-1"]


def test_page_table_and_comparison_say_the_same_of_every_row(out: Path) -> None:
    """A second base has a folder of its own, and claims in the same family."""
    text = TEXT.replace('against = "gem"\npublished = [', 'against = "other"\npublished = [')
    text = text.replace("[[sweep]]", OTHER + "\n[[sweep]]", 1)
    request = replace(wanted(out, text=text), rows=[*ROWS, "other"])
    assert train(request, data=None, device="cpu", display=None) == {}
    found = outcome(request, {})
    folders = lay_out(request, found)
    assert [folder.name for folder in folders] == ["other", "gem"]
    lines = {line.item.name: line.paired for line in found if line.paired is not None}
    assert _said(lines.pop("ratio-1")) == _said(lines["predicted"])  # another name of the same: one claim, one folder
    table = {plain(name): _said(own) for name, own in lines.items()}
    assert {family for family, _, _ in table.values()} == {3}
    pages = [own for run in read_runs(request.folder).runs for own in run.results if own.paired is not None]
    assert {own.name: _said(own.paired) for own in pages} == table
    compared = [own for folder in folders for own in compare(folder / folder.name, folder).found]
    assert {own.variant.name: _said(own.paired) for own in compared} == table
    (single,) = compare(folders[0] / "other", folders[0] / "p-1").found
    assert _said(single.paired) == table["p-1"]


def _said(paired: Paired | None) -> tuple[int, float | None, str]:
    assert paired is not None
    return paired.family, paired.wilcoxon_holm, paired.verdict


def test_rows_with_other_seeds_are_compared_in_a_folder_of_their_own(out: Path) -> None:
    request = wanted(out)
    setting = request.experiment.item("predicted").setting
    assert setting is not None
    (before,) = lay_out(request, outcome(request, {}))
    assert (before / "predicted").is_dir()
    shutil.rmtree(Cell(setting).places(out / "cells")[2].path)  # the third seed was trained alone
    first, second = lay_out(request, outcome(request, {}))
    assert (first.name, second.name) == ("gem", "gem-2-seeds")
    reported = {run.name: run for run in read_runs(request.folder).runs}
    assert [row.name for row in reported["gem"].spec.rows] == ["gem", "p-0_25", "p-1"]
    assert [row.name for row in reported["gem-2-seeds"].spec.rows] == ["gem", "predicted"]
    assert (reported["gem"].spec.seeds, reported["gem-2-seeds"].spec.seeds) == ([0, 1, 2], [0, 1])
    assert ": 2 seeds, " in reported["gem-2-seeds"].spec.title
    assert all(run.results[1].paired is not None for run in reported.values())
    assert not (first / "predicted").exists()


def test_seeds_of_several_trainings_have_no_common_time_and_those_of_one_have(out: Path) -> None:
    request = wanted(out)
    lay_out(request, outcome(request, {}))
    (run,) = read_runs(request.folder).runs
    assert all(row.time == {} for row in run.rows)
    first = lay_out(with_seeds(out, [0, 1]), outcome(with_seeds(out, [0, 1]), {}))[0]
    (run,) = read_runs(first).runs
    assert run.spec.seeds == [0, 1]
    assert all(row.time for row in run.rows)


def test_a_row_without_its_base_stands_alone_and_nothing_is_laid_out_of_nothing(out: Path) -> None:
    request = wanted(out)
    for cell in (out / "cells").glob("digits-gem-none-*"):
        shutil.rmtree(cell)
    folders = lay_out(request, outcome(request, {}))
    assert [folder.name for folder in folders] == ["predicted", "p-0_25", "p-1"]
    (folders[0] / "report.html").write_text("mine")
    shutil.rmtree(out / "cells")
    assert lay_out(request, outcome(request, {})) == []
    assert {file.name for file in request.folder.rglob("*") if file.is_file()} == {"report.html"}


def test_several_processes_may_lay_out_one_table(out: Path) -> None:
    request = wanted(out)
    found = outcome(request, {})

    def lay_out_alone(_: int) -> list[Path]:
        with table_lock(request):
            return lay_out(request, found)

    with ThreadPoolExecutor(4) as pool:  # a lock is one of open files, so that threads exclude each other too
        assert list(pool.map(lay_out_alone, range(12))) == [[request.folder / "gem"]] * 12
    assert read_runs(request.folder).damage == []


@pytest.mark.parametrize("name", names())
def test_every_table_can_be_laid_out(name: str) -> None:
    items = [(item, item.setting) for item in load(name).items if item.setting is not None]
    rows = [Row(name=plain(item.name), label=item.label, setting=setting) for item, setting in items]
    assert len({row.name for row in rows}) == len(items)
    assert all(Spec(name=row.name, rows=[row]) for row in rows)


def with_seeds(out: Path, seeds: list[int]) -> Request:
    return replace(wanted(out), seeds=seeds)
