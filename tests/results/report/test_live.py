import shutil
from pathlib import Path

import pytest

from gradcast.results.report.live import finished, follow, progress, stamp
from gradcast.results.report.read import read_runs
from tests.results.report.copies import copy_of_run, unfinish


class Clock:
    """Lets time pass: each sleep does the next thing."""

    def __init__(self, *things: object) -> None:
        self.things = list(things)
        self.slept: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)
        thing = self.things.pop(0)
        if callable(thing):
            thing()


def test_it_waits_follows_and_ends_by_itself(tmp_path: Path) -> None:
    whole = copy_of_run(tmp_path / "elsewhere").path
    runs, out = tmp_path / "runs", tmp_path / "page" / "report.html"
    refreshed: list[bool] = []

    def begin() -> None:
        unfinish(copy_of_run(runs / "digits-1"), "random", lines=2)

    def look() -> None:
        refreshed.append('http-equiv="refresh" content="7"' in out.read_text())

    def end() -> None:
        look()
        shutil.copytree(whole / "random", runs / "digits-1" / "random", dirs_exist_ok=True)

    said: list[str] = []
    clock = Clock(None, begin, look, end)
    follow(runs, out, every=7, say=said.append, sleep=clock)
    assert said == [
        f"waiting for a run in {runs}",
        "2 of 3 rows finished; GEM + random directions: 1 of 3 tasks",
        "3 of 3 rows finished",
    ]
    assert clock.slept == [7, 7, 7, 7]
    assert refreshed == [True, True]
    assert "refresh" not in out.read_text()
    assert (tmp_path / "page" / "report-files" / "digits-1" / "results.csv").is_file()


def test_interrupted_it_leaves_a_page_that_rests(tmp_path: Path) -> None:
    unfinish(copy_of_run(tmp_path / "digits-1"), "random", lines=2)

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follow(tmp_path, tmp_path / "report.html", every=1, say=lambda _: None, sleep=interrupt)
    text = (tmp_path / "report.html").read_text()
    assert "refresh" not in text
    assert "<li>GEM + random directions: 1 of 3 tasks" in text


def test_the_stamp_changes_when_a_row_comes_further(tmp_path: Path) -> None:
    assert stamp(tmp_path) == []
    run = copy_of_run(tmp_path / "digits-1")
    before = stamp(tmp_path)
    assert len(before) == 1 + 3 + 9 + 9  # the specification, a row each, and two files of every seed
    (tmp_path / "report.html").write_text("ours")
    assert stamp(tmp_path) == before
    with open(run.seed("base", 1) / "accuracy.csv", "a") as file:
        file.write("4,0,0,0\n")
    assert stamp(tmp_path) != before


def test_a_row_that_cannot_be_read_is_not_waited_for(tmp_path: Path) -> None:
    run = copy_of_run(tmp_path / "digits-1")
    (run.seed("random", 0) / "accuracy.csv").write_text("?")
    found = read_runs(tmp_path)
    assert finished(found)
    assert progress(found) == "2 of 3 rows finished"
