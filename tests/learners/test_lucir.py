import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, cross_entropy, normalize

from gradcast.core import Batch, Replay
from gradcast.gradients.sgd import Sgd
from gradcast.learners.lucir import Lucir
from gradcast.memories.by_class import ClassMemory
from gradcast.networks.cosine import with_cosine_head
from gradcast.networks.mlp import MLP
from gradcast.randomness import numpy_generator, seeded
from gradcast.replicas.heads import Heads, HeadsKind
from gradcast.replicas.replicas import Replicas, Statistics
from gradcast.training.step import Step
from tests.helpers import CPU, batch
from tests.learners.scene import Seen, outputs, same_state, train
from tests.replicas.test_replicas import own_module

CLASSES = ((0, 1, 2), (3, 4), (5, 6))
LR, DECAY, DISTIL, MARGIN, RANKING, FINETUNE, BATCH, SIZE = 0.1, 0.01, 1.5, 0.5, 0.8, 0.05, 4, 6
CLASSIFIER = "layers.6.weight"


def networks(count: int, heads: Heads, first_seed: int = 0) -> Replicas:
    modules = []
    for seed in range(first_seed, first_seed + count):
        with seeded(seed, "model"):
            modules.append(with_cosine_head(MLP([6, 16, 5, heads.outputs], norm="batch"), heads.outputs))
    return Replicas(modules, heads, device=CPU, dtype=torch.float64)


def scene(count: int = 1, first_seed: int = 0, *, kind: HeadsKind = "masked", epochs: int = 1) -> Step:
    heads, seeds = Heads.of(CLASSES, kind), range(first_seed, first_seed + count)
    memory = ClassMemory(heads, SIZE, seeds=seeds)
    learner = Lucir(memory, seeds, 4, BATCH, DISTIL, MARGIN, RANKING, epochs, FINETUNE)
    return Step(networks(count, heads, first_seed), learner, LR, sgd=Sgd(decay=DECAY))


def task_batches(model: Replicas, task: int) -> list[Batch]:
    """Seven batches; labels are places among the task's classes."""
    made = [batch(model, task=task, size=5, seed=10 * task + number) for number in range(7)]
    return [replace(each, y=model.heads.labels(each.y % len(CLASSES[task]), task)) for each in made]


class Plain:
    """The method for one seed in plain words; the memory's draws are given."""

    def __init__(self, module: nn.Module, kind: HeadsKind) -> None:
        self.module, self.kind, self.before = module, kind, module
        self.memory: list[tuple[Tensor, Tensor, int]] = []

    def columns(self, task: int, now: int) -> list[int]:
        if self.kind == "masked":
            return list(CLASSES[task])
        return list(range(7 if self.kind == "all" else CLASSES[now][-1] + 1))

    def column(self, y: int, task: int) -> int:
        return CLASSES[task][y] if self.kind == "masked" else y

    def features(self, module: nn.Module, x: Tensor, statistics: Statistics) -> Tensor:
        return outputs(module.get_submodule("layers")[:-1], x, statistics)  # type: ignore[index]

    def cosines(self, features: Tensor) -> Tensor:
        weight = self.module.get_parameter(CLASSIFIER)
        return torch.stack([cosine_similarity(row, weight, dim=1) for row in features])

    def loss(self, features: Tensor, y: Tensor, tasks: list[int], now: int) -> Tensor:
        logits = self.module.get_parameter("layers.6.scale") * self.cosines(features)
        each = [cross_entropy(row[self.columns(t, now)], own) for row, own, t in zip(logits, y, tasks, strict=True)]
        return torch.stack(each).mean()

    @torch.no_grad()
    def begin(self, x: Tensor, y: Tensor, task: int) -> None:
        self.before = copy.deepcopy(self.module)
        weight, columns = self.module.get_parameter(CLASSIFIER), [self.column(own, task) for own in y.tolist()]
        features = self.features(self.module, x, "frozen")
        length = torch.stack([weight[old].norm() for old in range(CLASSES[task][0])]).mean()
        for new in CLASSES[task]:
            rows = [row / row.norm() for row, own in zip(features, columns, strict=True) if own == new]
            weight[new] = length * normalize(torch.stack(rows).mean(0), dim=0)

    def step(self, x: Tensor, y: Tensor, task: int, drawn: Replay | None) -> None:
        size, tasks = len(y), [task] * len(y)
        if drawn is not None:
            x, y, tasks = torch.cat([x, drawn.x[0]]), torch.cat([y, drawn.y[0]]), tasks + drawn.tasks[0].tolist()
        features = self.features(self.module, x, "update")
        loss = self.loss(features, y, tasks, task)
        if drawn is not None:
            old, new = len(range(CLASSES[task][0])), len(CLASSES[task])
            before = self.features(self.before, x, "separate").detach()  # in training mode, on the same images
            away = [1 - cosine_similarity(then, now, dim=0) for then, now in zip(before, features, strict=True)]
            loss = loss + DISTIL * (old / new) ** 0.5 * torch.stack(away).mean()
            hinges = []
            for row, own, of in zip(self.cosines(features[size:]), y[size:], tasks[size:], strict=True):
                for rival in row[list(CLASSES[task])].sort(descending=True)[0][:2]:
                    hinges.append((MARGIN - row[self.column(int(own), of)] + rival).clamp_min(0))
            loss = loss + RANKING * torch.stack(hinges).mean()
        self.descend(loss, LR, DECAY, fixed=CLASSES[task][0])

    def descend(self, loss: Tensor, lr: float, decay: float, *, fixed: int, only: str = "") -> None:
        named = dict(self.module.named_parameters())
        gradients = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
        for (name, weight), gradient in zip(named.items(), gradients, strict=True):
            moved = (
                weight.detach() - lr * (gradient + decay * weight.detach())
                if name.startswith(only)
                else weight.detach()
            )
            if name == CLASSIFIER:
                moved[:fixed] = weight.detach()[:fixed]
            weight.data.copy_(moved)

    def end(self, x: Tensor, y: Tensor, task: int) -> None:
        features, width = normalize(self.features(self.module, x, "frozen").detach(), dim=1), len(CLASSES[task])
        found: list[int] = []
        for place in range(width):
            members = [i for i, own in enumerate(y.tolist()) if self.column(own, task) == CLASSES[task][place]]
            mean, chosen = features[members].mean(0), list[int]()
            while len(chosen) < min(SIZE // width, len(members)):
                left = [i for i in members if i not in chosen]
                away = [(features[[*chosen, i]].mean(0) - mean).norm() for i in left]
                chosen.append(left[int(torch.stack(away).argmin())])
            found += chosen
        assert len(found) == SIZE
        self.memory.append((x[found], y[found], task))
        if task == 0:
            return
        images, labels = (torch.cat(each) for each in list(zip(*self.memory, strict=True))[:2])
        tasks, draws = np.repeat(range(task + 1), SIZE), numpy_generator(0, "finetune", task)
        for rows in torch.from_numpy(draws.permutation(len(labels))).split(BATCH):
            features = self.features(self.module, images[rows], "frozen")
            loss = self.loss(features, labels[rows], tasks[rows.numpy()].tolist(), task)
            self.descend(loss, FINETUNE, 0.0, fixed=0, only=CLASSIFIER)


@pytest.mark.parametrize("kind", ["masked", "seen", "all"])
def test_twenty_one_steps_of_three_tasks_equal_a_plain_spelling(kind: HeadsKind) -> None:
    step = scene(kind=kind)
    model, learner, plain = step.model, step.learner, Plain(own_module(step.model, 0), kind)
    assert isinstance(learner, Lucir)
    for task in range(3):
        seen = task_batches(model, task)
        x, y = torch.cat([each.x[0] for each in seen]), torch.cat([each.y[0] for each in seen])
        learner.task_begins(model, Seen(task, seen))
        if task:
            plain.begin(x, y, task)
        same_state(model, plain.module)
        for data in seen:
            metrics = step(data)
            plain.step(data.x[0], data.y[0], task, learner.drawn)
            same_state(model, plain.module)
            assert ("ranking" in metrics) == (task > 0)
            assert task == 0 or metrics["ranking"][0] > 0
        learner.task_ends(model, Seen(task, seen))
        plain.end(x, y, task)
        same_state(model, plain.module)


def test_replicas_together_equal_replicas_alone() -> None:
    together, alone = scene(2), scene(1, first_seed=1)
    tasks = [task_batches(together.model, task) for task in range(3)]
    train(together, tasks, slice(0, 2))
    train(alone, tasks, slice(1, 2))
    torch.testing.assert_close(together.model.theta[1:], alone.model.theta)
    for name, buffer in alone.model.buffers.items():
        torch.testing.assert_close(together.model.buffers[name][1:], buffer)


def test_weights_of_old_classes_stay_and_other_rates_come_back() -> None:
    step = scene(2, epochs=0)
    model, learner = step.model, step.learner
    model.use_rates([0.5] * len(model.names))
    assert isinstance(learner, Lucir)
    place = None
    for task in range(3):
        seen, first = task_batches(model, task), CLASSES[task][0]
        learner.task_begins(model, Seen(task, seen))
        before = learner._classifier(model).clone()
        step(seen[0])
        assert model.rates is not None
        assert place is None or model.rates is place
        place = model.rates
        after = learner._classifier(model)
        assert torch.equal(after[:, :first], before[:, :first])
        assert not torch.equal(after[:, first : first + 2], before[:, first : first + 2])
        assert (model.rates == 0).sum() == 5 * first
        assert set(model.rates.unique().tolist()) <= {0.0, 0.5}
        learner.task_ends(model, Seen(task, seen))


def test_where_no_class_is_new_only_features_are_held() -> None:
    heads = Heads.of([(0, 1), (1, 0)], "seen")
    model = networks(1, heads)
    learner = Lucir(ClassMemory(heads, 4, seeds=[0]), [0], 2, 2)
    step = Step(model, learner, LR)
    for task in range(2):
        seen = [batch(model, task=task, seed=task)]
        learner.task_begins(model, Seen(task, seen))
        metrics = step(seen[0])
        learner.task_ends(model, Seen(task, seen))
    assert metrics["ranking"].tolist() == [0.0]
    assert metrics["distillation"].isfinite().all()
