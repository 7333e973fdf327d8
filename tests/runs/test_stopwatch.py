import time

import numpy as np
import pytest
import torch

from gradcast.runs.stopwatch import WARM_UP, Stopwatch


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
    found = watch.as_dict([16, 4], in_a_step=2)  # 30
    assert found["training_seconds"] == 5.5
    assert found["task_seconds"] == [4.5, 1.0]
    assert found["seconds"] == 30.0
    assert found["ms_per_labelled_image"] == 250.0  # of the second task: the first was too short to warm up


def test_first_steps_are_no_images_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 51.0, 56.0, 60.0, 64.0, 70.0, 72.0, 80.0, 84.0, 90.0, 120.0, 125.0, 130.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    watch = Stopwatch()  # 0
    watch.evaluated(0, torch.zeros(1, 1))  # 1
    for step in range(WARM_UP + 50):  # 51 after the warm-up
        watch.stepped(step, 0, {})
    watch.trained(0)  # 56: 50 s to warm up, 5 s for 50 steps
    watch.evaluated(1, torch.zeros(1, 1))  # 60
    watch.stepped(WARM_UP - 1, 1, {})  # not of the first task
    watch.trained(1)  # 64
    watch.evaluated(2, torch.zeros(1, 1))  # 70
    watch.trained(2)  # 72
    watch.evaluated(3, torch.zeros(1, 1))  # 80
    watch.trained(3)  # 84
    watch.evaluated(0, torch.zeros(1, 1))  # 90: the next group of seeds, whose first task is short
    watch.trained(0)  # 120
    watch.evaluated(1, torch.zeros(1, 1))  # 125
    found = watch.as_dict([200, 20, 20, 20], in_a_step=1)  # 130
    assert found["warm_up_seconds"] == 80.0
    assert found["task_seconds"] == [85.0, 4.0, 2.0, 4.0]
    assert found["ms_per_labelled_image"] == pytest.approx(1000 * 15 / 160, abs=1e-3)
    slope = np.polyfit(range(4), [50, 200, 100, 200], 1)[0]
    assert found["ms_more_each_task"] == pytest.approx(slope, abs=1e-4)


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
    found = later.as_dict([1], in_a_step=1)  # 106
    assert (found["task_seconds"], found["ms_per_labelled_image"]) == ([8.0], 8000.0)  # there is nothing else
    assert later.begun == 94.0


def test_a_process_that_went_on_tells_no_growth() -> None:
    for seconds, told in ((0.0, True), (5.0, False)):
        watch = Stopwatch()
        watch.taken = (seconds, 0.0)
        watch.tasks = {0: 1.0, 1: 2.0, 2: 3.0}
        assert ("ms_more_each_task" in watch.as_dict([10, 10, 10], in_a_step=0)) == told
