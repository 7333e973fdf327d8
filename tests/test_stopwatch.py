import time

import pytest
import torch

from gradcast.stopwatch import Stopwatch


def test_steps_count_and_evaluations_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 10.0, 11.0, 13.0, 20.0, 21.0, 30.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    watch = Stopwatch()  # 0
    watch.evaluated(0, torch.zeros(1, 1))  # 10
    watch.stepped(0, 0, {})  # 11
    watch.stepped(1, 0, {})  # 13
    watch.evaluated(1, torch.zeros(1, 1))  # 20
    watch.stepped(2, 1, {})  # 21
    found = watch.as_dict(labelled_images=20)  # 30
    assert found["training_seconds"] == 4.0
    assert found["seconds"] == 30.0
    assert found["ms_per_labelled_image"] == 200.0
