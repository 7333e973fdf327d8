import torch
from gradcast.epochs.core import EpochLearner, Moment
from gradcast.epochs.steps import StepEpochs
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from gradcast.core import Batch
from gradcast.gradients.sgd import Sgd
from gradcast.learners.agem import Agem
from gradcast.learners.er import Er
from gradcast.learners.finetune import Finetune
from gradcast.memories.by_class import ClassMemory
from gradcast.memories.reservoir import Reservoir
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.training.step import Step
from tests.epochs.scene import lessons
from tests.helpers import batch, flat, replicas
from tests.learners.acl.scene import CLASSES, SIDE
from tests.replicas.test_replicas import own_module


def finetune(model: Replicas, **options: float) -> StepEpochs:
    return StepEpochs(Step(model, Finetune(), 0.0, sgd=Sgd(**options)))


LR = torch.tensor([0.1, 0.0], dtype=torch.float64)


def test_steps_are_those_of_torchs_own_optimizer() -> None:
    model = replicas(2)
    learner = finetune(model, momentum=0.9, decay=0.01)
    alone = own_module(model, 0)
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    start = model.theta[1].clone()
    learner.begin(0)
    for number in range(4):
        data = batch(model, seed=number)
        learner.step(data, lambda: None, LR, Moment(0, 0, number))
        optimizer.zero_grad()
        cross_entropy(alone(data.x[0]), data.y[0]).backward()
        optimizer.step()
    torch.testing.assert_close(model.theta[0], flat(alone), rtol=1e-10, atol=1e-12)
    assert torch.equal(model.theta[1], start)
    assert isinstance(learner, EpochLearner)
    assert learner.weights_for(0) is model.theta


def test_loss_and_hits_are_those_of_the_batch() -> None:
    model = replicas(2)
    data = batch(model, size=6)
    found = finetune(model).loss(data)
    for replica in range(2):
        z = own_module(model, replica)(data.x[replica])
        torch.testing.assert_close(
            found["loss"][replica], torch.nn.functional.cross_entropy(z, data.y[replica]).detach()
        )
        assert found["hits"][replica] == (z.argmax(1) == data.y[replica]).sum()


def test_a_restart_goes_back_to_the_tasks_beginning() -> None:
    model = replicas(2)
    learner, both = finetune(model, momentum=0.9), torch.tensor([0.1, 0.1], dtype=torch.float64)
    which = torch.tensor([True, False])

    def train(data: Batch) -> None:
        learner.step(data, lambda: None, both, Moment(0, 0, 0))

    learner.begin(0)
    train(batch(model))
    learner.begin(1)
    start = model.theta.clone()
    train(batch(model, seed=1))
    trained = model.theta.clone()
    learner.restart(which, "reference")
    assert torch.equal(model.theta[0], start[0])
    assert torch.equal(model.theta[1], trained[1])
    train(batch(model, seed=2))
    assert torch.equal(model.theta[0], start[0])
    assert not torch.equal(model.theta[1], trained[1])
    learner.renew(which)
    train(batch(model, seed=2))
    assert not torch.equal(model.theta[0], start[0])


def test_memories_take_a_tasks_images_in_its_first_epoch_each_once() -> None:
    own = lessons((3, 4))
    model = replicas(2, sizes=(SIDE * SIDE, 2 * CLASSES), heads=Heads(CLASSES, 2, masked=True))
    er = Er(Reservoir(100, [3, 4]), 5)
    learner = StepEpochs(Step(model, er, 0.0))
    for task in range(2):
        learner.begin(task)
        for epoch in range(3):
            for number, data in enumerate(own.epoch(task, epoch, 8)):
                learner.step(data, lambda: None, LR, Moment(task, epoch, number))
    assert er.memory.seen == 2 * own.count
    assert er.memory.filled is not None
    _, _, tasks = er.memory.filled
    assert tasks.sum(1).tolist() == [own.count] * 2


def test_replayed_images_join_the_mean_and_what_opposes_earlier_tasks_is_taken_from_the_gradient() -> None:
    """ER and A-GEM with momentum, by hand: one replica, what was drawn, torch's own optimizer."""
    for kind in ("er", "a-gem"):
        heads = Heads(CLASSES, 2, masked=True)
        model = replicas(1, sizes=(SIDE * SIDE, 7, 2 * CLASSES), heads=heads)
        own, rates = lessons((3,)), torch.tensor([0.05], dtype=torch.float64)
        er, agem = Er(Reservoir(100, [3]), 5), Agem(ClassMemory(2, 12, classes=CLASSES, seeds=[3]), 8)
        inner = er if kind == "er" else agem
        learner = StepEpochs(Step(model, inner, 0.0, sgd=Sgd(momentum=0.9)))
        learner.begin(0)
        for data in own.epoch(0, 0, 8):
            learner.step(data, lambda: None, rates, Moment(0, 0, 0))
        learner.begin(1)
        alone = own_module(model, 0)
        optimizer, projected = torch.optim.SGD(alone.parameters(), lr=0.05, momentum=0.9), 0
        for number, data in enumerate(own.epoch(1, 0, 8)):
            learner.step(data, lambda: None, rates, Moment(1, 0, number))
            drawn = inner.drawn
            assert drawn is not None

            def loss(x: Tensor, y: Tensor, tasks: Tensor, alone: nn.Module = alone) -> Tensor:
                columns = alone(x).unflatten(1, (2, CLASSES))
                return cross_entropy(columns[torch.arange(len(y)), tasks], y, reduction="none")

            optimizer.zero_grad()
            now = loss(data.x[0], data.y[0], torch.ones_like(data.y[0]))
            then = loss(drawn.x[0], drawn.y[0], drawn.tasks[0])
            if kind == "er":
                torch.cat([now, then]).mean().backward()
            else:
                weights = list(alone.parameters())
                found = [torch.autograd.grad(part.mean(), weights) for part in (now, then)]
                g, ref = (torch.cat([part.flatten() for part in parts]) for parts in found)
                if g @ ref < 0:
                    g, projected = g - (g @ ref) / (ref @ ref) * ref, projected + 1
                for weight, part in zip(weights, g.split([w.numel() for w in weights]), strict=True):
                    weight.grad = part.view_as(weight)
            optimizer.step()
        torch.testing.assert_close(model.theta[0], flat(alone), rtol=1e-9, atol=1e-11)
        assert kind == "er" or projected > 0
