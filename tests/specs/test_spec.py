import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from pydantic import ValidationError

from gradcast.data.catalogue import CATALOGUE
from gradcast.data.images import Images, Source
from gradcast.data.registry import SOURCES
from gradcast.errors import GradcastError
from gradcast.reproduce.cells import Cell
from gradcast.reproduce.experiment import load as load_table
from gradcast.runs.directory import RunDirectory
from gradcast.signals.meta_gradient import MetaGradientSpec
from gradcast.signals.policy import Policy
from gradcast.signals.predicted import PredictedSpec
from gradcast.specs import build, build_stream
from gradcast.specs.spec import CHOICES, Row, Setting, Spec, describe
from gradcast.specs.text import dump, load, parse, presets
from gradcast.streams.augment import AUGMENTATIONS, AugmentationName
from gradcast.training.schedule_tables import PlateauSpec
from tests.specs.test_build import SHELF


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
    assert best[:3] == ["GEM", "GEM + averaged weights", "GEM + contrastive + averaged weights"]
    assert best[3:5] == [f"{label} + head start on patches" for label in best[1:3]]
    assert best[5] == "GEM + averaged weights + head start on pixels"


ACL = {"acl-cifar100", "acl-mini-imagenet"}
BEST = {f"{name}-best" for name in ("icifar100-resnet-er", "icifar100-resnet-gem", "mnist-r", "mnist-p")}
IMAGES = [f"icifar100-{name}" for name in ("resnet-gem", "resnet-dcl", "effnet-gem", "effnet-dcl", "effnetlite-gem")]


FEW_LABELS = {"digits-100", "svhn-1000", "cifar10-4000", "cifar100-10000"}


SPLIT = {f"split-{name}" for name in ("digits", "cifar10", "cifar100", "tiny-imagenet")}
SPLIT |= {f"split-{name}-few-labels" for name in ("digits", "cifar100")} | {"split-cifar10-replay"}


def test_presets_exist() -> None:
    families = (ACL, IMAGES, BEST, FEW_LABELS, SPLIT)
    assert set(presets()) == {"demo", "digits", "mnist-r", "mnist-p", "acl-digits", "photos"}.union(*families)


def test_every_labelled_dataset_is_a_source() -> None:
    labelled = {name for name, dataset in CATALOGUE.items() if dataset.labelled}
    assert set(SOURCES) == labelled | {"digits", "folder", "npz", "tasks", "python"}
    assert set(get_args(AugmentationName)) == set(AUGMENTATIONS)


# Names of runs, which later keys and another order of them do not change: finished ones are found again.
KNOWN = {
    "digits": "digits-b5a4c57b",
    "icifar100-resnet-gem": "icifar100-resnet-gem-9c686521",
    "mnist-p": "mnist-p-a346d0c6",
}
CELLS = {"E1/gem-predicted": "mnist-gem-predicted-47f79062f3fe", "E3/a-gem": "cifar-100-a-gem-none-483466103399"}


def test_names_of_runs_stay_what_they_were() -> None:
    assert {name: RunDirectory.named(Path("x"), load(name)).path.name for name in KNOWN} == KNOWN
    places = {place: place.split("/") for place in CELLS}
    assert {place: Cell(load_table(table).item(row).setting).name for place, (table, row) in places.items()} == CELLS


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["pool.name=held-out", "pool.transform=tiny"], "leave pool.transform and pool.ratio out"),
        (["pool.name=held-out", "pool.ratio=0.5"], "leave pool.transform and pool.ratio out"),
        (["pool.name=held-out", "pool.count=5"], "unknown key"),
        (["stream.source=tasks"], "stream.path is missing: set it to your tasks"),
        (["stream.source=tasks", "stream.path=x", "stream.scenario=split"], "the source 'tasks' brings its own tasks"),
        (
            ["stream.source=tasks", "stream.path=x", "stream.class_order=shuffled"],
            "tasks of your own say it themselves",
        ),
        (["stream.scenario=own"], "stream.scenario = 'own' belongs to the source 'tasks'; set it to rotated, permuted"),
        (["stream.tasks=own"], "stream.tasks = 'own' belongs to the source 'tasks'; set it to a number"),
        (["stream.source=folder", 'stream.path=["a", "b"]'], "stream.path is a list, which the source 'tasks' has"),
        (["schedule.epochs=3", "schedule.epoch=3"], "did you mean 'schedule.epochs'"),
        (["schedule.name=steps", "schedule.step=3"], "did you mean 'schedule.steps'"),
        (["schedule.name=stepps"], "schedule.name = 'stepps' is unknown; did you mean 'steps'"),
    ],
)
def test_tables_refuse_what_they_do_not_have(settings: list[str], message: str) -> None:
    with pytest.raises(GradcastError, match=re.escape(message)):
        load("digits", settings)


def test_tasks_of_ones_own_say_how_many_they_are() -> None:
    for path in ("here", ["b", "a"]):
        given = load("digits", ["stream.source=tasks", f"stream.path={path}"])
        own = given.rows[0].setting.stream
        assert (own.path, own.scenario, own.tasks) == (path, "own", "own")  # in place of the preset's
        assert parse(dump(given)) == given
        with pytest.raises(GradcastError, match=r"stream\.tasks = 'own' is not counted yet"):
            _ = own.task_count


def test_errors_on_one_task_are_not_compared_with_measures_of_a_stream() -> None:
    few = load("digits-100").rows[0].setting
    with pytest.raises(ValidationError, match="their measures differ; run them apart"):
        Spec(name="x", rows=[row(), Row(name="other", label="x", setting=few)])


def test_a_schedule_without_a_name_is_the_plateau_and_says_no_name() -> None:
    plain, plateau, steps = (
        Setting.model_validate(raw) for raw in ({}, {"schedule": {"epochs": 3}}, {"schedule": {"name": "steps"}})
    )
    assert (plain.plateau, plain.one_task) == (None, None)
    assert "schedule" not in plain.model_dump()
    assert (plateau.plateau, plateau.one_task) == (PlateauSpec(epochs=3), None)
    assert "name" not in plateau.model_dump()["schedule"]
    assert (steps.plateau, steps.one_task) == (None, None)  # ten tasks
    assert steps.model_dump()["schedule"]["name"] == "steps"
    one = load("digits-100").rows[0].setting
    assert one.one_task == one.schedule


def test_one_signal_or_pool_is_said_as_a_table_and_several_as_a_list() -> None:
    one = Setting.model_validate({"signal": {"name": "noise"}})
    assert one == Setting.model_validate({"signal": [{"name": "noise"}]})
    assert [signal.name for signal in one.signals] == ["noise"]
    assert one.model_dump()["signal"]["name"] == "noise"
    none = Setting()
    assert (none.signals, none.model_dump()["signal"], none.model_dump()["pool"]["name"]) == (
        [],
        {"name": "none"},
        "patches",
    )
    two = Setting.model_validate(
        {"signal": [{"name": "noise", "pool": "grey"}, {"name": "none"}, {"name": "soft"}],
         "pool": [{"name": "patches"}, {"name": "grey"}]}
    )  # fmt: skip
    assert [signal.name for signal in two.signals] == ["noise", "soft"]
    assert [own["name"] for own in two.model_dump()["signal"]] == ["noise", "none", "soft"]
    assert [two.pool_of(signal.pool) for signal in two.signals] == [1, 0]
    assert Setting.model_validate(two.model_dump()) == two
    for table in ("signal", "pool"):
        with pytest.raises(ValidationError, match="at least 1 item"):
            Setting.model_validate({table: []})


def test_labels_name_all_signals() -> None:
    found = load(
        "digits", ['signal=[{name = "meta-gradient"}, {name = "noise", scaled = true}]', "learner.name=er"]
    ).rows[1]
    assert found.label == describe(found.setting) == "ER + meta-gradient + random directions"
    labels = [row.label for row in load("demo").rows]
    assert labels[3:] == ["GEM + head start", "GEM + head start on pixels"]


def test_rows_of_few_labels_are_what_is_published() -> None:
    published = {
        "svhn-1000": ("svhn", 1000, 0.1, 5e-5, 2.0),
        "cifar10-4000": ("cifar-10", 4000, 1.0, 1e-4, 1.0),
        "cifar100-10000": ("cifar-100", 10000, 1.0, 1e-4, 1.0),
    }
    for name, (source, labels, mix_up, decay, loss_scale) in published.items():
        rows = {row.name: row.setting for row in load(name).rows}
        for own in rows.values():
            assert (own.stream.source, own.stream.labels, own.stream.tasks) == (source, labels, 1)
            assert (own.learner.name, own.learner.momentum, own.learner.decay) == ("finetune", 0.9, decay)
            assert [pool.name for pool in own.pool] == ["unlabelled"]
            assert (own.policy.p, own.policy.batch, own.stream.batch, own.model.name) == (1.0, 128, 128, "conv-large")
            assert own.one_task is not None
            assert (own.one_task.steps, own.one_task.milestones) == (400_000, [300_000, 350_000])
        assert rows["supervised"].signals == []
        assert rows["mg"].signals == [MetaGradientSpec(name="meta-gradient", mix_up=mix_up)]
        mg, predicted = rows["mg-predicted"].signals
        assert mg == rows["mg"].signals[0]
        assert isinstance(predicted, PredictedSpec)
        assert (predicted.hidden, predicted.alpha, predicted.loss_scale) == ([128, 32], 0.001, loss_scale)
        assert predicted.objective == "meta"
        assert [own.name for own in rows["mg-random"].signals] == ["meta-gradient", "noise"]


def test_published_constants_of_adversarial_continual_learning() -> None:
    cifar, mini = (load(name).rows for name in ("acl-cifar100", "acl-mini-imagenet"))
    for rows, adversarial, lr, scale, start in ((cifar, 0.05, 0.01, 0.2, 5), (mini, 0.005, 0.003, 0.15, 0)):
        base, predicted, mlp = (row.setting for row in rows)
        assert (base.learner.name, base.learner.lr, base.stream.tasks, base.stream.batch) == ("acl", lr, 20, 64)
        assert getattr(base.learner, "adversarial", None) == adversarial
        (signal,) = predicted.signals
        assert isinstance(signal, PredictedSpec)
        assert (signal.hidden, signal.alpha, signal.loss_scale, signal.momentum) == ([128, 32], 0.001, scale, 0.9)
        assert (signal.activation, signal.bias) == ("none", True)
        assert mlp.signals == [signal.model_copy(update={"activation": "relu", "bias": False})]
        assert (predicted.policy.batch, predicted.policy.start) == (64, start)
    assert (cifar[0].setting.schedule, cifar[0].setting.policy.p, mini[0].setting.policy.p) == (
        PlateauSpec(),
        0.3,
        0.35,
    )
    assert mini[0].setting.schedule == PlateauSpec(validation=0.02, validation_batch=1)


def test_published_networks_of_adversarial_continual_learning() -> None:
    images = {"acl-cifar100": (32, 32, 2_897_984 + 158_400 + 8_837), "acl-mini-imagenet": (84, 256, 8_772_005)}
    for name, (side, _, weights) in images.items():
        blank = Images(np.zeros((200, 3, side, side), dtype=np.uint8), np.arange(200) % 100)
        setting = load(name).rows[0].setting
        tasks = build_stream.stream(setting.stream, SHELF, Source("blank", blank, blank, tuple(map(str, range(100)))))
        assert sum(p.numel() for p in build.network(setting, tasks).parameters()) == weights
