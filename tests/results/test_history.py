import json

import numpy as np

from gradcast.results.history import HISTORY, history, when_tested
from gradcast.training.schedule_tables import StepsSpec
from tests.trained_runs import few_labels

COURSE = StepsSpec(name="steps", steps=11, warm_up=0, milestones=[], ramp=0, test_every=4)


def test_every_number_stands_at_its_test_in_per_cent_where_it_is_a_share() -> None:
    lines = [
        {"step": 3, "task": 0, "loss": 2.0, "test_accuracy": 0.25},
        {"step": 5, "task": 0, "loss": 9.0},
        {"step": 7, "task": 0, "loss": "inf", "test_accuracy": 0.75, "pseudo_accuracy": 0.5},
        {"step": 11, "task": 0, "loss": 1.0},
    ]
    assert when_tested(COURSE).tolist() == [4, 8]
    found = history(lines, COURSE)
    assert found.keys() == HISTORY.keys()
    assert found["test_error"].tolist() == [75.0, 25.0]
    np.testing.assert_array_equal(found["loss"], [2.0, np.nan])
    np.testing.assert_array_equal(found["pseudo_accuracy"], [np.nan, 50.0])
    assert np.isnan(found["label_movement"]).all()


def test_a_run_tells_all_of_it_and_labels_are_judged_where_there_are_any() -> None:
    directory, results = few_labels()
    told = {own.name: set(own.courses) for own in results}
    assert told["supervised"] == {"test_error", "loss"}
    assert told["mg"] == {"test_error", "loss", "pseudo_accuracy", "signal_loss", "label_movement"}
    assert told["soft"] == {"test_error", "loss", "pseudo_accuracy", "cosine"}
    assert told["mean-teacher"] == {"test_error", "loss", "pseudo_accuracy", "signal_loss"}
    line = json.loads((directory.path / "mg/seed-1/metrics.jsonl").read_text().splitlines()[2])
    mg = results[1]
    assert mg.courses["test_error"][1, 2] == 100 * (1 - line["test_accuracy"])
    assert mg.courses["pseudo_accuracy"][1, 2] == 100 * line["pseudo_accuracy"]
    assert mg.tests is not None
    assert mg.tests.tolist() == [5, 10, 15, 20]
    assert mg.compared == "accuracy"
