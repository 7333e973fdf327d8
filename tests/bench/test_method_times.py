import pytest
import torch

from gradcast.bench import method_times
from gradcast.bench.method_times import ALONE, BASE, MEMORY, TASKS, last_task, method_time, names, setting
from gradcast.devices import Place
from gradcast.learners.registry import LEARNERS
from gradcast.training.loop import Loop

PLACE = Place(torch.device("cpu"), torch.float32)


def test_every_learner_is_timed_beside_replay() -> None:
    assert names()[0] == BASE
    assert sorted([*names(), *ALONE]) == sorted(LEARNERS.own)


def test_memories_hold_equally_many_images() -> None:
    assert [setting(name, "cpu").learner.memory for name in ("er", "gem", "hal")] == [MEMORY["cpu"]] * 3  # type: ignore[attr-defined]
    assert setting("icarl", "cpu").learner.memory == TASKS * MEMORY["cpu"]  # type: ignore[attr-defined]


def test_steps_are_those_of_the_last_task(monkeypatch: pytest.MonkeyPatch) -> None:
    loops, original = list[Loop](), method_times._steps
    monkeypatch.setattr(method_times, "_steps", lambda loop: (loops.append(loop), original(loop))[1])
    step = last_task(PLACE, "er", 1)
    (loop,) = loops
    before, steps = loop.trainer.model.theta.clone(), loop.schedule.steps(0)
    assert [step(number) for number in range(steps)] == [False] * steps
    assert not torch.equal(loop.trainer.model.theta, before)
    with pytest.raises(StopIteration):
        step(steps)


def test_a_learner_is_timed_in_turns_with_replay() -> None:
    found = method_time(PLACE, "float32", "der", 4)
    assert found.learner == "der"
    assert found.milliseconds > 0
    assert found.ratio > 0
