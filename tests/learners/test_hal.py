import copy
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, cross_entropy

from gradcast.core import Batch, Replay
from gradcast.learners.hal import Form, Hal
from gradcast.memories.by_class import ClassMemory
from gradcast.randomness import numpy_generator, torch_generator
from gradcast.replicas.heads import Heads, HeadsKind
from gradcast.replicas.replicas import Replicas
from gradcast.training.step import Step
from tests.helpers import batch, replicas
from tests.learners.scene import Seen, descend
from tests.replicas.test_replicas import own_module

CLASSES = ((0, 1, 2), (3, 4), (5, 6))
LR, WEIGHT, GAMMA, BETA = 0.1, 0.7, 0.2, 0.3


def scene(count: int = 1, first_seed: int = 0, *, kind: HeadsKind = "masked", form: Form = "authors") -> Step:
    heads = Heads.even(3, 3) if kind == "shared" else Heads.of(CLASSES, kind)
    model, seeds = replicas(count, sizes=(6, 5, 7), heads=heads, first_seed=first_seed), range(first_seed, 9)[:count]
    learner = Hal(ClassMemory(heads, 6, seeds=seeds), seeds, 4, LR, WEIGHT, GAMMA, BETA, form)
    return Step(model, learner, LR)


def task_batches(model: Replicas, task: int) -> list[Batch]:
    """Seven batches; labels are places among the task's classes."""
    made = [batch(model, task=task, size=5, seed=10 * task + number) for number in range(7)]
    return [replace(each, y=model.heads.labels(each.y % len(model.heads.task_columns[task]), task)) for each in made]


class Plain:
    """The method for one seed in plain words; ``drawn`` are the memory's own draws."""

    def __init__(self, module: nn.Sequential, heads: Heads, form: Form, drawn: Iterator[Replay]) -> None:
        self.module, self.heads, self.form, self.drawn = module, heads, form, drawn
        self.anchors: list[tuple[Tensor, int]] = []
        self.phi: dict[int, Tensor] = {}
        self.image: dict[int, Tensor] = {}
        self.draws = numpy_generator(0, "replay")

    def columns(self, task: int, now: int) -> list[int]:
        if self.heads.kind == "shared":
            return [0, 1, 2]
        whole = 7 if self.heads.kind == "all" else CLASSES[now][-1] + 1
        return list(CLASSES[task]) if self.heads.masked else list(range(whole))

    def loss(self, module: nn.Module, x: Tensor, y: Tensor, tasks: list[int], now: int) -> Tensor:
        each = [cross_entropy(module(x[i])[self.columns(t, now)], y[i]) for i, t in enumerate(tasks)]
        return torch.stack(each).mean()

    def step(self, x: Tensor, y: Tensor, task: int) -> Tensor:
        self.follow(x, y)
        tasks, authors = [task] * len(y), self.form == "authors"
        if task > 0:
            own = next(self.drawn)
            x, y, tasks = torch.cat([x, own.x[0]]), torch.cat([y, own.y[0]]), tasks + own.tasks[0].tolist()
        loss = self.loss(self.module, x, y, tasks, task)
        if self.anchors:
            ahead, count = copy.deepcopy(self.module), len(self.anchors)
            descend(list(ahead.parameters()), self.loss(ahead, x, y, tasks, task), LR)
            chosen = self.draws.choice(count, min(count, 10) if authors else count, replace=False)
            for e, of in (self.anchors[i] for i in chosen):
                own = self.columns(of, task) if authors else list(range(self.heads.outputs))
                away = (self.module(e) - ahead(e).detach())[own].square()
                loss = loss + WEIGHT * (away.sum() if authors else away.mean()) / len(chosen)
        return descend(list(self.module.parameters()), loss, LR)

    @torch.no_grad()
    def follow(self, x: Tensor, y: Tensor) -> None:
        features = self.module[:-1](x)
        for label in y.unique().tolist():
            for means, rows, decay in ((self.phi, features, BETA), (self.image, x, 0.9)):
                mean = rows[y == label].mean(0)
                means[label] = decay * means[label] + (1 - decay) * mean if label in means else mean
        mean = features.mean(0)
        self.phi[-1] = BETA * self.phi[-1] + (1 - BETA) * mean if -1 in self.phi else mean  # of all classes

    def end(self, x: Tensor, y: Tensor, task: int) -> None:
        authors, proxy = self.form == "authors", copy.deepcopy(self.module)
        compete = self.heads.kind in ("seen", "all")
        labels = CLASSES[task] if compete else range(len(self.columns(task, task)))
        for _ in range(50 if authors and task else 1 - authors):
            own = next(self.drawn)
            descend(list(proxy.parameters()), self.loss(proxy, own.x[0], own.y[0], own.tasks[0].tolist(), task), LR)
        noise = torch.rand(len(labels), 6, generator=torch_generator(0, "anchors", task)).to(x)
        order = numpy_generator(0, "anchors", task).permutation(len(y))
        for number, label in enumerate(labels):
            if authors and task == 0:
                self.anchors.append((x[next(i for i in order if y[i] == label)], task))
                continue
            e = self.image[label].clone() if authors else x.min() + (x.max() - x.min()) * noise[number]
            e.requires_grad_()
            adam: torch.optim.Optimizer = torch.optim.Adam([e], lr=1e-3) if authors else torch.optim.SGD([e], lr=LR)
            for _ in range(100):
                features = self.module[:-1](e)
                away = (features - self.phi[-1]).square().sum()
                away = 1 - cosine_similarity(features, self.phi[label], dim=0) if authors else away
                columns = self.columns(task, task)
                label_ = torch.tensor(label)
                gain = cross_entropy(proxy(e)[columns], label_) - cross_entropy(self.module(e)[columns], label_)
                adam.zero_grad()
                (GAMMA * away - gain).backward()
                adam.step()
            e = e.detach()
            scaled = x.min() + (x.max() - x.min()) * (e - e.min()) / (e.max() - e.min())
            self.anchors.append((scaled if authors else e, task))
        self.phi, self.image = {}, {}


KINDS: list[tuple[HeadsKind, Form]] = [
    ("masked", "authors"),
    ("seen", "authors"),
    ("shared", "authors"),
    ("masked", "mammoth"),
    ("all", "mammoth"),
]


@pytest.mark.parametrize(("kind", "form"), KINDS)
def test_twenty_one_steps_of_three_tasks_equal_a_plain_spelling(
    kind: HeadsKind, form: Form, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = scene(kind=kind, form=form)
    model, learner, drawn = step.model, step.learner, list[Replay]()
    assert isinstance(learner, Hal)
    real = learner.memory.draw

    def draw(task: int, count: int) -> Replay | None:
        found = real(task, count)
        if found is not None:
            drawn.append(Replay(found.x.clone(), found.y.clone(), found.tasks.clone()))
        return found

    monkeypatch.setattr(learner.memory, "draw", draw)
    layers = own_module(model, 0).get_submodule("layers")
    assert isinstance(layers, nn.Sequential)
    plain = Plain(layers, model.heads, form, iter(drawn))
    for task in range(3):
        seen = task_batches(model, task)
        for data in seen:
            metrics = step(data)
            torch.testing.assert_close(model.theta[0], plain.step(data.x[0], data.y[0], task), rtol=1e-9, atol=1e-12)
            assert ("anchors" in metrics) == (task > 0)
        learner.task_ends(model, Seen(task, seen))
        plain.end(torch.cat([each.x[0] for each in seen]), torch.cat([each.y[0] for each in seen]), task)
        made = learner.anchors.filled["x"][0]
        torch.testing.assert_close(made, torch.stack([e for e, _ in plain.anchors]), rtol=1e-9, atol=1e-12)


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
