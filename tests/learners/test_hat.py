"""Steps of two replicas against plain modules, autograd, and the formulas as they are written."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from gradcast.learners.hat import Hat
from gradcast.networks.hat_network import REACH, HatNetwork, compensated, free_share, slope
from gradcast.replicas.heads import Heads
from gradcast.replicas.passes import folded
from gradcast.replicas.replicas import Replicas
from gradcast.training.step import Step
from gradcast.training.task_modules import TaskModules, made
from gradcast.training.trainer import StepTrainer, Trainer
from tests.helpers import CPU, flat
from tests.learners.acl.scene import CLASSES, SIDE, TaskOf, batch, stepped
from tests.replicas.test_replicas import own_module

LR = torch.tensor([0.01, 0.002], dtype=torch.float64)
BATCHES, STEEPEST, CLIP = 3, 20.0, 2.0


def network() -> HatNetwork:
    found = HatNetwork(CLASSES, shape=(1, SIDE, SIDE), channels=(3, 4, 5), widths=(6, 5), steepest=STEEPEST)
    for layer in found.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
    return found


def learner() -> tuple[StepTrainer, Hat]:
    model = Replicas(made(network, [3, 4], "hat", "model"), Heads.even(CLASSES), device=CPU, dtype=torch.float64)
    modules = TaskModules(model, network, [3, 4], shared="layers.", purpose="hat")
    hat = Hat(lambda task: BATCHES, modules, steepest=STEEPEST, clip=CLIP)
    return StepTrainer(Step(model, hat, 0.0), hat.task_modules()), hat


def train(own: StepTrainer, task: int, steps: int = 4) -> None:
    own.begin(TaskOf(task))
    for number in range(steps):
        stepped(own, batch(10 * task + number, task), LR, (task, 0, number))
    own.finish(TaskOf(task))


def plainly(net: HatNetwork, before: list[Tensor], replica: int, task: int, steps: int = 4) -> Tensor:
    """One replica by the book; ``before`` are the largest gates of earlier tasks, layer by layer."""
    for number in range(steps):
        data, s = batch(10 * task + number, task), slope(number % BATCHES, BATCHES, STEEPEST)
        net.slope.fill_(s)
        net.zero_grad()
        now = [torch.sigmoid(s * embedding) for embedding in net.embeddings]
        taken = sum((gate * (1 - old)).sum() for gate, old in zip(now, before, strict=True))
        left = sum((1 - old).sum() for old in before)
        (cross_entropy(net(data.x[replica]), data.y[replica]) + 0.75 * taken / left).backward()
        inputs: Tensor | None = None
        for layer, old in zip(net.layers, before, strict=True):
            layer.weight.grad *= free_share(old, inputs, layer.weight)
            layer.bias.grad *= 1 - old
            inputs = old
        for embedding in net.embeddings:
            embedding.grad = compensated(embedding.grad, embedding.detach(), s, STEEPEST)
        torch.nn.utils.clip_grad_norm_(net.parameters(), CLIP)
        for weight in net.parameters():
            weight.data -= float(LR[replica]) * weight.grad
        for embedding in net.embeddings:
            embedding.data.clamp_(-REACH, REACH)
    return flat(net)


def test_two_tasks_end_at_the_weights_of_plain_modules() -> None:
    own, _ = learner()
    assert isinstance(own, Trainer)
    nets = [own_module(own.model, replica) for replica in range(2)]
    before = [[torch.zeros(len(e), dtype=torch.float64) for e in net.embeddings] for net in nets]
    for task in range(2):
        train(own, task)
        for replica, net in enumerate(nets):
            assert isinstance(net, HatNetwork)
            expected = plainly(net, before[replica], replica, task)
            torch.testing.assert_close(own.model.theta[replica], expected, rtol=1e-9, atol=1e-11)
            pairs = zip(before[replica], net.embeddings, strict=True)
            before[replica] = [torch.maximum(old, torch.sigmoid(STEEPEST * e.detach())) for old, e in pairs]
            fresh = made(network, [3, 4], "hat", "task", 1)[replica].double()
            for mine, new in zip(
                [*net.embeddings, *net.head.parameters()], [*fresh.embeddings, *fresh.head.parameters()], strict=True
            ):
                mine.data = new.data
    assert own.model.ways.chosen[own.model.module] is folded.outputs


def test_what_an_earlier_task_uses_fully_stays_bit_for_bit() -> None:
    own, hat = learner()
    own.begin(TaskOf(0))
    theta, place = own.model.theta, hat._place(own.model)
    theta[:, place] = REACH * torch.where(torch.arange(place.stop - place.start) % 3 < 2, 1.0, -1.0).double()
    own.model.buffers["slope"].fill_(400.0)  # gates are exactly zero and one
    hat.steepest = 400.0
    own.finish(TaskOf(0))
    x = batch(99).x
    then = own.model.forward(x, 0, statistics="frozen", theta=own.weights_for(0)).z
    train(own, 1)
    assert own.model.buffers["slope"].tolist() == [400.0, 400.0]
    assert torch.equal(own.model.forward(x, 0, statistics="frozen", theta=own.weights_for(0)).z, then)
    assert not torch.equal(own.model.forward(x, 1, statistics="frozen").z, then)


def test_the_validation_loss_has_the_regulariser_at_the_steepest_slope() -> None:
    own, hat = learner()
    own.begin(TaskOf(0))
    data = batch(0)
    embeddings = own.model.theta[:, hat._place(own.model)]
    z = own.model.forward(data.x, 0, statistics="frozen").z
    plain = torch.stack([cross_entropy(z[r], data.y[r]) for r in range(2)])
    expected = plain + 0.75 * torch.sigmoid(STEEPEST * embeddings).mean(1)
    torch.testing.assert_close(own.loss(data)["loss"], expected)
