import json

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from gradcast.core import Replay
from gradcast.learners.joint import Joint
from gradcast.replicas.heads import Heads
from gradcast.runs.checkpoint.state import pack, restore
from gradcast.training.step import Step
from gradcast.training.trainer import StepTrainer
from tests.helpers import CPU, flat, replicas
from tests.learners.acl.scene import CLASSES, SIDE, TaskOf, stepped
from tests.replicas.test_replicas import own_module
from tests.training.scene import epoch as batches_of
from tests.training.scene import task_data

LR = torch.tensor([0.1, 0.05], dtype=torch.float64)


def walk(own: Joint, task: int, epochs: int, size: int = 10) -> list[Replay | None]:
    found: list[Replay | None] = []
    for epoch in range(epochs):
        for batch in batches_of(own.data, task, epoch, size):
            own.prepare(replicas(2), batch)
            drawn = own.replay()
            found.append(None if drawn is None else Replay(drawn.x.clone(), drawn.y.clone(), drawn.tasks.clone()))
    return found


def test_an_epoch_passes_once_through_all_images_of_every_task_so_far() -> None:
    own = Joint(task_data((3, 4), tasks=3), 10)
    assert walk(own, 0, 1) == [None] * 3
    found = walk(own, 2, 2)
    sizes = [0 if each is None else each.y.shape[1] for each in found]
    assert sizes == [20, 20, 8] * 2  # batches of 10, 10 and 4 of two earlier tasks
    for epoch in range(2):
        for replica in range(2):
            seen = torch.cat([each.x[replica] for each in found[3 * epoch : 3 * epoch + 3] if each is not None])
            whole = [own.data.batches(own.data.train(task), 100) for task in range(2)]
            expected = torch.cat([next(each).x[replica] for each in whole])
            assert torch.equal(seen.flatten(1).sum(1).sort()[0], expected.flatten(1).sum(1).sort()[0])


def test_what_is_drawn_keeps_its_place_and_goes_on_after_a_restore() -> None:
    own, new = (Joint(task_data((3, 4)), 10) for _ in range(2))
    walk(own, 1, 1)
    place = own.drawn[10].x.data_ptr()
    tensors: dict[str, Tensor] = {}
    restore(new, json.loads(json.dumps(pack(own, tensors))), tensors, CPU)
    batch = batches_of(own.data, 1, 1, 10)[0]
    for each in (own, new):
        each.prepare(replicas(2), batch)
    ours, theirs = own.replay(), new.replay()
    assert ours is not None
    assert theirs is not None
    assert ours.x.data_ptr() == place
    assert torch.equal(ours.x, theirs.x)


def test_a_step_is_one_on_the_mean_loss_over_batches_of_all_tasks_and_validation_is_of_all() -> None:
    model = replicas(2, sizes=(SIDE * SIDE, 2 * CLASSES), heads=Heads.even(CLASSES, 2, masked=True))
    own = task_data((3, 4))
    learner = StepTrainer(Step(model, Joint(own, 10), 0.0))
    alone = own_module(model, 1)
    learner.begin(TaskOf(1))
    batch, earlier = batches_of(own, 1, 0, 10)[0], batches_of(own, 0, 0, 10)[0]
    stepped(learner, batch, LR, (1, 0, 0))
    z = [alone(each.x[1]).unflatten(1, (2, CLASSES))[:, each.task] for each in (batch, earlier)]
    cross_entropy(torch.cat(z), torch.cat([batch.y[1], earlier.y[1]])).backward()
    for weight in alone.parameters():
        assert weight.grad is not None
        weight.data -= 0.05 * weight.grad
    torch.testing.assert_close(model.theta[1], flat(alone), rtol=1e-10, atol=1e-12)
    assert learner.judged_by(1) == range(2)
