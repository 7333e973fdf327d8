import csv
import io
import json
from pathlib import Path

from gradcast.specs.text import load
from gradcast.sweeps.search import said
from gradcast.sweeps.sweep_files import stopped_earlier
from gradcast.sweeps.trials import Trial
from tests.sweeps.tuned import tuned


def test_every_trial_is_in_the_table_with_its_seeds() -> None:
    found = tuned()
    rows = list(csv.DictReader(io.StringIO((found.directory / "trials.csv").read_text())))
    assert [float(row["learner.lr"]) for row in rows] == [0.05, 0.2, 0.05, 0.2]
    assert [float(row["mean"]) / 100 for row in rows] == [own.mean for own in found.trials]
    assert all(row["state"] == "finished" and row["seed 100"] and row["seed 101"] for row in rows)


def test_programs_find_everything_in_one_file() -> None:
    found = tuned()
    record = json.loads((found.directory / "sweep.json").read_text())
    assert record["best"] == found.best.number
    assert record["final"]["directory"] == str(found.result.directory)
    assert [row["name"] for row in record["final"]["rows"]] == ["base", "predicted"]
    assert record["final"]["caution"] == (found.caution or None)


def test_the_specification_of_the_best_is_the_one_that_was_compared() -> None:
    found = tuned()
    assert load(str(found.directory / "best.toml")) == found.spec


def test_stopped_trials_are_read_again_and_damage_is_nothing(tmp_path: Path) -> None:
    stopped = Trial(number=2, values={"a.b": 0.5}, state="stopped", accuracy={100: 0.25}, tasks=2, note="after 2")
    others = [Trial(number=1, values={"a.b": 0.1}, state="finished")]
    listed = [{**own.model_dump(mode="json"), "mean": own.mean} for own in (*others, stopped)]
    (tmp_path / "sweep.json").write_text(json.dumps({"trials": listed}))
    assert stopped_earlier(tmp_path) == {said(stopped.values): stopped}
    for damaged in ("", "{}", "[]", '{"trials": [{"state": "stopped"}]}', '{"trials": 3}'):
        (tmp_path / "sweep.json").write_text(damaged)
        assert stopped_earlier(tmp_path) == {}
    assert stopped_earlier(tmp_path / "nowhere") == {}
