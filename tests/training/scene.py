"""Digits in tasks of three classes or with few labels, and loops on them that take seconds."""

import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from gradcast.core import Batch, Learner, Metrics
from gradcast.data.cache import Cache
from gradcast.data.digits import digits
from gradcast.data.images import Images, Source
from gradcast.data.load import Shelf, untracked
from gradcast.data.stored_images import StoredImages
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
from gradcast.runs.checkpoint.state import pack, restore
from gradcast.runs.prepared import PreparedRun
from gradcast.signals.policy import Policy
from gradcast.specs.spec import Setting
from gradcast.specs.text import load
from gradcast.streams import scenarios
from gradcast.streams.draws import Draws, Feed
from gradcast.streams.pool import Pool
from gradcast.streams.scale import Scale
from gradcast.streams.stream import Stream
from gradcast.streams.task_data import TaskData
from gradcast.training.evaluate import OwnTests
from gradcast.training.loop import Loop, Position
from gradcast.training.plateau import Plateau
from gradcast.training.plateau_rates import PlateauRates
from gradcast.training.schedule_tables import PlateauSpec
from gradcast.training.step import Step
from gradcast.training.trainer import StepTrainer, Trainer
from tests.helpers import CPU
from tests.learners.acl.scene import CLASSES, LATENT, SIDE, network, predicted

POLICY = Policy(p=0.6, batch=8, start=1)
PLACE = Place(CPU, torch.float64)
SHELF = Shelf(Path("data"), Cache(Path("cache")), untracked)
SHORT = PlateauSpec(epochs=2)
SETTINGS = AclSettings(updates=2, discriminator_units=7)
BATCH = 8


@cache
def source(each: int = 40) -> Source:
    """The digits at the tests' size, so many of each class to train on, and a few more or less to test on."""
    whole = digits(0).converted("grey", SIDE)
    kept = sorted(place for label in range(10) for place in (whole.train.y == label).nonzero()[0][:each].tolist())
    train = Images(whole.train.x[kept], whole.train.y[kept])
    return Source("few digits", train, Images(whole.test.x[:100], whole.test.y[:100]), whole.classes)


def task_data(
    seeds: Sequence[int],
    *,
    each: int = 10,
    tasks: int = 2,
    dtype: torch.dtype = torch.float64,
    validation: float = 0.2,
    labels: int | None = None,
) -> TaskData:
    """Tasks of three classes, which differ from seed to seed; a fifth of their images is set aside."""
    own, facts = scenarios.seeded(source(each), tasks, classes_per_task=CLASSES)
    stream = Stream(own(0), (1, SIDE, SIDE), facts, "digest", labels=labels, own_tasks=own)
    return TaskData(stream, seeds, Place(CPU, dtype), validation=validation)


def epoch(data: TaskData, task: int, number: int, size: int) -> list[Batch]:
    """The batches of one epoch."""
    return list(data.batches(data.epoch(task, number), size))


def draws(seeds: Sequence[int]) -> Draws:
    pool = Pool(StoredImages.of(source(5).test.x[:60]), Scale(), place=PLACE)
    return Draws([Feed(pool, seeds, POLICY.batch)], POLICY, seeds, by_epoch=True)


def plateau_loop(
    data: TaskData, trainer: Trainer, spec: PlateauSpec, drawn: Draws | None = None, *, size: int = BATCH, lr: float
) -> Loop:
    schedule = Plateau(data, trainer, spec, batch=size, lr=lr)
    return Loop(data, trainer, schedule, OwnTests(data, drop_last=False), drawn)


def acl_loop(
    seeds: Sequence[int] = (3, 4), spec: PlateauSpec = SHORT, lr: float = 0.05, *, dropout: float = 0.3
) -> Loop:
    """With predicted gradients; batches of 8, 8 and 8."""
    judging = PlateauRates(len(seeds), 0.05, patience=1)
    acl = Acl(lambda: network(dropout), seeds, SETTINGS, predicted(seeds), POLICY, judging=judging, place=PLACE)
    return plateau_loop(task_data(seeds), acl, spec, draws(seeds), lr=lr)


def residual_loop(seeds: Sequence[int] = (3, 4), spec: PlateauSpec = SHORT, lr: float = 0.05) -> Loop:
    """The same with a shared module that has running statistics, and no signal."""

    def network() -> AclNetwork:
        shared = SlimResNet18(1, LATENT, channels=1)
        return AclNetwork(shared, Private((1, SIDE, SIDE), LATENT, 4), Head(LATENT, CLASSES, 12))

    acl = Acl(network, seeds, SETTINGS, place=PLACE)
    return plateau_loop(task_data(seeds), acl, spec, lr=lr)


def finetune_loop(
    seeds: Sequence[int] = (3, 4),
    spec: PlateauSpec = SHORT,
    lr: float = 0.05,
    *,
    size: int = BATCH,
    learner: Learner | None = None,
) -> Loop:
    """A small network with a head for each task; momentum."""

    def make() -> Replicas:
        modules = []
        for seed in seeds:
            with seeded(seed, "model"):
                modules.append(MLP([SIDE * SIDE, 10, 2 * CLASSES]))
        heads = Heads.even(CLASSES, 2, masked=True)
        return Replicas(modules, heads, device=CPU, dtype=torch.float64, seeds=seeds)

    trainer = StepTrainer(Step(make(), learner or Finetune(), 0.0, sgd=Sgd(momentum=0.9)), restarts=True)
    return plateau_loop(task_data(seeds), trainer, spec, size=size, lr=lr)


@cache
def shared(dtype: torch.dtype = torch.float32) -> PreparedRun:
    return PreparedRun(Place(CPU, dtype), SHELF)


TINY = (
    "schedule.epochs=1", "schedule.validation=0.7", "stream.batch=50", "policy.batch=50", "policy.p=0.6",
    "policy.start=0", "signal.alpha=0.5",
    "model.latent=6", "model.widths=[6]", "model.channels=[2,2,2]", "pool.count=130",
)  # fmt: skip


def scheduled(learner: str, *changes: str) -> Setting:
    """Two tasks of digits under the schedule *plateau*, with predicted gradients."""
    small = ["learner.updates=2", "learner.private_width=2", "learner.head_units=4"] if learner == "acl" else []
    memory = ["learner.memory=12"] if learner in ("gem", "dcl", "a-gem", "er") else []
    return load("acl-digits", [*TINY, f"learner.name={learner}", *small, *memory, *changes]).rows[1].setting


def few_labels(row: str, *changes: str, preset: str = "digits-100") -> Setting:
    """One task with a hundred labels under the schedule *steps*; what changes is that row alone."""
    own = [change if change.startswith("row.") else f"row.{row}.{change}" for change in changes]
    return next(each.setting for each in load(preset, own).rows if each.name == row)


def trained(setting: Setting, seeds: Sequence[int], dtype: torch.dtype = torch.float32) -> tuple[Loop, "Diary"]:
    loop, diary = shared(dtype).loop(setting, seeds), Diary()
    loop.run([diary])
    return loop, diary


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

    def evaluated(self, tasks_done: int, accuracy: Tensor, unknown: Tensor | None = None) -> None:
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


def cut_and_gone_on(make: Callable[[], Loop], cut: int) -> tuple[Loop, Loop, Diary, Diary]:
    """A whole run, and one that has what was packed before a step of it and trains the rest; what both told."""
    whole, again, diary, rest = make(), make(), Diary(), Diary()
    kept: list[tuple[str, dict[str, Tensor], Position]] = []

    def save(position: Position) -> None:
        tensors: dict[str, Tensor] = {}
        kept.append((json.dumps(pack({"loop": whole}, tensors)), tensors, position))

    whole.run([diary], Notebook([cut], save))
    text, tensors, position = next(each for each in kept if each[2].steps == cut)
    restore({"loop": again}, json.loads(text), tensors, CPU)
    again.run([rest], Notebook([], lambda position: None, position))
    return whole, again, diary, rest


def weights_of(loop: Loop, task: int) -> Tensor:
    """With which a task is evaluated now."""
    own = loop.trainer.weights_for(task)
    return loop.trainer.model.theta if own is None else own
