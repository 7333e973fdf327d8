from functools import cache

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from gradcast.core import Metrics
from gradcast.gradients.sgd import Sgd
from gradcast.learners.registry import FEW_LABELS, LEARNERS, SCHEDULED
from gradcast.replicas.replicas import Replicas
from gradcast.runs.prepared import PreparedRun
from gradcast.signals.predicted import Predicted
from gradcast.signals.registry import SIGNALS, ContrastiveSpec, PredictedSpec, gradient_learner, signal, views
from gradcast.specs import build
from gradcast.specs.spec import Setting
from gradcast.specs.text import load
from gradcast.streams.scale import Scale
from tests.helpers import OPTIONS, replicas, signal_and_pool
from tests.specs.test_build import PLACE, SHELF


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
    found = signal(setting.signal, model(), [0], 0.1, model, Scale())
    assert isinstance(found, Predicted)
    learner = found.learner
    assert [tuple(w.shape) for w in learner.weights] == [(1, 7, 10), (1, 10, 7)]
    assert (learner.length.alpha, learner.loss_scale, learner.objective, learner.lr) == (0.2, 3.0, "cosine", 0.01)
    assert (learner.activation, len(learner.biases), found.directions) == ("tanh", 2, "frozen")
    assert isinstance(learner.optimizer, torch.optim.Adam)
    assert set(options) | {"name", "tau", "momentum", "decay"} == set(PredictedSpec.model_fields)


def test_momentum_and_decay_are_those_of_h_and_go_without_saying_where_there_are_none() -> None:
    setting = load("digits", ["signal.momentum=0.9", "signal.decay=0.01"]).rows[1].setting
    found = signal(setting.signal, model(), [0], 0.1, model, Scale())
    assert isinstance(found, Predicted)
    assert isinstance(found.learner.optimizer, Sgd)
    assert (found.learner.optimizer.momentum, found.learner.optimizer.decay) == (0.9, 0.01)
    assert setting.signal.model_dump()["momentum"] == 0.9
    assert not {"momentum", "decay"} & PredictedSpec(name="predicted").model_dump().keys()
    with pytest.raises(ValidationError, match=r"for signal\.optimizer = 'sgd'"):
        PredictedSpec(name="predicted", optimizer="adam", momentum=0.5)


TWO_TASKS = (
    "stream.tasks=2", "stream.samples=40", "learner.memory=12", "model.hidden=[12]", "model.norm=batch",
    "policy.p=0.5", "policy.batch=6",
)  # fmt: skip


class Seen:
    """The metrics of every step, and the last accuracies."""

    def __init__(self) -> None:
        self.steps: list[Metrics] = []
        self.accuracy = torch.zeros(0)

    def stepped(self, step: int, task: int, metrics: Metrics) -> None:
        self.steps.append(metrics)

    def trained(self, task: int) -> None:
        pass

    def evaluated(self, tasks_done: int, accuracy: Tensor) -> None:
        self.accuracy = accuracy


@cache
def shared() -> PreparedRun:
    return PreparedRun(PLACE, SHELF)


def trained(setting: Setting, seeds: list[int]) -> Seen:
    stream, evaluator = shared().stream(setting)
    seen = Seen()
    build.loop(setting, stream, evaluator, shared().pool(setting), seeds, PLACE).run([seen])
    return seen


@pytest.mark.parametrize("guard", [False, True])
@pytest.mark.parametrize("learner", [name for name in LEARNERS if name not in (*SCHEDULED, *FEW_LABELS)])
@pytest.mark.parametrize("name", [*sorted(SIGNALS.keys() - {"none"}), *OPTIONS])
def test_every_signal_with_every_learner(name: str, learner: str, guard: bool) -> None:
    """Two tasks, two replicas, BatchNorm; every replica trains as it would alone."""
    changes = [*signal_and_pool(name), f"learner.name={learner}", f"policy.guard={str(guard).lower()}"]
    setting = load("digits", [*TWO_TASKS, *changes]).rows[1].setting
    together, alone = trained(setting, [0, 1]), trained(setting, [1])
    assert together.accuracy.shape == (2, 2)
    both, own = (torch.stack([metrics["loss"][-1] for metrics in seen.steps]) for seen in (together, alone))
    torch.testing.assert_close(both, own, rtol=1e-3, atol=1e-4)
    used = [metrics for metrics in together.steps if metrics["unlabelled"][0]]
    assert 0 < len(used) < len(together.steps) == 8
    assert all(metrics["unlabelled"][0] == 6 for metrics in used)
    assert all(metrics["agreement"][0].isfinite() and metrics["pseudo_ratio"][0].isfinite() for metrics in used)


def test_contrastive_wants_two_views_of_its_own_making() -> None:
    found = views(ContrastiveSpec(name="contrastive", augment=["flip", "crop"]))
    assert (found.count, [step.name for step in found.steps]) == (2, ["flip", "crop"])
    assert views(PredictedSpec(name="predicted")).count == 1
