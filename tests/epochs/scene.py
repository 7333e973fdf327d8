"""Digits in tasks of three classes, and loops on them that take seconds."""

from collections.abc import Callable, Sequence
from functools import cache

import torch
from gradcast.epochs.lessons import Lessons
from gradcast.epochs.loop import EpochLoop
from gradcast.epochs.plateau import Plateau
from gradcast.epochs.schedule import Schedule
from gradcast.epochs.steps import StepEpochs
from gradcast.epochs.supply import Supply
from torch import Tensor

from gradcast.core import Metrics
from gradcast.data.digits import digits
from gradcast.data.images import Images, Source
from gradcast.devices import Place
from gradcast.gradients.sgd import Sgd
from gradcast.learners.acl.acl import Acl
from gradcast.learners.acl.settings import AclSettings
from gradcast.learners.finetune import Finetune
from gradcast.networks.acl_network import AclNetwork, Head, Private
from gradcast.networks.mlp import MLP
from gradcast.networks.resnet import SlimResNet18
from gradcast.randomness import seeded
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.signals.policy import Policy
from gradcast.streams.pool import Pool
from gradcast.streams.scale import Scale
from gradcast.training.loop import Position
from gradcast.training.step import Step
from tests.helpers import CPU
from tests.learners.acl.scene import CLASSES, LATENT, SIDE, network, predicted

POLICY = Policy(p=0.6, batch=8, start=1)
PLACE = Place(CPU, torch.float64)
SHORT = Schedule(epochs=2)
SETTINGS = AclSettings(updates=2, discriminator_units=7)


@cache
def source(each: int = 40) -> Source:
    """The digits at the tests' size, so many of each class to train on, and a few more or less to test on."""
    whole = digits(0).converted("grey", SIDE)
    kept = sorted(place for label in range(10) for place in (whole.train.y == label).nonzero()[0][:each].tolist())
    train = Images(whole.train.x[kept], whole.train.y[kept])
    return Source("few digits", train, Images(whole.test.x[:100], whole.test.y[:100]), whole.classes)


def lessons(seeds: Sequence[int], *, each: int = 10, tasks: int = 2, dtype: torch.dtype = torch.float64) -> Lessons:
    return Lessons(
        source(each), seeds, tasks=tasks, width=CLASSES, validation=0.2, scale=Scale(), device=CPU, dtype=dtype
    )


def supply(seeds: Sequence[int]) -> Supply:
    pool = Pool(source(5).test.x[:60], Scale(), device=CPU, dtype=torch.float64)
    return Supply(pool, POLICY, seeds)


def acl_loop(
    seeds: Sequence[int] = (3, 4), schedule: Schedule = SHORT, lr: float = 0.05, *, dropout: float = 0.3
) -> EpochLoop:
    """With predicted gradients; batches of 8, 8 and 8."""
    judging = Plateau(len(seeds), 0.05, patience=1)
    acl = Acl(lambda: network(dropout), seeds, SETTINGS, predicted(seeds), POLICY, judging=judging, place=PLACE)
    return EpochLoop(lessons(seeds), acl, schedule, supply(seeds), batch=8, lr=lr)


def residual_loop(seeds: Sequence[int] = (3, 4), schedule: Schedule = SHORT, lr: float = 0.05) -> EpochLoop:
    """The same with a shared module that has running statistics, and no signal."""

    def network() -> AclNetwork:
        shared = SlimResNet18(1, LATENT, channels=1)
        return AclNetwork(shared, Private((1, SIDE, SIDE), LATENT, 4), Head(LATENT, CLASSES, 12))

    acl = Acl(network, seeds, SETTINGS, place=PLACE)
    return EpochLoop(lessons(seeds), acl, schedule, batch=8, lr=lr)


def finetune_loop(seeds: Sequence[int] = (3, 4), schedule: Schedule = SHORT, lr: float = 0.05) -> EpochLoop:
    """A small network with a head for each task; momentum."""

    def make() -> Replicas:
        modules = []
        for seed in seeds:
            with seeded(seed, "model"):
                modules.append(MLP([SIDE * SIDE, 10, 2 * CLASSES]))
        heads = Heads(CLASSES, 2, masked=True)
        return Replicas(modules, heads, device=CPU, dtype=torch.float64, seeds=seeds)

    learner = StepEpochs(Step(make(), Finetune(), 0.0, sgd=Sgd(momentum=0.9)))
    return EpochLoop(lessons(seeds), learner, schedule, batch=8, lr=lr)


class Diary:
    """An observer that writes down what it hears."""

    def __init__(self) -> None:
        self.entries: list[str] = []
        self.metrics: list[Metrics] = []
        self.rows: list[Tensor] = []

    def stepped(self, step: int, task: int, metrics: Metrics) -> None:
        self.entries.append(f"step {step} task {task}")
        self.metrics.append(metrics)

    def trained(self, task: int) -> None:
        self.entries.append(f"trained task {task}")

    def evaluated(self, tasks_done: int, accuracy: Tensor) -> None:
        self.entries.append(f"evaluated after {tasks_done}")
        self.rows.append(accuracy)


class Notebook:
    """A keeper that wants certain steps, and does something there."""

    def __init__(self, steps: Sequence[int], save: Callable[[Position], None], start: Position | None = None) -> None:
        self.steps, self.saving, self.start = steps, save, start

    def begin(self) -> Position | None:
        return self.start

    def due(self, steps: int) -> bool:
        return steps in self.steps

    def save(self, position: Position) -> None:
        self.saving(position)
