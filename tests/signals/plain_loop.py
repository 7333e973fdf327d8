"""The same training twice: by a step of several replicas, and by a plain loop of one seed with torch's own autograd."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from gradcast.core import Batch, Signal, Unlabelled
from gradcast.gradients.sgd import Sgd
from gradcast.learners.finetune import Finetune
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.signals.pseudo import Attached
from gradcast.training.step import Step
from tests.helpers import replicas

STEPS, TASKS, LR = 21, 3, 0.1
HEADS = {
    "task known": Heads.even(3, TASKS, masked=True),
    "classes seen": Heads(((0, 1), (2, 3), (4, 5)), "seen"),
    "all classes": Heads(((0, 1), (2, 3), (4, 5)), "all"),
    "uneven tasks": Heads(((0, 1, 2), (3,), (1, 4)), "masked"),
}


@dataclass(frozen=True)
class Shown:
    """What one seed sees in a step: its labelled batch, and weak and strong views of unlabelled images, if any."""

    x: Tensor
    y: Tensor
    columns: list[int]
    unlabelled: Tensor | None


SignalLoss = Callable[[nn.Module, Shown, int], Tensor]  # network, images, number of the step


def model(heads: Heads, count: int = 2, first_seed: int = 0) -> Replicas:
    """Small networks with BatchNorm, whose output layer sees five features; some answers are sure, others are not."""
    made = replicas(count, sizes=(6, 5, 3), heads=heads, norm="batch", first_seed=first_seed)
    made.theta *= 2
    return made


def feeds(heads: Heads, images: int) -> Iterator[tuple[Batch, Unlabelled | None]]:
    """The steps of all tasks; the second replica has unlabelled images in every other step."""
    generator = torch.Generator().manual_seed(7)
    for step in range(STEPS):
        task = step * TASKS // STEPS
        x = torch.randn(2, 4 + 2 * images, 6, generator=generator, dtype=torch.float64)
        y = torch.randint(len(heads.task_columns[task]), (2, 4), generator=generator)
        shown = Unlabelled(2 * x[:, 4:], torch.tensor([True, step % 2 == 0]), 2)
        yield Batch(x[:, :4], heads.labels(y, task), task), None if step % 5 == 4 else shown


def together(signal: Signal, network: Replicas, images: int, only: int | None = None, sgd: Sgd | None = None) -> Tensor:
    """Every step's loss of the signal, a column a replica; ``only``: this replica trains alone."""
    step, losses = Step(network, Finetune(), LR, [Attached(signal)], sgd=sgd), list[Tensor]()
    rows = slice(None) if only is None else slice(only, only + 1)
    for batch, shown in feeds(network.heads, images):
        own = Batch(batch.x[rows], batch.y[rows], batch.task)
        given = () if shown is None else (Unlabelled(shown.x[rows], shown.used[rows], 2),)
        losses.append(step(own, given).get("signal_loss", own.x.new_full((network.count,), torch.nan)))
    return torch.stack(losses)


def alone(
    network: nn.Module, heads: Heads, images: int, replica: int, further: Sequence[Tensor], loss: SignalLoss
) -> Tensor:
    """A plain loop: cross entropy of the labelled batch and the signal's loss, and SGD on all weights."""
    weights, losses = [*network.parameters(), *further], list[float]()
    for step, (batch, shown) in enumerate(feeds(heads, images)):
        used = shown is not None and bool(shown.used[replica])
        columns = visible(heads, batch.task)
        own = Shown(batch.x[replica], batch.y[replica], columns, shown.x[replica] if shown and used else None)
        total = cross_entropy(network(own.x)[:, columns], own.y)
        added = loss(network, own, step) if used else torch.zeros(())
        slopes = torch.autograd.grad(total + added, weights, allow_unused=True)
        with torch.no_grad():
            for weight, slope in zip(weights, slopes, strict=True):
                weight -= LR * (0 if slope is None else slope)
        losses.append(float(added.detach()) if used else torch.nan)
    return torch.tensor(losses, dtype=torch.float64)


def visible(heads: Heads, task: int) -> list[int]:
    """Columns of the classes that exist for the task's loss."""
    if heads.kind == "masked":
        return list(heads.task_columns[task])
    return list(range(heads.seen_by[task] if heads.kind == "seen" else heads.logits))


def features_and_logits(network: nn.Module, x: Tensor, columns: list[int]) -> tuple[Tensor, Tensor]:
    """What the output layer of a small network sees, and what it says in these columns."""
    layers = network.layers
    assert isinstance(layers, nn.Sequential)
    features = layers[:-1](x)
    return features, layers[-1](features)[:, columns]
