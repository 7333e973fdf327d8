from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from gradcast.semi.build import loop
from gradcast.semi.core import Part
from gradcast.semi.loop import SemiLoop
from gradcast.semi.mean_teacher import MeanTeacher
from gradcast.semi.meta_fitness import MetaFitness
from gradcast.semi.meta_labels import MetaLabels
from gradcast.semi.schedule import Schedule
from gradcast.semi.signalled import Signalled
from torch import Tensor

from gradcast.data.cache import Cache
from gradcast.data.catalogue import CATALOGUE
from gradcast.data.images import Images, Source
from gradcast.data.load import Shelf, untracked
from gradcast.devices import Place
from gradcast.learners.registry import MgSpec
from gradcast.runs.checkpoint.keeper import Safety
from gradcast.signals.noise import Noise
from gradcast.signals.predicted import Predicted
from gradcast.signals.pseudo_labels import PseudoLabels
from gradcast.signals.registry import PredictedSpec
from gradcast.specs import build
from gradcast.specs.text import load, parse
from gradcast.training.evaluate import Evaluator
from tests.epochs.scene import Diary
from tests.helpers import CPU, EITHER_DEVICE
from tests.runs.checkpoint.scene import Scene
from tests.specs.test_build import SHELF

PLACE = Place(CPU, torch.float32)


def made(
    row: str,
    *changes: str,
    preset: str = "digits-100",
    source: Source | None = None,
    seeds: Sequence[int] = (3, 8),
) -> SemiLoop:
    setting = next(own.setting for own in load(preset, changes).rows if own.name == row)
    stream = build.stream(setting.stream, SHELF, source)
    tests = Evaluator([stream.test(0)], stream.scale, drop_last=False, device=CPU, dtype=torch.float32)
    return loop(setting, stream, tests, list(seeds), PLACE)


def kinds(own: SemiLoop) -> list[type]:
    return [type(part.signal if isinstance(part, Signalled) else part) for part in own.step.parts]


@pytest.mark.parametrize(
    ("row", "parts"),
    [
        ("supervised", []),
        ("mg", [MetaLabels]),
        ("mg-predicted", [MetaLabels, MetaFitness]),
        ("mg-random", [MetaLabels, Noise]),
        ("soft", [PseudoLabels]),
        ("one-hot", [PseudoLabels]),
        ("mean-teacher", [MeanTeacher]),
    ],
)
def test_rows_are_made_of_their_parts(row: str, parts: list[type]) -> None:
    own = made(row)
    assert kinds(own) == parts
    assert (own.step.mix_up is not None) == row.startswith("mg")
    assert own.supply.extra == (64 if parts else 0)
    ramped = [part.ramped for part in own.step.parts if isinstance(part, Signalled)]
    assert ramped == {"soft": [True], "one-hot": [True], "mg-random": [False]}.get(row, [])
    assert (own.judged is own.step.model) == (row != "mean-teacher")
    assert own.supply.views == (2 if row == "mean-teacher" else 1)
    assert (own.step.sgd.momentum, own.step.sgd.decay) == (0.9, 1e-4)
    assert own.supply.labelled.shape == (2, 100)
    assert not np.array_equal(*own.supply.labelled)
    assert own.supply.labelled[1].tolist() == made("mg").supply.labelled[1].tolist()  # rows are paired


def test_options_of_predicted_gradients() -> None:
    def part(*changes: str) -> Part:
        return made("mg-predicted", *(f"row.mg-predicted.signal.{change}" for change in changes)).step.parts[1]

    exact, first = part("objective=meta-exact"), part()
    assert isinstance(exact, MetaFitness)
    assert isinstance(first, MetaFitness)
    assert (exact.exact, first.exact) == (True, False)
    assert (first.learner.length.alpha, first.learner.loss_scale) == (0.001, 1.0)
    for changes in (["objective=fitness"], ["directions=frozen"]):
        found = part(*changes)
        assert isinstance(found, Signalled)
        assert isinstance(found.signal, Predicted)
    alone = made("mg-predicted", "row.mg-predicted.learner.name=finetune")
    assert kinds(alone) == [MetaFitness]
    assert alone.step.mix_up is None


@pytest.mark.parametrize("learner", ["finetune", "mg", "mean-teacher"])
@pytest.mark.parametrize("signal", ["none", "soft", "one-hot", "noise", "predicted"])
def test_every_learner_takes_every_signal(learner: str, signal: str) -> None:
    own = made("mg", f"row.mg.learner.name={learner}", f"row.mg.signal.name={signal}")
    before = own.step.model.theta.clone()
    assert bool(own.step(*own.supply.next())["finite"].all())
    assert not torch.equal(own.step.model.theta, before)


@pytest.mark.parametrize("tau", ["batch", "per_sample"])
@pytest.mark.parametrize("objective", ["meta", "meta-exact", "fitness"])
@pytest.mark.parametrize("rate", ["learner", 0.001])
def test_h_may_learn_by_adam_each_seed_as_if_alone(tau: str, objective: str, rate: str | float) -> None:
    changes = {"optimizer": "adam", "tau": tau, "objective": objective, "lr": rate}
    settings = [f"row.mg-predicted.signal.{key}={value}" for key, value in changes.items()]
    weights = []
    for seeds in ([3, 8], [8]):
        own = made("mg-predicted", *settings, seeds=seeds)
        before = h_of(own)
        assert bool(own.step(*own.supply.next())["finite"].all())
        weights.append((h_of(own) - before)[-1])
    assert bool(weights[0].any())
    assert torch.allclose(*weights, rtol=1e-3, atol=1e-6)


def h_of(own: SemiLoop) -> Tensor:
    return next(state["learner.weights.0"].clone() for part in own.step.parts if (state := part.state()))


def test_mix_up_may_be_left_out() -> None:
    assert made("mg", "row.mg.learner.mix_up=0.0").step.mix_up is None


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
    assert own.semi is not None
    assert own.semi.labels == labels
    assert own.semi.schedule(own.learner.lr) == Schedule()
    assert (own.stream.batch, own.policy.batch, own.stream.augment) == (128, 128, augment)
    assert isinstance(own.learner, MgSpec)
    assert (own.learner.momentum, own.learner.decay, own.learner.mix_up) == (0.9, decay, beta)
    assert isinstance(own.signal, PredictedSpec)
    assert (own.signal.hidden, own.signal.alpha, own.signal.loss_scale) == ([128, 32], 0.001, scale)
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
    found = build.stream(own, Shelf(data, Cache(tmp_path), untracked))
    assert found.scale.mean == pytest.approx(mean, abs=1e-4)
    assert found.scale.std == pytest.approx(std, abs=1e-4)
    assert len(found.tasks[0].train) == {"svhn": 73_257}.get(own.source, 50_000)  # without SVHN's extra images


def test_conv_large_takes_a_step() -> None:
    few = ["semi.labels=100", "stream.batch=4", "policy.batch=4"]
    own = made("mg-predicted", *few, preset="cifar100-10000", source=noise_images(100))
    before = own.step.model.theta.clone()
    assert sum(own.step.model.sizes) == 3_133_412
    told = own.step(*own.supply.next())
    assert bool(told["finite"].all())
    assert not torch.equal(own.step.model.theta, before)


def test_a_row_trains_from_its_specification() -> None:
    diary = Diary()
    own = made("mg-predicted", "semi.steps=4", "semi.milestones=[3]", "semi.test_every=2")
    own.run([diary])
    assert own.extent.batches == (4,)
    assert own.extent.told == 2
    assert {"loss", "signal_loss", "label_movement", "tau", "gain"} <= diary.metrics[0].keys()
    stored = own.state()
    assert stored["labelled"].tolist() == own.supply.labelled.tolist()
    assert stored["signal.learner.weights.0"].shape == (2, 128, 10)
    assert {name for name in stored if name.startswith("model.")} >= {"model.layers.0.weight"}


@pytest.mark.parametrize("row", ["supervised", "mg-predicted", "mg-predicted,adam", "one-hot", "mean-teacher"])
@pytest.mark.parametrize("device", EITHER_DEVICE)
@pytest.mark.usefixtures("deterministic")
def test_a_row_that_is_cut_off_goes_on_to_the_same_bytes(row: str, device: str, tmp_path: Path) -> None:
    changes = ["semi.steps=9", "semi.milestones=[6]", "semi.ramp=3", "semi.test_every=3", "stream.augment=['flip']"]
    row, _, optimizer = row.partition(",")
    changes += [f"row.{row}.signal.optimizer={optimizer}"] * bool(optimizer)
    setting = next(own.setting for own in load("digits-100", changes).rows if own.name == row)
    spec, scene = parse({"name": "few", "seeds": [3, 5], **setting.model_dump()}), Scene(tmp_path, device)
    whole = scene.train(spec, "whole")
    assert whole is not None
    assert scene.train(spec, "cut", Safety(0, 2), cut=5) is None
    assert scene.train(spec, "cut", Safety(0, 2)) == whole
