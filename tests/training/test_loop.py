from dataclasses import replace

import pytest
import torch
from torch import Tensor

from gradcast.core import Batch, Metrics
from gradcast.data.digits import digits
from gradcast.errors import GradcastError
from gradcast.gradients.gradient import Gradient
from gradcast.learners.finetune import Finetune
from gradcast.networks.mlp import MLP
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.streams.scale import Scale
from gradcast.streams.scenarios import rotated
from gradcast.streams.stream import Stream
from gradcast.training.average import Average
from gradcast.training.evaluate import Evaluator
from gradcast.training.loop import Loop, Position
from gradcast.training.step import Step
from tests.helpers import CPU


class Diary:
    """An observer that writes down what it hears."""

    def __init__(self) -> None:
        self.entries: list[str] = []
        self.rows: list[Tensor] = []

    def stepped(self, step: int, task: int, metrics: Metrics) -> None:
        self.entries.append(f"step {step} task {task}")

    def trained(self, task: int) -> None:
        self.entries.append(f"trained task {task}")

    def evaluated(self, tasks_done: int, accuracy: Tensor) -> None:
        self.entries.append(f"evaluated after {tasks_done}")
        self.rows.append(accuracy)


def loop(lr: float = 0.1, seeds: tuple[int, ...] = (3, 4)) -> Loop:
    tasks, width, facts = rotated(digits(0), 2, 0)
    stream = Stream(tasks, (1, 8, 8), width, facts, samples=30)
    model = Replicas([MLP([64, 20, 10]) for _ in seeds], Heads(10), device=CPU, dtype=torch.float32)
    tests = [stream.test(task) for task in range(2)]
    evaluator = Evaluator(tests, Scale(), drop_last=False, device=CPU, dtype=torch.float32)
    return Loop(stream, Step(model, Finetune(), lr), evaluator, seeds, batch=10, epochs=1)


def test_evaluates_before_training_and_after_each_task() -> None:
    diary = Diary()
    loop().run([diary])
    assert diary.entries == [
        "evaluated after 0",
        "step 0 task 0",
        "step 1 task 0",
        "step 2 task 0",
        "trained task 0",
        "evaluated after 1",
        "step 3 task 1",
        "step 4 task 1",
        "step 5 task 1",
        "trained task 1",
        "evaluated after 2",
    ]
    assert all(row.shape == (2, 2) for row in diary.rows)
    assert not torch.equal(diary.rows[0], diary.rows[1])


class Notebook:
    """A keeper that wants every second step."""

    def __init__(self, start: Position | None = None) -> None:
        self.start, self.saved = start, list[Position]()

    def begin(self) -> Position | None:
        return self.start

    def due(self, steps: int) -> bool:
        return steps % 2 == 1

    def save(self, position: Position) -> None:
        self.saved.append(position)


def test_a_keeper_hears_of_positions_before_steps_and_of_task_ends() -> None:
    keeper = Notebook()
    loop().run([], keeper)
    assert keeper.saved == [Position(0, 1, 1), Position(1, 0, 3), Position(1, 0, 3), Position(1, 2, 5)]


def test_a_run_goes_on_where_the_keeper_says() -> None:
    diary = Diary()
    loop().run([diary], Notebook(Position(1, 1, 4)))
    assert diary.entries == ["step 4 task 1", "step 5 task 1", "trained task 1", "evaluated after 2"]


def test_a_loss_that_is_not_finite_stops_and_names_step_task_and_seed() -> None:
    running = loop(seeds=(3, 8))
    original = running.step.__call__

    class Breaking(Step):
        def __call__(self, batch: Batch, unlabelled: None = None) -> Metrics:  # type: ignore[override]
            metrics = original(batch, unlabelled)
            return metrics | {"finite": torch.tensor([True, batch.task == 0])}

    broken = Breaking(running.step.model, Finetune(), 0.1)
    diary = Diary()
    with pytest.raises(GradcastError, match=r"are not finite at step 3 \(task 1, seed 8\).*lower learner\.lr"):
        Loop(running.stream, broken, running.evaluator, (3, 8), 10, 1).run([diary])
    assert diary.entries[-1] == "step 5 task 1"  # looked at when the task ends, before its evaluation


def test_steps_that_are_not_finite_may_be_skipped_until_nothing_else_is_left() -> None:
    once, always = loop(seeds=(3, 8)), loop(seeds=(3, 8))
    spoiled = torch.full_like(once.step.model.theta, torch.nan)

    class Breaking(Finetune):
        def __init__(self, steps: set[int]) -> None:
            self.steps, self.count = steps, -1

        def constrain(self, gradient: Gradient) -> tuple[Tensor, Tensor]:
            self.count += 1
            flat, projected = super().constrain(gradient)
            return (spoiled if self.count in self.steps else flat), projected

    for running, steps in ((once, {1}), (always, set(range(1, 100)))):
        running.step.learner, running.step.skips = Breaking(steps), True
    diary = Diary()
    with pytest.warns(
        UserWarning, match=r"not finite at step 1 \(task 0, seed 3\): 2 of the latest 6 steps were undone"
    ):
        once.run([diary])
    assert diary.entries[-1] == "evaluated after 2"
    assert torch.isfinite(once.step.model.theta).all()
    longer = Loop(always.stream, always.step, always.evaluator, (3, 8), 1, 1)  # 30 steps a task
    with (
        pytest.warns(UserWarning, match="steps were undone"),  # the first look saw a good step, the second few
        pytest.raises(GradcastError, match=r"not finite at step 30 .*diverged"),
    ):
        longer.run([])


def test_divergence_is_noticed() -> None:
    with pytest.raises(GradcastError, match="diverged"):
        loop(lr=1e30).run([])


def test_an_average_is_evaluated_and_does_not_change_the_training() -> None:
    plain, averaged, last = loop(), loop(), loop()
    with torch.no_grad():
        for other in (averaged, last):
            other.step.model.theta.copy_(plain.step.model.theta)
    rows = [Diary(), Diary()]
    averaged = replace(averaged, average=Average(averaged.step.model, 3))
    plain.run([rows[0]])
    averaged.run([rows[1]])
    assert torch.equal(plain.step.model.theta, averaged.step.model.theta)
    assert torch.equal(rows[0].rows[0], rows[1].rows[0])  # before the first step there is nothing to average
    assert averaged.average is not None
    last.step.model.theta.copy_(averaged.average.theta)
    assert torch.equal(last.evaluator(last.step.model), rows[1].rows[-1])
    assert not torch.equal(rows[0].rows[-1], rows[1].rows[-1])
