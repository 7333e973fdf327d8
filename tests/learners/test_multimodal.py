import copy

import pytest
import torch
from torch.nn.functional import cross_entropy

from gradcast.errors import GradcastError
from gradcast.learners.multimodal import Multimodal
from gradcast.networks.entrance_network import EntranceNetwork
from gradcast.randomness import seeded
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.specs import build_stream
from gradcast.specs.fit import check
from gradcast.specs.text import load
from gradcast.training.step import Step
from gradcast.training.task_modules import TaskModules
from gradcast.training.trainer import StepTrainer
from tests.helpers import CPU, batch
from tests.learners.acl.scene import TaskOf, stepped
from tests.learners.scene import descend
from tests.replicas.test_replicas import own_module
from tests.specs.test_build import SHELF

LR, CLASSES = 0.1, 3


def network() -> EntranceNetwork:
    return EntranceNetwork([6, 6, 4, CLASSES])  # the scene takes the inputs from the first weight


def test_three_tasks_equal_a_plain_spelling() -> None:
    modules = []
    for seed in (3, 4):
        with seeded(seed, "model"):
            modules.append(network())
    model = Replicas(modules, Heads.even(CLASSES, 3), device=CPU, dtype=torch.float64)
    learner = Multimodal(TaskModules(model, network, [3, 4], shared="shared", purpose="multimodal"))
    trainer = StepTrainer(Step(model, learner, 0.0), learner.task_modules())
    plain = own_module(model, 1)
    assert isinstance(plain, EntranceNetwork)
    own, rates = [], torch.full((2,), LR, dtype=torch.float64)
    for task in range(3):
        trainer.begin(TaskOf(task))
        if task:  # the shared layers go on, the entrance is new
            fresh = learner.modules.fresh("task", task)[1]
            plain.entrance.weight.data.copy_(fresh[model.places["entrance.weight"]].view(6, 6))
            plain.entrance.bias.data.copy_(fresh[model.places["entrance.bias"]])
        for number in range(7):
            data = batch(model, task, seed=10 * task + number)
            stepped(trainer, data, rates, (task, 0, number))
            descend(list(plain.parameters()), cross_entropy(plain(data.x[1]), data.y[1]), LR)
        trainer.finish(TaskOf(task))
        own.append(copy.deepcopy(plain.entrance))
    for task in range(3):
        weights = model.parameters(learner.modules.weights_for(task)[1])
        expected = {f"entrance.{name}": value for name, value in own[task].state_dict().items()}
        expected |= {f"shared.{name}": value for name, value in plain.shared.state_dict().items()}
        for name, value in expected.items():
            torch.testing.assert_close(weights[name], value, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            ["stream.scenario=split", "stream.tasks=5", "stream.samples=100"],
            "one output layer for the classes that all tasks share",
        ),
        (["model.norm=batch"], "hidden layers without BatchNorm"),
        (["model.hidden=[]"], "set model.hidden"),
    ],
)
def test_what_it_cannot_train_is_refused(changes: list[str], message: str) -> None:
    own = load("digits", ["stream.tasks=3", "learner.name=multimodal", *changes]).rows[0].setting
    with pytest.raises(GradcastError, match=message):
        check(own, build_stream.stream(own.stream, SHELF))
