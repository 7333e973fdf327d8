import pytest
import torch

from gradcast.learners.dcl import ReferenceDirection, dcl
from gradcast.memories.ring import TaskMemory
from tests.helpers import batch, replicas


def timeline(interval: int, steps: list[int]) -> str:
    """One sign a step: '0' a row of zeros, which constrains nothing, 'd' a displacement."""
    model = replicas(1)
    direction = ReferenceDirection(interval)
    signs = ""
    for task in steps:
        direction.prepare(model, task)
        signs += "d" if direction.row(model).any() else "0"
        model.step(torch.ones_like(model.theta), 0.1)
        direction.end(model)
    return signs


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        (4, "00dd00dd00" + "00dd00dd"),
        (5, "00ddd00ddd" + "00ddd00d"),
        (10, "00dddddddd" + "00dddddd"),
        (0, "00dddddddd" + "00dddddd"),
    ],
)
def test_timeline_across_a_task_change(interval: int, expected: str) -> None:
    assert timeline(interval, [0] * 10 + [1] * 8) == expected


@pytest.mark.parametrize("sign", [1, -1])
def test_the_row_is_the_displacement_with_its_sign(sign: int) -> None:
    model = replicas(2)
    direction = ReferenceDirection(10, sign)  # type: ignore[arg-type]
    direction.prepare(model, 0)
    direction.end(model)
    start = model.theta.clone()
    model.step(torch.randn_like(model.theta), 0.1)
    direction.prepare(model, 0)
    assert torch.equal(direction.row(model), sign * (model.theta - start))


def test_dcl_constrains_by_one_row_more_than_gem_after_the_first_task() -> None:
    model = replicas(1)
    learner = dcl(TaskMemory(3, 8), interval=0, margin=0.5)
    rows = []
    for number in range(9):
        data = batch(model, task=number // 3, seed=number)
        learner.prepare(model, data)
        learner.begin(model, data)
        rows.append(sum(past.rows().shape[1] for past in learner.past))
        model.step(torch.ones_like(model.theta), 0.1)
        learner.end(model)
    assert rows == [0, 0, 0, 2, 2, 2, 3, 3, 3]
