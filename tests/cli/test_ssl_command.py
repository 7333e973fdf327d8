import json
from pathlib import Path

import pytest

from gradcast.cli.ssl_command import shortened
from gradcast.specs.spec import Spec
from gradcast.specs.text import load
from tests.cli.process import called

SHORT = (
    "schedule.steps=20",
    "schedule.warm_up=2",
    "schedule.milestones=[15]",
    "schedule.ramp=2",
    "schedule.test_every=5",
)
ROWS = 'row=[{name="supervised", label="labels alone"}, {name="mg", label="MG", signal={name="meta-gradient"}}]'


def short() -> list[str]:
    return [part for setting in (*SHORT, ROWS) for part in ("--set", setting)] + ["--device", "cpu", "--threads", "1"]


def test_last_and_best_error_are_told_apart_and_nothing_is_repeated(tmp_path: Path) -> None:
    first = called("ssl", *short(), "--seeds", "2", cwd=tmp_path)
    assert "last error (%)" in first.stdout
    assert "best error (%)" in first.stdout
    assert "chosen on the test images as published figures are" in " ".join(first.stdout.split())
    assert "MG against labels alone:" in first.stdout
    again = called("ssl", *short(), "--seeds", "2", "--json", cwd=tmp_path)
    assert again.stderr.count("finished earlier, not run again") == 2
    result = json.loads(again.stdout)
    assert result["quick"] is False
    for row in result["rows"]:
        last, best = (row["diagnostics"][name]["mean"] for name in ("last_error", "best_error"))
        assert last == pytest.approx(100 * (1 - row["measures"]["acc"]["mean"]))
        assert best <= last
    log = (tmp_path / result["directory"] / "mg" / "seed-1" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in log] == [4, 9, 14, 19]
    assert all("test_accuracy" in json.loads(line) for line in log)
    report = (tmp_path / result["directory"] / "report.md").read_text()
    assert "digits with 100 labels, 20 steps, 2 paired seeds" in report
    assert "chosen on the test images" in report
    page = called("report", result["directory"], cwd=tmp_path)
    assert page.returncode == 0


def test_a_quick_look_has_another_name_and_the_same_course() -> None:
    quick = shortened(load("svhn-1000"))
    assert quick.name == "svhn-1000-quick"
    assert quick.title.startswith("QUICK LOOK, not a result: SVHN")
    courses = {row.name: row.setting.one_task for row in quick.rows}
    mg, teacher = courses["mg"], courses["mean-teacher"]
    assert mg is not None
    assert teacher is not None
    assert (mg.steps, mg.warm_up, mg.milestones, mg.ramp, mg.test_every) == (4000, 40, [3000, 3500], 40, 200)
    assert teacher.ramp == 1000
    few = shortened(load("digits-100"))
    assert [row.setting.schedule.steps for row in few.rows if row.setting.one_task] == [100] * 16
    assert isinstance(few, Spec)
    least = shortened(load("digits-100", ["schedule.steps=60", "schedule.milestones=[]"]))
    assert [row.setting.schedule.steps for row in least.rows if row.setting.one_task] == [
        60
    ] * 16  # never longer than it was


def test_show_quick_other_steps_and_what_has_no_such_table(tmp_path: Path) -> None:
    shown = called("ssl", "cifar10-4000", "--quick", "--show", cwd=tmp_path).stdout
    assert 'name = "cifar10-4000-quick"' in shown
    assert "seeds = [0, 1]" in shown
    assert "steps = 4000" in shown
    tenth = called("ssl", "cifar10-4000", "--steps", "40000", "--show", cwd=tmp_path).stdout
    assert 'name = "cifar10-4000"' in tenth
    for line in ("steps = 40000", "warm_up = 400", "milestones = [30000, 35000]", "ramp = 400", "ramp = 10000"):
        assert line in tenth
    both = called("ssl", "digits-100", "--steps", "40", "--quick", cwd=tmp_path)
    assert (both.returncode, "leave it or --steps out" in both.stderr) == (2, True)
    for own in ("schedule.steps=50", "schedule.test_every=5", "row.mg.schedule.warm_up=2"):
        twice = called("ssl", "digits-100", "--steps", "40", "--set", own, cwd=tmp_path)
        sentence = f"{own.partition('=')[0]} is part of the course that --quick and --steps set; leave it or them out"
        assert (twice.returncode, sentence in twice.stderr) == (2, True)
    fewer = called(
        "ssl", "--quick", "--set", "stream.labels=50", "--set", "seeds=[5, 6]", "--show", cwd=tmp_path
    ).stdout
    assert "labels = 50" in fewer
    assert "seeds = [5, 6]" in fewer
    neither = called("ssl", "--show", "--json", cwd=tmp_path)
    assert (neither.returncode, "leave one of them out" in neither.stderr) == (2, True)
    wrong = called("ssl", "digits", cwd=tmp_path)
    assert wrong.returncode == 2
    assert (
        "digits is not one task with schedule.name = 'steps'; run it with gradcast run, or set stream.tasks=1, "
        "schedule.name=steps and stream.labels"
    ) in wrong.stderr
