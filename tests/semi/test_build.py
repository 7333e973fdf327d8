import numpy as np
import pytest
import torch

from gradcast import build
from gradcast.data.images import Images, Source
from gradcast.environment import Place
from gradcast.evaluate import Evaluator
from gradcast.semi.build import loop
from gradcast.semi.core import Part
from gradcast.semi.loop import SemiLoop
from gradcast.semi.mean_teacher import MeanTeacher
from gradcast.semi.meta_fitness import MetaFitness
from gradcast.semi.meta_labels import MetaLabels
from gradcast.semi.schedule import Schedule
from gradcast.semi.signalled import Signalled
from gradcast.signals.noise import Noise
from gradcast.signals.predicted import Predicted
from gradcast.signals.pseudo_labels import PseudoLabels
from gradcast.specfile import load
from tests.epochs.scene import Diary
from tests.helpers import CPU
from tests.test_build import SHELF

PLACE = Place(CPU, torch.float32)


def made(row: str, *changes: str, preset: str = "digits-100", source: Source | None = None) -> SemiLoop:
    setting = next(own.setting for own in load(preset, changes).rows if own.name == row)
    stream = build.stream(setting.stream, SHELF, source)
    tests = Evaluator([stream.test(0)], stream.scale, drop_last=False, device=CPU, dtype=torch.float32)
    return loop(setting, stream, tests, [3, 8], PLACE)


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


def test_mix_up_may_be_left_out() -> None:
    assert made("mg", "row.mg.learner.mix_up=0.0").step.mix_up is None


@pytest.mark.parametrize(
    ("preset", "beta", "decay", "scale", "augment"),
    [
        ("svhn-1000", 0.1, 5e-5, 2.0, ["crop"]),
        ("cifar10-4000", 1.0, 1e-4, 1.0, ["crop", "flip"]),
        ("cifar100-10000", 1.0, 1e-4, 1.0, ["crop", "flip"]),
    ],
)
def test_published_presets_train(preset: str, beta: float, decay: float, scale: float, augment: list[str]) -> None:
    """Their own constants; on a few small images, for two steps."""
    classes, drawn = 100 if "100-" in preset else 10, np.random.default_rng(0)
    y = np.arange(2 * classes) % classes
    x = drawn.integers(0, 256, (len(y), 3, 12, 12), dtype=np.uint8)
    source = Source("noise", Images(x, y), Images(x[:classes], y[:classes]), tuple(map(str, range(classes))))
    whole = next(row.setting for row in load(preset).rows if row.name == "mg-predicted")
    assert whole.semi is not None
    assert whole.semi.schedule(whole.learner.lr) == Schedule()
    assert (whole.stream.batch, whole.policy.batch, whole.stream.augment) == (128, 128, augment)
    own = made(
        "mg-predicted",
        f"semi.labels={classes}",
        *("stream.batch=4", "policy.batch=4"),
        preset=preset,
        source=source,
    )
    step = own.step
    h = step.parts[1]
    assert step.mix_up is not None
    assert isinstance(h, MetaFitness)
    assert (step.mix_up.beta, step.sgd.decay, h.learner.loss_scale) == (beta, decay, scale)
    assert sum(step.model.sizes) == {10: 3_121_802, 100: 3_133_412}[classes]
    told = [step(*own.supply.next()) for _ in range(2)]
    assert all(bool(each["finite"].all()) for each in told)


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
