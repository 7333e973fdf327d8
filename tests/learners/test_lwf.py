import copy
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, kl_div

from gradcast.learners.lwf import Lwf
from gradcast.replicas.heads import Heads, HeadsKind
from gradcast.training.step import Step
from tests.helpers import batch, replicas
from tests.learners.scene import Seen, descend
from tests.replicas.test_replicas import own_module

LR, WEIGHT, TEMPERATURE = 0.1, 0.7, 2.0
CLASSES = [(0, 1), (2, 3, 4), (1, 5)]  # uneven, and one class returns
OLD = {
    "masked": [[], [[0, 1]], [[0, 1], [2, 3, 4]]],
    "seen": [[], [[0, 1]], [[0, 1, 2, 3, 4]]],
    "all": [[], [[0, 1]], [[0, 1, 2, 3, 4]]],
    "shared": [[], [[0, 1, 2]], [[0, 1, 2]]],
}  # columns of the heads that a task shall keep


@pytest.mark.parametrize("kind", list(OLD))
def test_three_tasks_equal_a_plain_spelling(kind: HeadsKind) -> None:
    heads = Heads.even(3, 3) if kind == "shared" else Heads.of(CLASSES, kind)
    model, learner = replicas(1, heads=heads, norm="batch"), Lwf(WEIGHT, TEMPERATURE)
    step, module, before = Step(model, learner, LR), own_module(model, 0).train(), nn.Module()
    for task, columns in enumerate(heads.task_columns):
        for number in range(7):
            data = batch(model, seed=10 * task + number)
            data = replace(data, y=heads.labels(data.y % len(columns), task), task=task)
            metrics = step(data)
            outputs = module(data.x[0])
            loss = cross_entropy(heads.columns(outputs, task), data.y[0])
            kept = OLD[kind][task]
            for own in kept:
                past, now = (z[:, own] / TEMPERATURE for z in (before(data.x[0]).detach(), outputs))
                apart = kl_div(now.log_softmax(1), past.log_softmax(1), reduction="batchmean", log_target=True)
                loss = loss + WEIGHT * TEMPERATURE**2 * apart / len(kept)
            torch.testing.assert_close(
                model.theta[0], descend(list(module.parameters()), loss, LR), rtol=1e-9, atol=1e-12
            )
            assert ("distillation" in metrics) == (task > 0)
        learner.task_ends(model, Seen(task, []))
        before = copy.deepcopy(module)


def test_the_old_network_leaves_running_statistics_alone() -> None:
    model, plain = replicas(2, norm="batch"), replicas(2, norm="batch")
    learner = Lwf(0.0)
    learner.task_ends(model, Seen(0, []))
    Step(model, learner, LR)(batch(model, task=1))
    Step(plain, Lwf(), LR)(batch(plain, task=1))
    assert all(torch.equal(model.buffers[name], buffer) for name, buffer in plain.buffers.items())
    torch.testing.assert_close(model.theta, plain.theta)


def test_weights_of_before_keep_their_place_in_memory() -> None:
    model, learner = replicas(2), Lwf()
    learner.task_ends(model, Seen(0, []))
    first = learner.before
    learner.task_ends(model, Seen(1, []))
    assert learner.before is first
