import time

import pytest
import torch

from gradcast.stopwatch import Stopwatch


def test_tasks_count_and_evaluations_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 10.0, 13.0, 20.0, 21.0, 25.0, 26.5, 30.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    watch = Stopwatch()  # 0
    watch.evaluated(0, torch.zeros(1, 1))  # 10
    watch.stepped(0, 0, {})
    watch.trained(0)  # 13
    watch.evaluated(1, torch.zeros(1, 1))  # 20
    watch.trained(1)  # 21
    watch.evaluated(0, torch.zeros(1, 1))  # 25: the next group of seeds
    watch.trained(0)  # 26.5
    found = watch.as_dict(labelled_images=20)  # 30
    assert found["training_seconds"] == 5.5
    assert found["task_seconds"] == [4.5, 1.0]
    assert found["seconds"] == 30.0
    assert found["ms_per_labelled_image"] == 275.0


def test_it_goes_on_from_where_another_was(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 2.0, 7.0, 100.0, 101.0, 104.0, 106.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    watch = Stopwatch()  # 0
    watch.evaluated(0, torch.zeros(1, 1))  # 2
    taken = watch.taken  # 7
    assert taken == (7.0, 5.0)
    later = Stopwatch()  # 100
    later.taken = taken  # 101
    later.trained(0)  # 104: five seconds then, three now
    assert later.as_dict(1)["task_seconds"] == [8.0]  # 106
    assert later.begun == 94.0
