from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from gradcast.learners.independent import Independent, narrowed
from gradcast.networks import MLP, SlimResNet18
from gradcast.networks.registry import AlexNetSpec, MlpSpec, SlimResNetSpec
from gradcast.networks.task_networks import TaskNetworks
from gradcast.randomness import seeded
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.specs import build, build_stream
from gradcast.specs.text import load
from gradcast.training.step import Step
from tests.helpers import CPU, batch
from tests.learners.scene import Seen, descend
from tests.replicas.test_replicas import own_module
from tests.specs.test_build import SHELF

LR, TASKS, CLASSES = 0.1, 3, 2


def model() -> Replicas:
    modules: list[nn.Module] = []
    for seed in (3, 4):
        with seeded(seed, "model"):
            modules.append(TaskNetworks([MLP([6, 5, CLASSES], norm="batch") for _ in range(TASKS)]))
    return Replicas(modules, Heads.even(CLASSES, TASKS, masked=True), device=CPU, dtype=torch.float64)


@pytest.mark.parametrize("copies", [True, False])
def test_three_tasks_equal_networks_of_their_own(copies: bool) -> None:
    own, learner = model(), Independent(copies)
    step = Step(own, learner, LR)
    alone = own_module(own, 1)
    assert isinstance(alone, TaskNetworks)
    networks = [network.train() for network in alone.networks]
    for task, network in enumerate(networks):
        learner.task_begins(own, Seen(task, []))
        if copies and task:
            for new, old in zip(network.parameters(), networks[task - 1].parameters(), strict=True):
                new.data.copy_(old.data)
        for number in range(7):
            data = replace(batch(own, seed=10 * task + number), task=task)
            data = replace(data, y=data.y % CLASSES)
            step(data)
            descend(list(network.parameters()), cross_entropy(network(data.x[1]), data.y[1]), LR)
        found = own_module(own, 1)
        for name, value in alone.state_dict().items():
            torch.testing.assert_close(found.state_dict()[name], value, rtol=1e-9, atol=1e-12)


def test_widths_are_divided_by_the_number_of_tasks() -> None:
    assert narrowed(MlpSpec(), 20) == MlpSpec(hidden=[5, 5])
    assert narrowed(SlimResNetSpec(name="slim-resnet18"), 20) == SlimResNetSpec(name="slim-resnet18", width=1)
    found = narrowed(AlexNetSpec(name="alexnet-like"), 64)
    assert found == AlexNetSpec(name="alexnet-like", latent=2, widths=[16, 16, 8], channels=[1, 2, 4])


@pytest.mark.parametrize(("narrow", "width"), [("true", 1), ("false", 4)])
def test_networks_of_a_setting(narrow: str, width: int) -> None:
    changes = ["stream.tasks=3", "model.name=slim-resnet18", "model.width=4", "learner.name=independent"]
    own = load("digits", [*changes, f"learner.narrow={narrow}"]).rows[0].setting
    made = build.network(own, build_stream.stream(own.stream, SHELF))
    assert isinstance(made, TaskNetworks)
    plain = SlimResNet18(width, 10, channels=1)
    assert [sum(map(torch.numel, each.parameters())) for each in made.networks] == [
        sum(map(torch.numel, plain.parameters()))
    ] * 3
