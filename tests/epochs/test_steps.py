import torch
from torch.nn.functional import cross_entropy

from gradcast.core import Batch
from gradcast.epochs.core import EpochLearner, Moment
from gradcast.epochs.steps import StepEpochs
from gradcast.gradients.sgd import Sgd
from gradcast.learners.finetune import Finetune
from gradcast.replicas import Replicas
from gradcast.step import Step
from tests.helpers import batch, flat, replicas
from tests.test_replicas import own_module


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
