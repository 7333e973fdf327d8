"""Schedules without validation: a constant rate, and steps with warm-up, drops and ramp, with few labels and many."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from gradcast.data.cache import Cache
from gradcast.data.catalogue import CATALOGUE
from gradcast.data.images import Images, Source
from gradcast.data.load import Shelf, untracked
from gradcast.devices import Place
from gradcast.errors import Diverged, GradcastError
from gradcast.gradients.sgd import Sgd
from gradcast.runs.checkpoint.keeper import Safety
from gradcast.runs.prepared import PreparedRun
from gradcast.signals.mean_teacher import MeanTeacher
from gradcast.signals.meta_fitness import MetaFitness
from gradcast.signals.meta_gradient import MetaGradient, MetaGradientSpec
from gradcast.signals.noise import Noise
from gradcast.signals.predicted import Predicted, PredictedSpec
from gradcast.signals.pseudo_labels import PseudoLabels
from gradcast.specs import build_stream
from gradcast.specs.fit import check
from gradcast.specs.spec import Setting
from gradcast.specs.text import load, parse
from gradcast.streams.own_pool import OwnImages
from gradcast.training.loop import Loop, Position
from gradcast.training.schedule_tables import StepsSpec
from gradcast.training.schedules import Constant, Steps
from gradcast.training.step import Step
from gradcast.training.trainer import StepTrainer
from tests.helpers import CPU, EITHER_DEVICE
from tests.runs.checkpoint.scene import Scene
from tests.training.scene import SHELF, Diary, Notebook, cut_and_gone_on, few_labels, shared, task_data

METHODS = ("supervised", "mg", "mg-predicted", "mean-teacher")
SHORT = (
    "learner.lr=0.05", "schedule.steps=12", "schedule.warm_up=3", "schedule.milestones=[9]", "schedule.ramp=4",
    "schedule.test_every=4", "stream.batch=16", "policy.batch=16",
)  # fmt: skip


def loop(row: str, seeds: Sequence[int] = (3, 4), *changes: str) -> Loop:
    own = [*SHORT, "row.mean-teacher.schedule.ramp=4", "row.mean-teacher.signal.ema=0.999", *changes]
    return shared(torch.float64).loop(few_labels(row, *own), list(seeds))


def made(
    row: str, *changes: str, preset: str = "digits-100", source: Source | None = None, seeds: Sequence[int] = (3, 8)
) -> Loop:
    prepared = shared() if source is None else PreparedRun(Place(CPU, torch.float32), SHELF, source)
    return prepared.loop(few_labels(row, *changes, preset=preset), list(seeds))


def step_of(own: Loop) -> Step:
    assert isinstance(own.trainer, StepTrainer)
    return own.trainer.update


def one_step(own: Loop) -> dict[str, Tensor]:
    """The first step of the first task."""
    own.schedule.begin(0)
    turn = next(own.schedule.turns(0, 0))

    def draw() -> tuple[object, ...]:
        return () if own.draws is None else own.draws.next(0, turn.place)

    return own.trainer.step(own.schedule.order.batch(0), draw, turn)  # type: ignore[arg-type]


def test_order_of_events_and_positions() -> None:
    diary, saved = Diary(), list[Position]()
    loop("supervised").run([diary], Notebook([5], saved.append))
    assert diary.entries == [
        "evaluated after 0",
        *(f"step {step} task 0" for step in range(12)),
        "trained task 0",
        "evaluated after 1",
    ]
    assert ["test_accuracy" in told for told in diary.metrics] == [False, False, False, True] * 3
    assert torch.equal(diary.metrics[-1]["test_accuracy"], diary.rows[-1][:, 0])
    assert saved == [Position(0, 5, 5)]
    assert [row.shape for row in diary.rows] == [(2, 1), (2, 1)]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("cut", [1, 7])
def test_a_run_that_is_cut_anywhere_goes_on_to_the_same_bits(method: str, cut: int) -> None:
    whole, again, diary, rest = cut_and_gone_on(lambda: loop(method), cut)
    assert torch.equal(again.trainer.evaluated.theta, whole.trainer.evaluated.theta)
    assert torch.equal(again.trainer.model.theta, whole.trainer.model.theta)
    assert rest.entries == diary.entries[1 + cut :]
    ours, theirs = rest.metrics[-1], diary.metrics[-1]
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize("method", METHODS)
def test_replicas_together_equal_replicas_alone(method: str) -> None:
    together, diary = loop(method, (3, 4)), Diary()
    together.run([diary])
    for place, seed in enumerate((3, 4)):
        alone, own = loop(method, (seed,)), Diary()
        alone.run([own])
        torch.testing.assert_close(
            together.trainer.evaluated.theta[place], alone.trainer.evaluated.theta[0], rtol=1e-6, atol=1e-9
        )
        torch.testing.assert_close(diary.rows[-1][place], own.rows[-1][0])


def test_divergence_names_step_and_seed() -> None:
    with pytest.raises(Diverged, match=r"not finite at step \d+ \(seed 3\): training diverged; lower learner.lr"):
        loop("mg", (3, 4), "learner.lr=1e200").run([])


def test_meta_gradient_makes_fewer_errors_than_labels_alone_on_digits() -> None:
    """A hundred labels, 1,197 images without; the published course in 200 steps, five paired seeds."""
    course = StepsSpec(name="steps").within(200).model_dump() | {"test_every": 100}
    changes = [f"schedule.{key}={value}" for key, value in course.items() if key != "name"]
    found: dict[str, Tensor] = {}
    for method in ("supervised", "mg"):
        diary = Diary()
        shared().loop(few_labels(method, *changes, "learner.lr=0.1"), list(range(5))).run([diary])
        found[method] = 100 * (1 - diary.rows[-1][:, 0])
    difference = found["mg"] - found["supervised"]
    assert float(difference.mean()) < -1.5
    assert float(difference.mean()) < -2 * float(difference.std()) / math.sqrt(5)
    assert float(found["supervised"].mean()) < 15


@pytest.mark.parametrize(
    ("row", "signals"),
    [
        ("supervised", []),
        ("mg", [MetaGradient]),
        ("mg-predicted", [MetaGradient, MetaFitness]),
        ("mg-random", [MetaGradient, Noise]),
        ("soft", [PseudoLabels]),
        ("one-hot", [PseudoLabels]),
        ("mean-teacher", [MeanTeacher]),
    ],
)
def test_rows_are_made_of_their_signals(row: str, signals: list[type]) -> None:
    own = made(row)
    step = step_of(own)
    assert [type(each.signal) for each in step.signals] == signals
    mixing = [each.signal for each in step.signals if isinstance(each.signal, MetaGradient)]
    assert [signal.shares is not None for signal in mixing] == [True] * len(mixing)
    assert (own.draws is None) == (signals == [])
    if own.draws is not None:
        (feed,) = own.draws.feeds
        assert (feed.size, feed.views.count) == (64, 2 if row == "mean-teacher" else 1)
        assert isinstance(feed.pool, OwnImages)
    ramped = [each.signal.ramped for each in step.signals]
    assert ramped == {"soft": [True], "one-hot": [True], "mg-random": [True, False], "mg": [True]}.get(row, ramped)
    assert (own.trainer.evaluated is own.trainer.model) == (row != "mean-teacher")
    assert isinstance(step.sgd, Sgd)
    assert (step.sgd.momentum, step.sgd.decay) == (0.9, 1e-4)
    labelled = [own.data.stream.labelled(0, seed) for seed in (3, 8)]
    assert [len(each) for each in labelled] == [100, 100]
    assert not np.array_equal(*labelled)
    assert labelled[1].tolist() == made("mg").data.stream.labelled(0, 8).tolist()  # rows are paired


def predicting(*changes: str) -> list[str]:
    """The row mg-predicted with another table for h."""
    h = {"name": "predicted", "hidden": [128, 32], "alpha": 0.001, "loss_scale": 1.0, "objective": "meta"}
    pairs = (change.partition("=") for change in changes)
    h |= {key: float(value) if value[:1].isdigit() else value for key, _, value in pairs}
    values = (f"{key}={value!r}" for key, value in h.items())
    inline = ", ".join(f"{key} = {value}" for key, _, value in (each.partition("=") for each in values))
    return [f"row.mg-predicted.signal=[{{name = 'meta-gradient', mix_up = 1.0}}, {{{inline}}}]"]


def test_options_of_predicted_gradients() -> None:
    def signal(*changes: str) -> object:
        return step_of(made("mg-predicted", *predicting(*changes))).signals[1].signal

    exact, first = signal("objective=meta-exact"), signal()
    assert isinstance(exact, MetaFitness)
    assert isinstance(first, MetaFitness)
    assert (exact.exact, first.exact) == (True, False)
    assert (first.learner.length.alpha, first.learner.loss_scale) == (0.001, 1.0)
    for changes in (["objective=fitness"], ["directions=frozen"]):
        assert isinstance(signal(*changes), Predicted)
    alone = step_of(made("soft", "row.soft.signal.name=predicted", "row.soft.signal.objective=meta")).signals
    assert [type(each.signal) for each in alone] == [MetaFitness]


@pytest.mark.parametrize("signal", ["soft", "one-hot", "noise", "predicted", "meta-gradient", "mean-teacher"])
def test_every_signal_takes_a_step(signal: str) -> None:
    own = made("soft", f"row.soft.signal.name={signal}")
    before = own.trainer.model.theta.clone()
    assert bool(one_step(own)["finite"].all())
    assert not torch.equal(own.trainer.model.theta, before)


@pytest.mark.parametrize("signal", ["contrastive", "rotation", "vicreg", "mutexmatch", "icl"])
def test_heads_of_signals_step_at_the_rate_of_the_schedule(signal: str) -> None:
    own = made("soft", f"row.soft.signal.name={signal}")
    assert bool(one_step(own)["finite"].all())
    step = step_of(own)
    (attached,) = step.signals
    rate = torch.as_tensor(attached.signal.head.lr)  # type: ignore[attr-defined]
    assert torch.equal(rate, torch.as_tensor(step.lr))
    assert (rate < 0.1).all()  # the warm-up


@pytest.mark.parametrize("tau", ["batch", "per_sample"])
@pytest.mark.parametrize("objective", ["meta", "meta-exact", "fitness"])
@pytest.mark.parametrize("rate", ["learner", "0.001"])
def test_h_may_learn_by_adam_each_seed_as_if_alone(tau: str, objective: str, rate: str) -> None:
    settings = predicting("optimizer=adam", f"tau={tau}", f"objective={objective}", f"lr={rate}")
    weights = []
    for seeds in ([3, 8], [8]):
        own = made("mg-predicted", *settings, seeds=seeds)
        before = h_of(own)
        assert bool(one_step(own)["finite"].all())
        weights.append((h_of(own) - before)[-1])
    assert bool(weights[0].any())
    assert torch.allclose(*weights, rtol=1e-3, atol=1e-6)


def h_of(own: Loop) -> Tensor:
    return step_of(own).signals[1].signal.state()["learner.weights.0"].clone()


def test_mix_up_may_be_left_out() -> None:
    (own,) = step_of(made("mg", "row.mg.signal.mix_up=0.0")).signals
    assert isinstance(own.signal, MetaGradient)
    assert own.signal.shares is None


def noise_images(classes: int) -> Source:
    """Two small images of every class to train on, one to test on."""
    y = np.arange(2 * classes) % classes
    x = np.random.default_rng(0).integers(0, 256, (len(y), 3, 12, 12), dtype=np.uint8)
    return Source("noise", Images(x, y), Images(x[:classes], y[:classes]), tuple(map(str, range(classes))))


@pytest.mark.parametrize(
    ("preset", "labels", "beta", "decay", "scale", "augment"),
    [
        ("svhn-1000", 1000, 0.1, 5e-5, 2.0, ["crop"]),
        ("cifar10-4000", 4000, 1.0, 1e-4, 1.0, ["crop", "flip"]),
        ("cifar100-10000", 10_000, 1.0, 1e-4, 1.0, ["crop", "flip"]),
    ],
)
def test_published_constants(
    preset: str, labels: int, beta: float, decay: float, scale: float, augment: list[str]
) -> None:
    rows = {row.name: row.setting for row in load(preset).rows}
    assert list(rows) == [row.name for row in load("digits-100").rows]
    own = rows["mg-predicted"]
    assert own.stream.labels == labels
    assert own.schedule == StepsSpec(name="steps")
    assert own.learner.lr == 0.1
    assert (own.stream.batch, own.policy.batch, own.stream.augment) == (128, 128, augment)
    assert (own.learner.momentum, own.learner.decay) == (0.9, decay)
    labels_of, h = own.signals
    assert isinstance(labels_of, MetaGradientSpec)
    assert labels_of.mix_up == beta
    assert isinstance(h, PredictedSpec)
    assert (h.hidden, h.alpha, h.loss_scale) == ([128, 32], 0.001, scale)
    assert own.model.name == "conv-large"
    assert rows["supervised"].learner.model_dump() == {
        "name": "finetune", "lr": 0.1, "momentum": 0.9, "decay": decay
    }  # fmt: skip


# As published, to four digits, the last of which was not always rounded.
PUBLISHED_SCALES = {
    "svhn-1000": ((0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970)),
    "cifar10-4000": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "cifar100-10000": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
}


@pytest.mark.data
@pytest.mark.parametrize("preset", PUBLISHED_SCALES)
def test_the_training_images_own_scale_is_the_published_one(preset: str, data: Path, tmp_path: Path) -> None:
    own, (mean, std) = load(preset).rows[0].setting.stream, PUBLISHED_SCALES[preset]
    if not CATALOGUE[own.source].find(data):
        pytest.skip(f"put {own.source} into $GRADCAST_DATA to run this")
    found = build_stream.stream(own, Shelf(data, Cache(tmp_path), untracked))
    assert found.scale.mean == pytest.approx(mean, abs=1e-4)
    assert found.scale.std == pytest.approx(std, abs=1e-4)
    assert len(found.tasks[0].train) == {"svhn": 73_257}.get(own.source, 50_000)  # without SVHN's extra images


def test_conv_large_takes_a_step() -> None:
    few = ["stream.labels=100", "stream.batch=4", "policy.batch=4"]
    own = made("mg-predicted", *few, preset="cifar100-10000", source=noise_images(100))
    before = own.trainer.model.theta.clone()
    assert sum(own.trainer.model.sizes) == 3_133_412
    assert bool(one_step(own)["finite"].all())
    assert not torch.equal(own.trainer.model.theta, before)


def test_a_row_trains_from_its_specification() -> None:
    diary = Diary()
    own = made("mg-predicted", "schedule.steps=4", "schedule.milestones=[3]", "schedule.test_every=2")
    own.run([diary])
    assert own.extent.batches == (4,)
    assert own.extent.every == 2
    assert {"loss", "signal_loss", "label_movement", "tau", "gain"} <= diary.metrics[0].keys()
    stored = own.state()
    assert stored["labelled"].tolist() == [own.data.stream.labelled(0, seed).tolist() for seed in (3, 8)]
    assert stored["signal.learner.weights.0"].shape == (2, 128, 10)
    assert {name for name in stored if name.startswith("model.")} >= {"model.layers.0.weight"}


@pytest.mark.parametrize("row", ["supervised", "mg-predicted", "mg-predicted,adam", "one-hot", "mean-teacher"])
@pytest.mark.parametrize("device", EITHER_DEVICE)
@pytest.mark.usefixtures("deterministic")
def test_a_row_that_is_cut_off_goes_on_to_the_same_bytes(row: str, device: str, tmp_path: Path) -> None:
    changes = [
        "schedule.steps=9", "schedule.milestones=[6]", "schedule.ramp=3", "schedule.test_every=3",
        "row.mean-teacher.schedule.ramp=3", "stream.augment=['flip']",
    ]  # fmt: skip
    row, _, optimizer = row.partition(",")
    changes += predicting(f"optimizer={optimizer}") if optimizer else []
    setting = few_labels(row, *changes)
    spec, scene = parse({"name": "few", "seeds": [3, 5], **setting.model_dump()}), Scene(tmp_path, device)
    whole = scene.train(spec, "whole")
    assert whole is not None
    assert scene.train(spec, "cut", Safety(0, 2), cut=5) is None
    assert scene.train(spec, "cut", Safety(0, 2)) == whole


def several_tasks(signal: object, **stream: object) -> Setting:
    return Setting.model_validate(
        {
            "stream": {"source": "digits", "scenario": "split", "tasks": 2, "labels": 20, "batch": 8, **stream},
            "model": {"name": "mlp", "hidden": [8]},
            "learner": {"name": "gem", "memory": 10},
            "signal": signal,
            "pool": {"name": "unlabelled"},
            "policy": {"p": 1.0, "batch": 8},
        }
    )


@pytest.mark.parametrize("name", ["soft", "meta-gradient", "true-labels"])
def test_few_labels_in_several_tasks_every_task_with_its_own_unlabelled_images(name: str) -> None:
    own = several_tasks({"name": name}, epochs=2)
    together, both = shared().loop(own, [3, 4]), Diary()
    together.run([both])
    alone, single = shared().loop(own, [4]), Diary()
    alone.run([single])
    assert together.extent.batches == (6, 6)  # two passes through twenty images in batches of eight
    for then, now in zip(both.metrics, single.metrics, strict=True):
        torch.testing.assert_close(then["loss"][1], now["loss"][0], rtol=1e-3, atol=1e-4)
        assert then["unlabelled"].tolist() == [8, 8]
    assert ("pseudo_accuracy" in both.metrics[0]) == (name != "true-labels")
    assert {"labelled-0", "labelled-1"} <= together.state().keys()


def test_turns_of_a_constant_rate_and_of_steps() -> None:
    data = task_data((3, 4), validation=0.0)
    constant = Constant(data, batch=8, epochs=2, lr=0.3)
    turns = list(constant.turns(1, 3))
    assert [(t.task, t.number, t.epoch, t.place, t.lr, t.numbered) for t in turns] == [
        (1, number, number // 4, number % 4, 0.3, True) for number in range(3, 8)
    ]
    assert (constant.steps(0), constant.epoch(0)) == (8, 4)
    assert torch.equal(constant.first_round(1).index, data.first_pass(1).index)
    spec = StepsSpec(name="steps", steps=5, warm_up=2, milestones=[3], ramp=4, test_every=2)
    steps = Steps(data, spec, batch=8, lr=0.2)
    found = list(steps.turns(0, 1))
    assert [float(t.lr[0]) for t in found] == pytest.approx([0.2, 0.2, 0.02, 0.02])  # type: ignore[index]
    assert [t.ramp for t in found] == [0.5, 0.75, 1.0, 1.0]
    asked: list[int] = []

    def test(task: int) -> Tensor:
        asked.append(task)
        return torch.zeros(2)

    told = [steps.after(turn, test).keys() for turn in found]
    assert [list(each) for each in told] == [["test_accuracy"], [], ["test_accuracy"], []]
    assert asked == [0, 0]
    assert (steps.steps(1), steps.epoch(1), steps.every) == (5, 5, 2)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (["stream.labels=1290"], "class "),
        (["stream.labels=5"], "5 labels leave some of the 10 classes without any"),
        (["stream.labels=2000"], "2000 labels are asked for and task 0 has 1297 training images"),
        (["policy.batch=1"], "policy.batch leads to a pass of a single image, which BatchNorm cannot normalise"),
    ],
)
def test_what_does_not_fit_the_images_is_said(changes: list[str], sentence: str) -> None:
    own = few_labels("mg", *changes)
    with pytest.raises(GradcastError) as caught:
        check(own, build_stream.stream(own.stream, SHELF))
    assert str(caught.value).startswith(sentence)


def test_batches_may_differ_and_must_be_filled() -> None:
    with pytest.raises(GradcastError, match=r"'unlabelled' has 1197 images and a batch needs 1200; lower"):
        made("mg", "policy.batch=1200")
    made("supervised", "policy.batch=1200")
    assert bool(one_step(made("mg", "policy.batch=32"))["finite"].all())
    assert bool(one_step(made("mg", "policy.batch=100"))["finite"].all())


def test_batches_are_full() -> None:
    """A pass through the 1,297 digits in batches of 16 would end in a single image; walks have no end."""
    fine = few_labels("mg", "stream.batch=16", "policy.batch=16")
    images = build_stream.stream(fine.stream, SHELF)
    check(fine, images)
    check(few_labels("supervised", "policy.batch=1"), images)
    with pytest.raises(GradcastError, match=r"policy\.batch leads to a pass of a single image"):
        check(few_labels("soft", "policy.batch=1"), images)
