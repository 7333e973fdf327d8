from pathlib import Path

import pytest
import torch

from gradcast.learners.named import LEARNERS
from gradcast.replicas import Replicas
from gradcast.run import run
from gradcast.signals import Predicted
from gradcast.signals.named import SIGNALS, ContrastiveSpec, PredictedSpec, describe, gradient_learner, signal, views
from gradcast.specfile import load
from tests.helpers import replicas


def model() -> Replicas:
    return replicas(1, sizes=(6, 5, 10))


def test_gradient_learners_start_from_their_own_seeds() -> None:
    spec = PredictedSpec(name="predicted")
    both, alone = gradient_learner(spec, 10, [3, 4]), gradient_learner(spec, 10, [4])
    for together, own in zip(both.parameters(), alone.parameters(), strict=True):
        assert torch.equal(together[1], own[0])
        assert not torch.equal(together[0], together[1])


def test_every_option_of_the_signal_arrives() -> None:
    options = {
        "hidden": "[7]",
        "alpha": "0.2",
        "loss_scale": "3.0",
        "objective": "cosine",
        "optimizer": "adam",
        "lr": "0.01",
        "activation": "tanh",
        "bias": "true",
        "directions": "frozen",
    }
    setting = load("digits", [f"signal.{key}={value}" for key, value in options.items()]).rows[1].setting
    found = signal(setting.signal, model(), [0], 0.1, model)
    assert isinstance(found, Predicted)
    learner = found.learner
    assert [tuple(w.shape) for w in learner.weights] == [(1, 7, 10), (1, 10, 7)]
    assert (learner.length.alpha, learner.loss_scale, learner.objective, learner.lr) == (0.2, 3.0, "cosine", 0.01)
    assert (learner.activation, len(learner.biases), found.directions) == ("tanh", 2, "frozen")
    assert isinstance(learner.optimizer, torch.optim.Adam)
    assert set(options) | {"name", "tau"} == set(PredictedSpec.model_fields)


TWO_TASKS = (
    "stream.tasks=2", "stream.samples=40", "learner.memory=8", "model.hidden=[12]", "model.norm=batch", "pool.count=40",
    "policy.p=0.5", "policy.batch=6", "seeds=[0, 1]",
)  # fmt: skip


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("name", sorted(SIGNALS.keys() - {"none"}))
def test_every_signal_with_every_learner(name: str, learner: str, tmp_path: Path) -> None:
    """Two tasks, two replicas, BatchNorm; guarded and not. Every replica trains as it would alone."""
    changes = [f"signal.name={name}", f"learner.name={learner}", "row.random.policy.guard=true"]
    spec = load("digits", [*TWO_TASKS, *changes, "row.random.signal.name=" + name])
    directory, results = run(spec, out=tmp_path, device="cpu")
    assert [result.name for result in results] == ["base", "predicted", "random"]
    accuracy = [result.matrices for result in results]
    assert all(matrix.shape == (2, 3, 2) for matrix in accuracy)
    line = next(line for line in directory.metrics("predicted", 0) if line["unlabelled"])
    assert line["unlabelled"] == 6
    assert isinstance(line["agreement"], float)
    assert isinstance(line["pseudo_ratio"], float)
    alone, _ = run(spec.model_copy(update={"seeds": [1]}), out=tmp_path, device="cpu")
    for row in ("predicted", "random"):
        together, own = (each.metrics(row, 1) for each in (directory, alone))
        losses = [[line["loss"] for line in lines] for lines in (together, own)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-3)


@pytest.mark.parametrize("name", SIGNALS)
def test_every_signal_is_described(name: str) -> None:
    setting = load("digits", [f"signal.name={name}"]).rows[1].setting
    assert bool(describe(setting.signal)) == (name != "none")


def test_labels_tell_signals_apart() -> None:
    names = ["predicted", "noise", "one-hot", "soft"]
    settings = [["signal.name=" + name, *(["signal.scaled=true"] if name != "predicted" else [])] for name in names]
    labels = [describe(load("digits", own).rows[1].setting.signal) for own in settings]
    scaled = [f"{kind} pseudo labels, scaled" for kind in ("one-hot", "soft")]
    assert labels == ["predicted gradients", "random directions", *scaled]
    plain = load("digits", ["signal.name=one-hot"]).rows[1].setting.signal
    assert describe(plain) == "one-hot pseudo labels"


def test_contrastive_wants_two_views_of_its_own_making() -> None:
    found = views(ContrastiveSpec(name="contrastive", augment=["flip", "crop"]))
    assert (found.count, [step.name for step in found.steps]) == (2, ["flip", "crop"])
    assert views(PredictedSpec(name="predicted")).count == 1
