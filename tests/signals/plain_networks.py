"""A plain loop of one seed's networks with torch's own autograd and SGD, for signals that train more than the model."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from gradcast.gradients.sgd import Sgd
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.signals.peer import Peer
from gradcast.signals.task_progress import Progress
from tests.signals import plain_loop
from tests.signals.plain_loop import LR, STEPS, TASKS, Shown

MOMENTUM, DECAY, LENGTH = 0.9, 0.01, STEPS // TASKS
Told = tuple[Tensor, Tensor]  # the loss that is descended, and what is told of it
Before = Callable[[Shown], None]  # before the labelled passes of a step with unlabelled images


def sgd() -> Sgd:
    return Sgd(momentum=MOMENTUM, decay=DECAY)


def peer(heads: Heads) -> Peer:
    """Networks of other seeds than the model's."""
    return Peer(plain_loop.model(heads, first_seed=10), sgd())


def progress(model: Replicas) -> Progress:
    return Progress(lambda task: LENGTH, model.theta)


def risen(step: int, ramp: float) -> float:
    t = min((step % LENGTH) / LENGTH / ramp, 1)
    return float(torch.exp(torch.tensor(-5 * (1 - t) ** 2, dtype=torch.float64)))


def alone(
    networks: Sequence[nn.Module],
    heads: Heads,
    images: int,
    replica: int,
    further: Sequence[Tensor],
    loss: Callable[[Shown, int], Told],
    before: Before = lambda shown: None,
) -> Tensor:
    """Each network descends the cross entropy of the labelled batch, and all descend what a signal adds.

    ``further`` weights are moved by the same optimizer. The result is what is told of every step.
    """
    weights = [*(weight for network in networks for weight in network.parameters()), *further]
    optimizer, losses = torch.optim.SGD(weights, lr=LR, momentum=MOMENTUM, weight_decay=DECAY), list[float]()
    for step, (batch, given) in enumerate(plain_loop.feeds(heads, images)):
        used, columns = given is not None and bool(given.used[replica]), plain_loop.visible(heads, batch.task)
        own = Shown(batch.x[replica], batch.y[replica], columns, given.x[replica] if given and used else None)
        if used:
            before(own)
        total = sum((cross_entropy(net(own.x)[:, columns], own.y) for net in networks), start=torch.zeros(()))
        added, told = loss(own, step) if used else (torch.zeros(()), torch.tensor(torch.nan))
        slopes = torch.autograd.grad(total + added, weights, allow_unused=True)
        for weight, slope in zip(weights, slopes, strict=True):
            weight.grad = torch.zeros_like(weight) if slope is None else slope
        optimizer.step()
        losses.append(float(told.detach()))
    return torch.tensor(losses, dtype=torch.float64)
