import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from gradcast.epochs.curriculum import Curriculum
from gradcast.epochs.schedule import Schedule
from pydantic import ValidationError

from gradcast.data.catalogue import CATALOGUE
from gradcast.data.images import Images, Source
from gradcast.errors import GradcastError
from gradcast.reproduce.cells import Cell
from gradcast.reproduce.experiment import load as load_table
from gradcast.runs.directory import RunDirectory
from gradcast.signals.policy import Policy
from gradcast.signals.registry import PredictedSpec
from gradcast.specs import build
from gradcast.specs.spec import CHOICES, AugmentationName, Row, Setting, SourceName, Spec
from gradcast.specs.text import load, presets
from gradcast.streams.augment import AUGMENTATIONS
from gradcast.streams.scale import Scale


def row(name: str = "base") -> Row:
    return Row(name=name, label=name, setting=Setting())


def test_choices_name_every_class_by_its_own_name() -> None:
    for choices in CHOICES.values():
        for name, model in choices.items():
            annotation = model.model_fields["name"].annotation
            assert name in getattr(annotation, "__args__", ())


@pytest.mark.parametrize(("rows", "seeds"), [([row(), row()], [0]), ([row()], [1, 1])])
def test_rows_and_seeds_are_distinct(rows: list[Row], seeds: list[int]) -> None:
    with pytest.raises(ValidationError, match="appears 2 times"):
        Spec(name="x", rows=rows, seeds=seeds)


@pytest.mark.parametrize("name", ["../up", "a/b", "", "UPPER", ".hidden"])
def test_names_that_become_directories_are_plain(name: str) -> None:
    with pytest.raises(ValidationError):
        Spec(name=name, rows=[row()])
    with pytest.raises(ValidationError):
        Row(name=name, label="x", setting=Setting())


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_probability(p: float) -> None:
    with pytest.raises(ValidationError):
        Policy(p=p)


def test_labels_say_learner_and_signal() -> None:
    labels = [row.label for row in load("mnist-p", ["learner.name=dcl"]).rows]
    assert labels == ["DCL", "DCL + predicted gradients", "DCL + random directions"]
    best = [row.label for row in load("mnist-p-best").rows]
    assert best == ["GEM", "GEM + averaged weights", "GEM + contrastive + averaged weights"]


ACL = {"acl-cifar100", "acl-mini-imagenet"}
BEST = {f"{name}-best" for name in ("icifar100-resnet-er", "icifar100-resnet-gem", "mnist-r", "mnist-p")}
IMAGES = [f"icifar100-{name}" for name in ("resnet-gem", "resnet-dcl", "effnet-gem", "effnet-dcl", "effnetlite-gem")]


FEW_LABELS = {"digits-100", "svhn-1000", "cifar10-4000", "cifar100-10000"}


def test_presets_exist() -> None:
    assert set(presets()) == {"digits", "mnist-r", "mnist-p", "acl-digits", *ACL, *IMAGES, *BEST, *FEW_LABELS}


def test_every_labelled_dataset_is_a_source() -> None:
    labelled = {name for name, dataset in CATALOGUE.items() if dataset.labelled}
    assert set(get_args(SourceName)) == labelled | {"digits", "folder", "npz", "python"}
    assert set(get_args(AugmentationName)) == set(AUGMENTATIONS)


# Names of runs that were trained before specifications knew of schedules, momentum or channels: they are found again.
KNOWN = {
    "digits": "digits-874ee48e",
    "icifar100-resnet-gem": "icifar100-resnet-gem-ba2b2e10",
    "mnist-p": "mnist-p-05933148",
}
CELLS = {"E1/gem-predicted": "mnist-gem-predicted-47f79062f3fe", "E3/a-gem": "cifar-100-a-gem-none-483466103399"}


def test_names_of_runs_stay_what_they_were() -> None:
    assert {name: RunDirectory.named(Path("x"), load(name)).path.name for name in KNOWN} == KNOWN
    places = {place: place.split("/") for place in CELLS}
    assert {place: Cell(load_table(table).item(row).setting).name for place, (table, row) in places.items()} == CELLS


SCHEDULED = (
    "stream.scenario=split",
    "stream.tasks=2",
    "stream.class_order=seeded",
    "stream.samples=all",
    "schedule.epochs=3",
)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["learner.name=acl"], "'acl' trains many epochs a task: add a [schedule]"),
        (["stream.scenario=split", "stream.class_order=seeded"], "belongs to a [schedule]: add one"),
        (["learner.momentum=0.9"], "learner.momentum and learner.decay belong to a [schedule]"),
        (["schedule.epochs=3"], "set stream.scenario=split and stream.class_order=seeded"),
        ([*SCHEDULED, "stream.epochs=2"], "set schedule.epochs and leave stream.epochs out"),
        ([*SCHEDULED, "stream.samples=100"], "leave stream.samples, stream.ratio and stream.augment out"),
        ([*SCHEDULED, "evaluation.drop_last=true"], "leave [evaluation] out"),
        ([*SCHEDULED, "evaluation.average=3"], "weights of the best epoch"),
        ([*SCHEDULED, "policy.update=sequential"], "set policy.update=joint"),
        ([*SCHEDULED, "pool.name=held-out"], "the pool 'held-out' is those that are not shown: choose another"),
        (["signal.name=true-labels"], "set pool.name=held-out"),
        (["signal.name=soft", "signal.protected=true", "learner.name=er"], "signal.protected needs the memories of"),
        ([*SCHEDULED, "signal.name=soft", "signal.protected=true"], "signal.protected needs the memories of"),
        (["signal.name=soft", "signal.outputs=seen"], "set model.heads=masked, or leave it out"),
        ([*SCHEDULED, "signal.name=soft", "signal.outputs=seen"], "set model.heads=masked, or leave it out"),
        (["pool.name=held-out", "pool.transform=tiny"], "leave pool.transform and pool.ratio out"),
        (["pool.name=held-out", "pool.ratio=0.5"], "leave pool.transform and pool.ratio out"),
        (["pool.name=held-out", "pool.count=5"], "unknown key"),
        ([*SCHEDULED, "signal.optimizer=adam"], "set signal.optimizer=sgd"),
        (
            [*SCHEDULED, "learner.name=acl"],
            "'acl' makes its networks of model.name = 'alexnet-like' or 'slim-resnet18': set that",
        ),
        (
            [*SCHEDULED, "model.name=slim-resnet18", "learner.name=acl", "model.heads=shared"],
            "leave model.heads, model.weights and model.perturbation out",
        ),
        (
            [*SCHEDULED, "model.name=slim-resnet18", "learner.name=hat"],
            "'hat' makes its networks of model.name = 'alexnet-like': set that",
        ),
        ([*SCHEDULED, "model.name=alexnet-like", "learner.name=hat", "signal.name=soft"], "needs one network with"),
        ([*SCHEDULED, "model.name=alexnet-like", "learner.name=acl", "signal.name=distil"], "needs one network with"),
        ([*SCHEDULED, "model.name=alexnet-like", "learner.name=hat", "policy.project=false"], "'hat' protect"),
        ([*SCHEDULED, "model.name=alexnet-like", "learner.name=acl"], "set policy.batch equal to stream.batch"),
        ([*SCHEDULED, "schedule.epoch=3"], "did you mean 'schedule.epochs'"),
    ],
)
def test_what_does_not_go_with_a_schedule_or_without_one(settings: list[str], message: str) -> None:
    with pytest.raises(GradcastError, match=re.escape(message)):
        load("digits", settings)


def test_every_learner_of_a_single_pass_takes_a_schedule() -> None:
    for name in ("finetune", "gem", "dcl", "a-gem", "er", "joint"):
        setting = load("digits", [*SCHEDULED, f"learner.name={name}", "learner.momentum=0.9"]).rows[1].setting
        assert setting.schedule is not None
        assert setting.schedule.epochs == 3


def test_rows_with_and_without_a_schedule_are_not_compared() -> None:
    scheduled = load("digits", SCHEDULED).rows[0].setting
    with pytest.raises(ValidationError, match="some rows have a"):
        Spec(name="x", rows=[row(), Row(name="other", label="x", setting=scheduled)])


def test_published_constants_of_adversarial_continual_learning() -> None:
    cifar, mini = (load(name).rows for name in ("acl-cifar100", "acl-mini-imagenet"))
    for rows, adversarial, lr, scale, start in ((cifar, 0.05, 0.01, 0.2, 5), (mini, 0.005, 0.003, 0.15, 0)):
        base, predicted, mlp = (row.setting for row in rows)
        assert (base.learner.name, base.learner.lr, base.stream.tasks, base.stream.batch) == ("acl", lr, 20, 64)
        assert getattr(base.learner, "adversarial", None) == adversarial
        signal = predicted.signal
        assert isinstance(signal, PredictedSpec)
        assert (signal.hidden, signal.alpha, signal.loss_scale, signal.momentum) == ([128, 32], 0.001, scale, 0.9)
        assert (signal.activation, signal.bias) == ("none", True)
        assert mlp.signal == signal.model_copy(update={"activation": "relu", "bias": False})
        assert (predicted.policy.batch, predicted.policy.start) == (64, start)
    assert (cifar[0].setting.schedule, cifar[0].setting.policy.p, mini[0].setting.policy.p) == (Schedule(), 0.3, 0.35)
    assert mini[0].setting.schedule == Schedule(validation=0.02, validation_batch=1)


def test_published_networks_of_adversarial_continual_learning() -> None:
    images = {"acl-cifar100": (32, 32, 2_897_984 + 158_400 + 8_837), "acl-mini-imagenet": (84, 256, 8_772_005)}
    for name, (side, _, weights) in images.items():
        blank = Images(np.zeros((200, 3, side, side), dtype=np.uint8), np.arange(200) % 100)
        setting = load(name).rows[0].setting
        tasks = Curriculum(Source("blank", blank, blank, tuple(map(str, range(100)))), range(20), 5, 0.5, Scale())
        assert sum(p.numel() for p in build.module(setting, tasks).parameters()) == weights
