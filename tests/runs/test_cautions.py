import warnings
from pathlib import Path

import pytest
import torch

from gradcast.data.cache import Cache
from gradcast.data.load import Shelf, untracked
from gradcast.devices import Place
from gradcast.runs import cautions
from gradcast.runs.cautions import warn_of_surprises
from gradcast.runs.prepared import PreparedRun
from tests.trained_runs import small


@pytest.fixture
def shared(tmp_path: Path) -> PreparedRun:
    return PreparedRun(Place(torch.device("cpu"), torch.float32), Shelf(tmp_path, Cache(tmp_path / "cache"), untracked))


def test_an_ordinary_run_has_no_surprise(shared: PreparedRun) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warn_of_surprises(small(), shared)
    assert told == []


def test_a_signal_that_never_begins_is_told(shared: PreparedRun) -> None:
    with pytest.warns(UserWarning, match=r"the stream has 12 steps and policy\.start is 50: no unlabelled image"):
        warn_of_surprises(small("policy.start=50"), shared)


def test_one_class_a_task_is_told_where_the_task_is_known(shared: PreparedRun) -> None:
    single = ("stream.scenario=split", "stream.classes_per_task=1")
    with pytest.warns(UserWarning, match=r"every task has a single class: where the task is known"):
        warn_of_surprises(small(*single), shared)
    warn_of_surprises(small(*single, "model.heads=seen", "evaluation.task=unknown"), shared)


def test_evaluations_that_take_most_of_the_time_are_told(shared: PreparedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    many = small("stream.tasks=20", "stream.samples=10")
    warn_of_surprises(many, shared)
    monkeypatch.setattr(cautions, "MANY_TESTS", 100_000)
    with pytest.warns(UserWarning, match=r"after each of 20 tasks: 200,000 images a seed, beside 200 of training"):
        warn_of_surprises(many, shared)
