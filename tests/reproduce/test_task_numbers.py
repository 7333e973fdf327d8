import json

import numpy as np
import pytest

from gradcast.reproduce.cells import Cell
from gradcast.reproduce.task_numbers import COURSES, TaskNumbers, task_numbers
from gradcast.results.result import course
from gradcast.runs.jsontext import to_json
from tests.reproduce.scene import trained, wanted

MATRIX = np.array([[0.1, 0.2034], [0.5, 1.0], [0.0, 0.75]])


def test_numbers_are_read_back_from_json_as_they_were_written() -> None:
    own = TaskNumbers(MATRIX, {"loss": np.array([0.123456, 2.0]), "cosine": np.array([np.nan, -3.21e-7])})
    read = TaskNumbers.from_dict(json.loads(to_json(own.as_dict())))
    assert np.array_equal(read.matrix, MATRIX)
    assert read.courses.keys() == {"loss", "cosine"}
    assert read.courses["loss"].tolist() == [0.1235, 2.0]
    np.testing.assert_array_equal(read.courses["cosine"], [np.nan, -3.21e-7])


def test_twenty_tasks_take_less_than_three_kilobytes() -> None:
    numbers = np.random.default_rng(0).random((21, 20))
    own = TaskNumbers(numbers, dict.fromkeys(COURSES, numbers[0]))
    assert len(to_json(own.as_dict())) < 3000


@pytest.mark.parametrize(
    "stored",
    [
        {"accuracy": []},
        {"accuracy": ["1 2", "1 2"]},
        {"accuracy": ["1 2", "1 2", "1"]},
        {"accuracy": ["1 2", "1 2", "1 20000"]},
        {"accuracy": ["1 2", "1 2", "1 -1"]},
        {"accuracy": ["1 2", "1 2", "1 x"]},
        {"accuracy": ["1 2", "1 2", "1 2"], "loss": "1"},
    ],
)
def test_anything_else_is_refused(stored: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        TaskNumbers.from_dict(stored)


def test_means_over_the_steps_of_a_task_are_those_of_the_log() -> None:
    request = wanted(trained())
    setting = request.experiment.item("predicted").setting
    assert setting is not None
    place, row = Cell(setting).results(request.cells)[1]
    found = task_numbers(setting, place, 1, row.matrices[row.seeds.index(1)])
    steps = place.metrics("row", 1)
    assert set(found.courses) == {"loss", "gain", "cosine"}  # no labels
    for name, values in found.courses.items():
        np.testing.assert_array_equal(values, course(steps, name, 2))
    assert np.array_equal(found.matrix, place.accuracy("row", 1))
