import io
import json
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from gradcast.cli.console import ProgressDisplay
from gradcast.errors import GradcastError
from gradcast.reproduce import reproduce
from gradcast.reproduce.experiment import Experiment
from gradcast.reproduce.outcome import Line
from gradcast.reproduce.reproduce import QUICK_SEEDS, RESULT, Request, outcome, request, train, unsaved
from gradcast.reproduce.show_table import label, save
from gradcast.reproduce.views import lay_out
from gradcast.results.report.read import read_runs
from gradcast.results.statistics import interval
from tests.reproduce.scene import TEXT, experiment


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduce, "load", lambda _: experiment())


def run(wanted: Request) -> dict[str, str]:
    return train(wanted, data=None, device="cpu", display=None)


def test_rows_and_what_they_are_compared_with_are_trained(tmp_path: Path) -> None:
    wanted = request("T1", out=tmp_path, rows=["predicted", "ewc"])
    assert [item.name for item in wanted.items()] == ["gem", "predicted"]
    assert run(wanted) == {}
    table = {line.item.name: line for line in outcome(wanted, {})}
    line, other = table["predicted"], table["ewc"]
    assert line.ours["acc"].seeds == 3
    assert line.paired is not None
    assert line.noise is not None
    assert line.origin.startswith("cpu, torch ")
    assert other.state == "not reproduced: no EWC"


def test_a_quick_look_is_shorter_and_kept_apart(tmp_path: Path) -> None:
    full, quick = (request("T1", out=tmp_path, rows=["gem"], quick=quick) for quick in (False, True))
    assert len(quick.seeds) == QUICK_SEEDS
    assert quick.folder != full.folder
    assert [item.setting.stream.samples for item in quick.items() if item.setting] == [20]
    assert run(quick) == {}
    assert outcome(full, {})[0].state == "not run"
    assert outcome(quick, {})[0].noise is None


def test_settings_change_every_row_and_the_arithmetic(tmp_path: Path) -> None:
    wanted = request("T1", out=tmp_path, settings=["learner.lr=0.3", "dtype=float64"])
    assert {item.setting.learner.lr for item in wanted.items() if item.setting} == {0.3}
    assert wanted.dtype == "float64"
    assert not wanted.comparable
    other = request("T1", out=tmp_path, settings=["learner.lr=0.4", "dtype=float64"])
    assert wanted.folder.name.startswith("T1-changed-")
    assert wanted.folder.name.endswith("-float64")
    assert wanted.folder != other.folder
    assert request("T1", out=tmp_path, settings=["dtype=float64"]).comparable


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"rows": ["gen"]}, "did you mean 'gem'"),
        ({"settings": ["learner.lr=-1"]}, "learner.lr"),
        ({"settings": ["seeds=3"]}, "'seeds' is not a setting of a row"),
        ({"settings": ["dtype=half"]}, "dtype"),
    ],
)
def test_bad_requests_are_refused_before_anything_trains(
    asked: dict[str, list[str]], message: str, tmp_path: Path
) -> None:
    with pytest.raises(GradcastError, match=message):
        request("T1", out=tmp_path, **asked)  # type: ignore[arg-type]


def test_a_row_that_diverges_is_an_answer_and_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wild(_: str) -> Experiment:
        return experiment(TEXT.replace("signal.alpha = 0.5", "signal.alpha = 1e30"))

    monkeypatch.setattr(reproduce, "load", wild)
    wanted = request("T1", out=tmp_path, rows=["predicted", "gem"], seeds=1)
    failed = run(wanted)
    assert failed.keys() == {"predicted"}
    table = {line.item.name: line for line in outcome(wanted, failed)}
    first, second = table["predicted"], table["gem"]
    assert first.state.startswith("diverged: loss or weights are not finite at step")
    assert second.ours
    again = {line.item.name: line for line in outcome(wanted, {})}  # by another process: the files remember
    assert again["predicted"].state == first.state


def test_seeds_that_diverge_are_told_beside_those_that_did_not(tmp_path: Path) -> None:
    wanted = request("T1", out=tmp_path, rows=["gem"], seeds=1)
    assert run(wanted) == {}
    more = request("T1", out=tmp_path, rows=["gem"], seeds=2)
    line = outcome(more, {"gem": "diverged: at step 3"})[0]
    assert line.ours["acc"].seeds == 1
    assert line.state == "diverged: at step 3"


def test_a_table_keeps_the_seeds_that_diverged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rate beyond reason loses some seeds; they are in the label, in the file, and in the table made of it."""
    text = TEXT.replace("memory = 8", "memory = 8\nlr = 0.1").replace(
        'signal.name = "predicted"\nsignal.alpha = 0.5', 'learner.name = "finetune"\nlearner.lr = 1e14'
    )
    monkeypatch.setattr(reproduce, "load", lambda _: experiment(text))
    wanted = request("T1", out=tmp_path / "a", rows=["predicted"], seeds=6)
    with pytest.warns(UserWarning, match="seeds lost"):
        assert run(wanted) == {}
    line = next(line for line in outcome(wanted, {}) if line.item.name == "predicted")
    assert line.trained is not None
    lost = line.trained.diverged
    assert 0 < len(lost) < 6
    assert label(line, wanted).endswith(f"({6 - len(lost)} of 6 seeds, {len(lost)} diverged)")
    assert line.paired is not None
    assert f"{len(lost)} of 6 seeds diverged" in line.paired.verdict
    assert run(wanted) == {}  # they are not tried again
    saved = save(wanted, outcome(wanted, {})) / "result.json"
    again = request("T1", out=tmp_path / "b", rows=["predicted"], seeds=6, saved=saved)
    assert [own.paired for own in outcome(again, {}) if own.item.name == "predicted"] == [line.paired]
    (folder,) = lay_out(wanted, outcome(wanted, {}))
    (page,) = read_runs(folder).runs
    assert page.results[1].diverged == lost


def test_a_row_without_its_pool_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def poor(_: str) -> Experiment:
        return experiment(TEXT.replace("signal.alpha = 0.5", 'signal.alpha = 0.5\npool.name = "cub"'))

    monkeypatch.setattr(reproduce, "load", poor)
    wanted = request("T1", out=tmp_path, rows=["predicted", "gem"], seeds=1)
    failed = train(wanted, data=tmp_path, device="cpu", display=None)
    assert failed["predicted"].startswith("failed: cub is not in")
    assert failed.keys() == {"predicted"}


def test_all_rows_that_are_missing_are_planned_and_none_else(tmp_path: Path) -> None:
    assert run(request("T1", out=tmp_path, rows=["gem"], seeds=1)) == {}
    wanted = request("T1", out=tmp_path, rows=["predicted", "p-1"], seeds=1)
    assert [len(wanted.missing(item, [0, 1])) for item in wanted.items()] == [1, 2, 2]
    with ProgressDisplay(Console(file=io.StringIO())) as display:
        assert train(wanted, data=None, device="cpu", display=display) == {}
        assert display.run is not None
        assert list(display.run.planned) == ["GEM + predicted", "p 1"]
        assert (display.run.total, display.run.done) == (2, 2.0)


def test_cost_is_measured_one_seed_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduce, "load", lambda _: experiment(TEXT.replace("seeds = 3", "seeds = 2\nalone = true")))
    wanted = request("T1", out=tmp_path, rows=["gem"])
    assert run(wanted) == {}
    assert len(list((tmp_path / "cells-alone").glob("digits-*"))) == 2
    times = [json.loads(file.read_text())["time"] for file in (tmp_path / "cells-alone").glob("*/row/env.json")]
    found = outcome(wanted, {})[0].ours["milliseconds"]
    assert found == interval([time["ms_per_labelled_image"] for time in times])
    assert found.seeds == 2


def test_one_damaged_row_hides_no_other(tmp_path: Path) -> None:
    wanted = request("T1", out=tmp_path, rows=["gem", "predicted"], seeds=1)
    assert run(wanted) == {}
    assert unsaved(wanted, save_all(wanted)) == []
    (file,) = tmp_path.glob("cells/*-none-*/row/seed-0/accuracy.csv")
    file.write_text("x")
    table = {line.item.name: line for line in outcome(wanted, {})}
    assert table["gem"].state.startswith(f"failed: {file} was changed after it was written")
    assert not table["gem"].ours
    assert table["predicted"].ours
    assert unsaved(wanted, list(table.values())) == ["gem", "base-1"]


def save_all(wanted: Request) -> list[Line]:
    found = outcome(wanted, {})
    save(wanted, found)
    return found


def test_seeds_that_a_saved_table_alone_still_has_are_not_saved_over(tmp_path: Path) -> None:
    wanted = request("T1", out=tmp_path, rows=["gem"], seeds=2)
    assert unsaved(wanted, outcome(wanted, {})) == []  # nothing there yet
    assert run(wanted) == {}
    file = save(wanted, outcome(wanted, {})) / RESULT
    fewer = request("T1", out=tmp_path, rows=["gem"], seeds=1)
    assert unsaved(fewer, outcome(fewer, {})) == []  # the others are still in their cells
    shutil.rmtree(wanted.cells)
    assert unsaved(wanted, outcome(wanted, {})) == ["gem", "base-1"]  # which are one cell
    handed_over = request("T1", out=tmp_path, rows=["gem"], seeds=2, saved=file)
    assert unsaved(handed_over, outcome(handed_over, {})) == []
    for content in ("{}", "[]", '{"rows": [{"name": "gem", "trained": 7}]}'):
        file.write_text(content)
        assert unsaved(wanted, outcome(wanted, {})) == []  # nothing is left to lose


@pytest.mark.parametrize("settings", [[], ["learner.lr=0.3"]])
@pytest.mark.parametrize("quick", [True, False])
def test_rows_run_one_after_another_stay_in_the_table(tmp_path: Path, settings: list[str], quick: bool) -> None:
    for row in ("gem", "p-0.25", "predicted", "gem"):
        wanted = request("T1", out=tmp_path, rows=[row], seeds=1, quick=quick, settings=settings)
        assert run(wanted) == {}
        found = outcome(wanted, {})
        assert unsaved(wanted, found) == []
        save(wanted, found)
    trained = [line.item.name for line in found if line.ours]
    assert {"gem", "predicted", "p-0.25"} <= set(trained)
