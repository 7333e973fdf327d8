import torch
from torch.nn.functional import cross_entropy

from gradcast.core import Batch
from gradcast.learners.pnn import Pnn
from gradcast.networks.pnn_network import Column, PnnNetwork
from gradcast.randomness import seeded
from gradcast.replicas.heads import Heads
from gradcast.replicas.passes import folded
from gradcast.replicas.replicas import Replicas
from gradcast.specs import build, build_stream
from gradcast.specs.text import load
from gradcast.training.step import Step
from gradcast.training.trainer import StepTrainer
from tests.helpers import CPU, flat
from tests.learners.acl.scene import CLASSES, SIDE, TaskOf, batch, stepped
from tests.replicas.test_replicas import own_module
from tests.specs.test_build import SHELF

LR = torch.tensor([0.5, 0.25], dtype=torch.float64)


def network() -> PnnNetwork:
    shape = {"shape": (1, SIDE, SIDE), "channels": (2, 2, 3), "widths": (4,)}
    made = PnnNetwork([Column(earlier, CLASSES, **shape) for earlier in range(3)])  # type: ignore[arg-type]
    for layer in made.modules():
        if isinstance(layer, torch.nn.Dropout):
            layer.p = 0.0
    return made


def learner() -> StepTrainer:
    modules = []
    for seed in (3, 4):
        with seeded(seed, "model"):
            modules.append(network())
    model = Replicas(modules, Heads.even(CLASSES, 3, masked=True), device=CPU, dtype=torch.float64)
    return StepTrainer(Step(model, Pnn(), 0.0))


def train(own: StepTrainer, task: int) -> list[Batch]:
    own.begin(TaskOf(task))
    seen = [batch(10 * task + number, task) for number in range(3)]
    for number, data in enumerate(seen):
        stepped(own, data, LR, (task, 0, number))
    own.finish(TaskOf(task))
    return seen


def test_only_the_tasks_column_moves_and_answers_of_earlier_tasks_stay_bit_for_bit() -> None:
    own, x = learner(), batch(99).x
    model = own.model
    answers, before = [], model.theta.clone()
    for task in range(3):
        train(own, task)
        moved = {
            name.split(".")[1]
            for name in model.names
            if not torch.equal(model.theta[:, model.places[name]], before[:, model.places[name]])
        }
        assert moved == {str(task)}
        before = model.theta.clone()
        answers.append(model.forward(x, task, statistics="frozen", theta=model.theta).z)
        for earlier in range(task + 1):
            now = model.forward(x, earlier, statistics="frozen", theta=model.theta).z
            assert torch.equal(now, answers[earlier])
    assert model.ways.chosen[model.module] is folded.outputs


def test_steps_are_those_of_one_network_with_torchs_own_optimizer() -> None:
    own = learner()
    train(own, 0)
    alone = own_module(own.model, 1)
    assert isinstance(alone, PnnNetwork)
    alone.grow(1)
    alone.train()
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.25)
    for data in train(own, 1):
        optimizer.zero_grad()
        cross_entropy(alone(data.x[1])[:, CLASSES : 2 * CLASSES], data.y[1]).backward()
        optimizer.step()
    torch.testing.assert_close(own.model.theta[1], flat(alone), rtol=1e-10, atol=1e-12)


def test_tasks_of_the_same_classes_have_outputs_of_their_own() -> None:
    network = ("model.name=alexnet-like", "model.latent=8", "model.widths=[8, 8, 8]", "model.channels=[2, 2, 2]")
    own = load("digits", ["stream.tasks=2", "stream.size=12", *network, "learner.name=pnn"]).rows[0].setting
    images = build_stream.stream(own.stream, SHELF)
    heads = build.heads(own, images)
    assert heads.task_columns == (tuple(range(10)), tuple(range(10, 20)))
    made = build.network(own, images)
    assert made(torch.rand(2, *images.shape)).shape == (2, heads.outputs)
