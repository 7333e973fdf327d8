from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy

from gradcast.learners.er import Er
from gradcast.memories.reservoir import Reservoir
from gradcast.replicas.heads import Heads, HeadsKind
from gradcast.training.step import Step
from tests.helpers import batch, replicas
from tests.learners.scene import descend
from tests.replicas.test_replicas import own_module

CLASSES = [(0, 1, 2), (3, 4), (5, 1, 6)]  # uneven, and one class returns


@pytest.mark.parametrize("kind", ["masked", "seen", "all"])
def test_three_tasks_equal_a_plain_spelling(kind: HeadsKind) -> None:
    heads = Heads.of(CLASSES, kind)
    model, learner = replicas(1, heads=heads, norm="batch"), Er(Reservoir(20, [0]), count=3, asymmetric=True)
    step, module = Step(model, learner, 0.1), own_module(model, 0).train()
    for number in range(21):
        task, data = number // 7, batch(model, seed=number)
        places = data.y % len(CLASSES[task])
        data = replace(data, y=heads.labels(places, task), task=task)
        metrics = step(data)
        drawn = learner.replay()
        images = data.x[0] if drawn is None else torch.cat([data.x[0], drawn.x[0]])
        outputs = module(images)
        shown = sorted({heads.task_columns[task][place] for place in places[0].tolist()})
        wanted = torch.tensor([shown.index(heads.task_columns[task][place]) for place in places[0].tolist()])
        losses = [cross_entropy(outputs[:4, shown], wanted, reduction="none")]
        torch.testing.assert_close(metrics["loss"][0], losses[0].mean().detach())
        for row in range(0 if drawn is None else 3):
            assert drawn is not None
            own = int(drawn.tasks[0, row]) if kind == "masked" else task
            losses.append(
                cross_entropy(heads.columns(outputs[4 + row : 5 + row], own), drawn.y[0, row : row + 1])[None]
            )
        flat = descend(list(module.parameters()), torch.cat(losses).mean(), 0.1)
        torch.testing.assert_close(model.theta[0], flat, rtol=1e-9, atol=1e-12)


def test_classes_that_a_batch_does_not_show_are_not_pushed_away() -> None:
    model, learner = replicas(2, heads=Heads.of(CLASSES, "all")), Er(Reservoir(20, [0, 1]), count=3, asymmetric=True)
    before = model.theta.clone()
    data = batch(model, task=0)
    Step(model, learner, 0.1)(replace(data, y=data.y % 2))
    moved = (model.theta != before)[:, model.places[model.names[-1]]]  # biases of the output layer
    assert moved.tolist() == [[True, True, False, False, False, False, False]] * 2
