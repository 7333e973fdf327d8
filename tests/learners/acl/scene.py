"""Small networks and batches for tests of adversarial continual learning."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from gradcast.core import Batch, Feeds, Metrics, Unlabelled
from gradcast.devices import Place
from gradcast.gradients.gradient_learner import GradientLearner
from gradcast.learners.acl.acl import Acl
from gradcast.learners.acl.settings import AclSettings
from gradcast.memories.by_class import ClassMemory
from gradcast.networks.acl_network import AclNetwork, Head, Private
from gradcast.randomness import seeded
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.signals.policy import Policy
from gradcast.signals.predicted import Predicted
from gradcast.signals.pseudo import Attached
from gradcast.training.trainer import Trainer, Turn
from tests.helpers import CPU

SIDE, LATENT, CLASSES = 12, 8, 3


def network(dropout: float = 0.0, latent: int = LATENT) -> AclNetwork:
    """A shared module of one layer; every dropout has the same rate."""
    shared = nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, latent), nn.ReLU(), nn.Dropout(0.5))
    made = AclNetwork(shared, Private((1, SIDE, SIDE), latent, 4), Head(latent, CLASSES, 12))
    for layer in made.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = dropout
    return made


def learner(
    seeds: Sequence[int] = (3, 4),
    settings: AclSettings | None = None,
    signal: Callable[[Replicas], Sequence[Attached]] | None = None,
    policy: Policy | None = None,
    dropout: float = 0.0,
    memory: int = 0,
) -> Acl:
    """In float64; ``memory`` for three tasks."""
    kept = ClassMemory(Heads.even(CLASSES, 3), memory, seeds=seeds) if memory else None
    place = Place(CPU, torch.float64)
    return Acl(lambda: network(dropout), seeds, settings, signal, policy, place=place, memory=kept)


def predicted(seeds: Sequence[int] = (3, 4), **options: object) -> Callable[[Replicas], list[Attached]]:
    """A gradient learner that moves visibly, one a seed."""

    def make(model: Replicas) -> list[Attached]:
        own: list[GradientLearner] = []
        settings = {"alpha": 0.5, "loss_scale": 5.0, "momentum": 0.9, "decay": 0.01, **options}
        for seed in seeds:
            with seeded(seed, "h"):
                own.append(GradientLearner(CLASSES, (16, 12), **settings))  # type: ignore[arg-type]
        stacked = GradientLearner(CLASSES, (16, 12), replicas=(len(seeds),), **settings)  # type: ignore[arg-type]
        for together, *alone in zip(stacked.parameters(), *(h.parameters() for h in own), strict=True):
            together.data = torch.stack([weight.data for weight in alone])
        return [Attached(Predicted(stacked.to(model.theta)))]

    return make


def images(seed: int, size: int = 5, count: int = 2) -> Tensor:
    """Random ones for every replica."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(count, size, 1, SIDE, SIDE, generator=generator, dtype=torch.float64)


def batch(seed: int, task: int = 0, size: int = 5) -> Batch:
    """Random images and labels."""
    generator = torch.Generator().manual_seed(seed)
    return Batch(images(seed, size), torch.randint(CLASSES, (2, size), generator=generator), task)


class TaskOf:
    """A task without images, for trainers that ask for its number alone."""

    def __init__(self, task: int) -> None:
        self.task = task

    def batches(self, size: int) -> Iterator[Batch]:
        return iter(())


def stepped(
    trainer: Trainer,
    data: Batch,
    lr: Tensor,
    at: tuple[int, int, int],
    draw: Callable[[], Unlabelled | None] | None = None,
) -> Metrics:
    """One batch at a task, epoch and place, with what ``draw`` gives for every update."""
    task, epoch, place = at

    def feeds() -> Feeds:
        found = None if draw is None else draw()
        return () if found is None else (found,)

    return trainer.step(data, feeds, Turn(task, place, epoch, place, lr))
