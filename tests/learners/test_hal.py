from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, cross_entropy, linear

from gradcast.core import Batch
from gradcast.learners.hal import Form, Hal
from gradcast.memories.by_class import ClassMemory
from gradcast.randomness import numpy_generator, torch_generator
from gradcast.replicas.heads import Heads, HeadsKind
from gradcast.replicas.replicas import Replicas, Statistics
from gradcast.training.step import Step
from tests.helpers import batch, replicas
from tests.learners.scene import Seen, descend, outputs, same_state
from tests.replicas.test_replicas import own_module

CLASSES = ((0, 1, 2), (3, 4), (5, 6))
LR, WEIGHT, GAMMA, BETA, SIZE, COUNT = 0.1, 0.7, 0.2, 0.3, 6, 4
LAST = "3"  # the output layer
Weights = Mapping[str, Tensor]


def scene(
    count: int = 1,
    first_seed: int = 0,
    *,
    kind: HeadsKind = "masked",
    form: Form = "authors",
    batchnorm: Statistics = "separate",
) -> Step:
    heads = Heads.even(3, 3) if kind == "shared" else Heads.of(CLASSES, kind)
    model = replicas(count, sizes=(6, 5, 7), heads=heads, norm="batch", first_seed=first_seed)
    seeds = range(first_seed, 9)[:count]
    memory = ClassMemory(heads, SIZE, seeds=seeds)
    return Step(model, Hal(memory, seeds, COUNT, LR, WEIGHT, GAMMA, BETA, form, batchnorm), LR)


def task_batches(model: Replicas, task: int) -> list[Batch]:
    """Seven batches; labels are places among the task's classes."""
    made = [batch(model, task=task, size=5, seed=10 * task + number) for number in range(7)]
    return [replace(each, y=model.heads.labels(each.y % len(model.heads.task_columns[task]), task)) for each in made]


class PlainMemory:
    """Image, label and task of each place, for one seed."""

    def __init__(self, form: Form) -> None:
        self.form, self.draws = form, numpy_generator(0, "reference")
        self.held, self.came = dict[int, tuple[Tensor, Tensor, int]](), Counter[int]()

    def write(self, x: Tensor, y: Tensor, task: int, labels: list[int]) -> None:
        """Each class has its share of the task's places; its latest images are there."""
        shares = np.array_split(range(SIZE * task, SIZE * task + SIZE), len(labels))
        for image, label in zip(x, y, strict=True):
            share = shares[labels.index(int(label))]
            self.held[share[self.came[share[0]] % len(share)]] = image, label, task
            self.came[share[0]] += 1

    def draw(self, task: int) -> tuple[Tensor, Tensor, list[int]] | None:
        """Images of earlier tasks, or in mammoth's form of all; a few come again while there are fewer than asked."""
        slots = sorted(slot for slot, own in self.held.items() if self.form == "mammoth" or own[2] < task)
        if not slots:
            return None
        chosen = np.resize(self.draws.permutation(slots), COUNT)
        x, y, tasks = zip(*(self.held[slot] for slot in chosen), strict=True)
        return torch.stack(x), torch.stack(y), list(tasks)


class Plain:
    """The method for one seed in plain words."""

    def __init__(self, module: nn.Sequential, heads: Heads, form: Form, batchnorm: Statistics) -> None:
        self.module, self.heads, self.form, self.batchnorm = module, heads, form, batchnorm
        self.anchors: list[tuple[Tensor, int]] = []
        self.phi, self.image = dict[int, Tensor](), dict[int, Tensor]()
        self.draws, self.memory = numpy_generator(0, "replay"), PlainMemory(form)

    def columns(self, task: int, now: int) -> list[int]:
        if self.heads.kind == "shared":
            return [0, 1, 2]
        whole = 7 if self.heads.kind == "all" else CLASSES[now][-1] + 1
        return list(CLASSES[task]) if self.heads.masked else list(range(whole))

    def labels(self, task: int) -> list[int]:
        compete = self.heads.kind in ("seen", "all")
        return list(CLASSES[task]) if compete else list(range(len(self.columns(task, task))))

    def both(self, x: Tensor, statistics: Statistics, weights: Weights | None = None) -> tuple[Tensor, Tensor]:
        """Features and outputs of one pass."""
        weights = dict(self.module.named_parameters()) if weights is None else weights
        features = outputs(self.module[:-1], x, statistics, {n: w for n, w in weights.items() if n[0] != LAST})
        return features, linear(features, weights[f"{LAST}.weight"], weights[f"{LAST}.bias"])

    def loss(self, z: Tensor, y: Tensor, tasks: list[int], now: int) -> Tensor:
        each = [cross_entropy(row[self.columns(t, now)], own) for row, own, t in zip(z, y, tasks, strict=True)]
        return torch.stack(each).mean()

    def step(self, x: Tensor, y: Tensor, task: int) -> None:
        own, tasks, drawn, authors = (x, y), [task] * len(y), self.memory.draw(task), self.form == "authors"
        self.memory.write(x, y, task, self.labels(task))
        if drawn is not None:
            x, y, tasks = torch.cat([x, drawn[0]]), torch.cat([y, drawn[1]]), tasks + drawn[2]
        features, z = self.both(x, "update")
        self.follow(features[: len(own[0])].detach(), *own)
        loss = self.loss(z, y, tasks, task)
        if self.anchors:
            named, count = dict(self.module.named_parameters()), len(self.anchors)
            slopes = torch.autograd.grad(loss, list(named.values()), retain_graph=True)
            ahead = {name: (named[name] - LR * slope).detach() for name, slope in zip(named, slopes, strict=True)}
            chosen = self.draws.choice(count, min(count, 10) if authors else count, replace=False)
            e = torch.stack([self.anchors[i][0] for i in chosen])
            away = self.both(e, self.batchnorm)[1] - self.both(e, self.batchnorm, ahead)[1].detach()
            for row, of in zip(away.square(), (self.anchors[i][1] for i in chosen), strict=True):
                seen = row[self.columns(of, task)].sum() if authors else row.mean()
                loss = loss + WEIGHT * seen / len(chosen)
        descend(list(self.module.parameters()), loss, LR)

    def follow(self, features: Tensor, x: Tensor, y: Tensor) -> None:
        for label in y.unique().tolist():
            for means, rows, decay in ((self.phi, features, BETA), (self.image, x, 0.9)):
                mean = rows[y == label].mean(0)
                means[label] = decay * means[label] + (1 - decay) * mean if label in means else mean
        mean = features.mean(0)
        self.phi[-1] = BETA * self.phi[-1] + (1 - BETA) * mean if -1 in self.phi else mean  # of all classes

    def end(self, x: Tensor, y: Tensor, task: int) -> None:
        authors = self.form == "authors"
        proxy = {name: own.detach().clone().requires_grad_() for name, own in self.module.named_parameters()}
        for _ in range(50 if authors and task else 1 - authors):
            drawn = self.memory.draw(task)
            assert drawn is not None
            z = self.both(drawn[0], "separate", proxy)[1]
            descend(list(proxy.values()), self.loss(z, drawn[1], drawn[2], task), LR)
        noise = torch.rand(len(self.labels(task)), 6, generator=torch_generator(0, "anchors", task)).to(x)
        order = numpy_generator(0, "anchors", task).permutation(len(y))
        for number, label in enumerate(self.labels(task)):
            if authors and task == 0:
                self.anchors.append((x[next(i for i in order if y[i] == label)], task))
                continue
            e = self.image[label].clone() if authors else x.min() + (x.max() - x.min()) * noise[number]
            e.requires_grad_()
            adam: torch.optim.Optimizer = torch.optim.Adam([e], lr=1e-3) if authors else torch.optim.SGD([e], lr=LR)
            for _ in range(100):
                (features, now), (_, later) = self.both(e[None], "frozen"), self.both(e[None], "frozen", proxy)
                away = (features[0] - self.phi[-1]).square().sum()
                away = 1 - cosine_similarity(features[0], self.phi[label], dim=0) if authors else away
                gain = self.loss(later, torch.tensor([label]), [task], task)
                gain = gain - self.loss(now, torch.tensor([label]), [task], task)
                adam.zero_grad()
                (GAMMA * away - gain).backward()
                adam.step()
            e = e.detach()
            scaled = x.min() + (x.max() - x.min()) * (e - e.min()) / (e.max() - e.min())
            self.anchors.append((scaled if authors else e, task))
        self.phi, self.image = {}, {}


KINDS: list[tuple[HeadsKind, Form, Statistics]] = [
    ("masked", "authors", "separate"),
    ("seen", "authors", "frozen"),
    ("shared", "authors", "update"),
    ("masked", "mammoth", "separate"),
    ("all", "mammoth", "update"),
]


@pytest.mark.parametrize(("kind", "form", "batchnorm"), KINDS)
def test_twenty_one_steps_of_three_tasks_equal_a_plain_spelling(
    kind: HeadsKind, form: Form, batchnorm: Statistics
) -> None:
    step = scene(kind=kind, form=form, batchnorm=batchnorm)
    model, learner = step.model, step.learner
    assert isinstance(learner, Hal)
    layers = own_module(model, 0).get_submodule("layers")
    assert isinstance(layers, nn.Sequential)
    plain, whole = Plain(layers, model.heads, form, batchnorm), nn.ModuleDict({"layers": layers})
    for task in range(3):
        seen = task_batches(model, task)
        for number, data in enumerate(seen):
            metrics = step(data)
            plain.step(data.x[0], data.y[0], task)
            same_state(model, whole)
            assert ("anchors" in metrics) == (task > 0)
            assert (learner.drawn is None) == (task == 0 and (form == "authors" or number == 0))
        learner.task_ends(model, Seen(task, seen))
        plain.end(torch.cat([each.x[0] for each in seen]), torch.cat([each.y[0] for each in seen]), task)
        made = learner.anchors.filled["x"][0]
        torch.testing.assert_close(made, torch.stack([e for e, _ in plain.anchors]), rtol=1e-9, atol=1e-12)
        same_state(model, whole)


def train(step: Step, replica: int | None = None) -> None:
    for task in range(3):
        seen = task_batches(replicas(2, heads=step.model.heads), task)
        if replica is not None:
            seen = [replace(each, x=each.x[replica : replica + 1], y=each.y[replica : replica + 1]) for each in seen]
        for data in seen:
            step(data)
        step.learner.task_ends(step.model, Seen(task, seen))


@pytest.mark.parametrize("form", ["authors", "mammoth"])
def test_replicas_together_equal_replicas_alone(form: Form) -> None:
    together, alone = scene(2, form=form), scene(1, first_seed=1, form=form)
    train(together)
    train(alone, replica=1)
    torch.testing.assert_close(together.model.theta[1:], alone.model.theta)
    for name, buffer in alone.model.buffers.items():
        torch.testing.assert_close(together.model.buffers[name][1:], buffer)


def test_replicas_at_rest_keep_their_means() -> None:
    step = scene(2)
    assert isinstance(step.learner, Hal)
    first, second = task_batches(step.model, 0)[:2]
    step(first)
    assert step.learner.phi.value is not None
    before = step.learner.phi.value.clone()
    step.at(None, torch.tensor([LR, 0.0], dtype=torch.float64))
    step(second)
    assert torch.equal(step.learner.phi.value[1], before[1])
    assert not torch.equal(step.learner.phi.value[0], before[0])
