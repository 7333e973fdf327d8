"""Every learner that trains many epochs, by name, with signals, on digits."""

import json
from functools import cache
from pathlib import Path

import pytest
import torch
from gradcast.epochs.loop import EpochLoop
from gradcast.epochs.steps import StepEpochs

from gradcast.errors import GradcastError
from gradcast.gradients.sgd import Sgd
from gradcast.learners.acl.acl import Acl
from gradcast.learners.registry import FEW_LABELS, LEARNERS
from gradcast.results.feature_files import read_feature_map
from gradcast.runs.checkpoint.keeper import Safety
from gradcast.runs.prepared import PreparedRun
from gradcast.runs.run import run
from gradcast.signals.predicted import Predicted
from gradcast.specs.spec import Row, Setting, Spec
from gradcast.specs.text import dump, load
from tests.epochs.scene import Diary
from tests.helpers import EITHER_DEVICE
from tests.runs.checkpoint.scene import Scene
from tests.specs.test_build import PLACE, SHELF

OWN = ("acl", "pnn", "hat")
RESIDUAL = "acl model.name=slim-resnet18 model.width=1 policy.batchnorm=separate"
TINY = (
    "schedule.epochs=1", "schedule.validation=0.7", "stream.batch=50", "policy.batch=50", "policy.p=0.6",
    "policy.start=0", "signal.alpha=0.5",
    "model.latent=6", "model.widths=[6]", "model.channels=[2,2,2]", "pool.count=130",
)  # fmt: skip


@cache
def shared() -> PreparedRun:
    return PreparedRun(PLACE, SHELF)


def setting(learner: str, *changes: str) -> Setting:
    small = ["learner.updates=2", "learner.private_width=2", "learner.head_units=4"] if learner == "acl" else []
    memory = ["learner.memory=12"] if learner in ("gem", "dcl", "a-gem", "er") else []
    return load("acl-digits", [*TINY, f"learner.name={learner}", *small, *memory, *changes]).rows[1].setting


def trained(own: Setting, seeds: list[int]) -> tuple[EpochLoop, Diary]:
    loop, diary = shared().loop(own, seeds), Diary()
    assert isinstance(loop, EpochLoop)
    loop.run([diary])
    return loop, diary


def fits(learner: str, signal: str) -> bool:
    return not (learner in OWN and signal == "distil") and not (
        learner in ("pnn", "hat") and signal in ("one-hot", "soft")
    )


PAIRS = [(learner, "predicted") for learner in LEARNERS if learner not in FEW_LABELS]
PAIRS += [(learner, signal) for learner in OWN for signal in ("one-hot", "noise")]


@pytest.mark.parametrize(("learner", "signal"), [pair for pair in PAIRS if fits(*pair)])
def test_every_learner_trains_with_signals_and_every_replica_as_it_would_alone(learner: str, signal: str) -> None:
    own = setting(learner, f"signal.name={signal}")
    (together, both), (alone, single) = trained(own, [0, 1]), trained(own, [1])
    for then, now in zip(both.metrics, single.metrics, strict=True):
        torch.testing.assert_close(then["loss"][1], now["loss"][0], rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(
        together.learner.weights_for(0)[1], alone.learner.weights_for(0)[0], rtol=1e-2, atol=1e-3
    )
    used = [metrics["unlabelled"][0] for metrics in both.metrics]
    assert any(used)
    assert not all(used)


def test_settings_arrive() -> None:
    own = setting("acl", "learner.adversarial=0.3", "learner.discriminator_lr=0.02", "schedule.patience=7")
    loop = shared().loop(own, [0])
    assert isinstance(loop, EpochLoop)
    learner = loop.learner
    assert isinstance(learner, Acl)
    assert (learner.settings.adversarial, learner.judging.initial, learner.judging.most) == (0.3, 0.02, 7)
    assert (loop.batch, loop.plateau.initial, loop.plateau.most, loop.schedule.epochs) == (50, 0.03, 7, 1)
    assert isinstance(learner.signal, Predicted)
    h = learner.signal.learner
    assert isinstance(h.optimizer, Sgd)
    assert (h.activation, len(h.biases), h.optimizer.momentum, h.optimizer.decay) == ("none", 3, 0.9, 0.01)
    stepwise = shared().loop(setting("er", "learner.momentum=0.3", "learner.decay=0.2"), [0])
    assert isinstance(stepwise, EpochLoop)
    assert isinstance(stepwise.learner, StepEpochs)
    assert (stepwise.learner.sgd.momentum, stepwise.learner.sgd.decay) == (0.3, 0.2)


def test_a_residual_shared_module_trains_two_tasks_of_two_epochs_and_every_replica_as_it_would_alone() -> None:
    own = setting(*RESIDUAL.split(), "schedule.epochs=2", "stream.batch=100", "policy.batch=100", "policy.p=1.0")
    (together, both), (alone, single) = trained(own, [0, 1]), trained(own, [1])
    batches = together.lessons.length(100)
    assert len(both.metrics) == 2 * 2 * batches
    assert sum(float(metrics["unlabelled"][0]) for metrics in both.metrics) == 2 * 2 * (batches - 1) * 100  # full ones
    for then, now in zip(both.metrics[:batches], single.metrics[:batches], strict=True):
        torch.testing.assert_close(then["loss"][1], now["loss"][0], rtol=1e-3, atol=1e-4)
    assert isinstance(alone.learner, Acl)
    assert alone.learner.model.heads.outputs == 5 + 2 * 8
    assert {"model.shared.layer4.1.bn2.running_var", "task-1.private.linear.bias"} <= set(alone.state())


@pytest.mark.parametrize("batchnorm", ["separate", "update"])
def test_running_statistics_of_a_residual_module_follow_the_policy(batchnorm: str) -> None:
    own = setting(*RESIDUAL.split(), f"policy.batchnorm={batchnorm}", "policy.p=1.0")
    loop, diary = trained(own, [0])
    passes = (2 + 2 + 1) * len(diary.metrics)  # two updates of two passes, one judgement
    unlabelled = sum(float(metrics["unlabelled"][0]) * 2 / 50 for metrics in diary.metrics)
    assert unlabelled > 0
    assert isinstance(loop.learner, Acl)
    tracked = loop.learner.model.buffers["shared.bn1.num_batches_tracked"]
    assert float(tracked) == passes + (unlabelled if batchnorm == "update" else 0)


def test_memory_is_none_unless_it_is_asked_for_and_runs_without_it_keep_their_names() -> None:
    assert "memory" not in dump(load("acl-digits"))
    assert "memory = 10\n" in dump(load("acl-digits", ["learner.memory=10"]))
    for changes, size in (((), None), (("learner.memory=10",), 10)):
        loop = shared().loop(setting("acl", *changes), [0])
        assert isinstance(loop, EpochLoop)
        assert isinstance(loop.learner, Acl)
        found = loop.learner.training.rehearsal
        assert (None if found is None else found.memory.size) == size


def test_weights_of_all_tasks_are_kept() -> None:
    loop, _ = trained(setting("acl", "signal.name=none"), [0])
    names = {name.partition(".")[0] for name in loop.state()}
    assert names == {"model", "task-0", "task-1"}
    theta = loop.learner.weights_for(0)
    places = loop.learner.model.places
    for name, value in loop.state().items():
        if name.startswith("task-0."):
            assert torch.equal(value.flatten(1), theta[:, places[name.removeprefix("task-0.")]])
    assert torch.equal(loop.state()["task-1.head.layers.0.bias"], loop.state()["model.head.layers.0.bias"])


@pytest.mark.parametrize(
    ("learner", "cuts"),
    [
        ("acl", (2, 3)),
        ("acl learner.memory=10", (6,)),
        (RESIDUAL, (5,)),
        ("hat", (7,)),
        ("joint", (6, 2)),
        ("a-gem", (5,)),
    ],
)
@pytest.mark.parametrize("device", EITHER_DEVICE)
@pytest.mark.usefixtures("deterministic")
def test_a_run_that_is_killed_in_the_middle_of_an_epoch_goes_on_to_the_same_bytes(
    learner: str, cuts: tuple[int, ...], device: str, tmp_path: Path
) -> None:
    own = setting(*learner.split(), "schedule.epochs=2", "stream.batch=80", "policy.batch=80")
    spec = Spec(name="cut", seeds=[3, 5], rows=[Row(name="run", label="x", setting=own)])
    scene = Scene(tmp_path, device)
    whole = scene.train(spec, "whole")
    assert whole is not None
    assert set(whole) >= {"seed-3/metrics.jsonl", "seed-5/weights.safetensors", "seed-5/accuracy.csv"}
    for cut in cuts:
        assert scene.train(spec, "parts", Safety(0, 1), cut) is None
    assert scene.train(spec, "parts", Safety(0, 1)) == whole


def test_a_whole_run_is_stored_measured_and_reported(tmp_path: Path) -> None:
    small = [change for change in TINY if not change.startswith("stream")]
    spec = load("acl-digits", [*small, "stream.batch=50", "seeds=[0]", "learner.updates=1"])
    directory, (base, *others) = run(spec, out=tmp_path, device="cpu")
    assert [result.name for result in others] == ["predicted"]
    matrix = base.matrices[0]
    assert matrix[0].tolist() == [0.2, 0.2]
    assert matrix[1, 1] == 0.2  # not over: guessed
    assert base.measures[0].fwt == 0
    assert base.measures[0].bwt == matrix[2, 0] - matrix[1, 0]
    assert others[0].paired is not None
    text = (directory.path / "report.md").read_text()
    assert "| ACL + predicted gradients | task told " in text
    assert "(features.png)" in text
    assert (directory.path / "features.png").stat().st_size > 10_000
    assert all(read_feature_map(directory, row, 0) is not None for row in ("base", "predicted"))
    facts = json.loads((directory.path / "base" / "stream.json").read_text())
    assert facts["class_order"] == "numpy.random.RandomState(seed).permutation(10)"
    assert run(spec, out=tmp_path, device="cpu")[1][0].matrices.tolist() == base.matrices.tolist()
    with pytest.raises(GradcastError, match="--on-nan skip undoes steps of a single pass"):
        run(spec, out=tmp_path, device="cpu", safety=Safety(on_nan="skip"))


def test_finished_rows_of_a_progressive_network_forget_nothing(tmp_path: Path) -> None:
    own = setting("pnn", "signal.name=none", "schedule.epochs=2")
    spec = Spec(name="pnn", seeds=[0, 1], rows=[Row(name="run", label="x", setting=own)])
    (result,) = run(spec, out=tmp_path, device="cpu")[1]
    assert [measures.bwt for measures in result.measures] == [0.0, 0.0]
