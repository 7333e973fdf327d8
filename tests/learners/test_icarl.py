from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, kl_div

from gradcast.core import Batch
from gradcast.learners.icarl import Icarl
from gradcast.memories.exemplars import Exemplars
from gradcast.randomness import numpy_generator
from gradcast.replicas.heads import Heads, HeadsKind
from gradcast.replicas.replicas import Replicas
from gradcast.training.step import Step
from tests.helpers import batch, replicas
from tests.learners.scene import Seen
from tests.replicas.test_replicas import own_module

CLASSES = ((0, 1, 2), (3, 4), (5, 6))  # of each task: two runs of equal width
LR, WEIGHT, SIZE = 0.1, 0.7, 14


def scene(count: int = 1, first_seed: int = 0, *, kind: HeadsKind = "masked", latest: bool = False) -> Step:
    heads = Heads.of(CLASSES, kind)
    model = replicas(count, sizes=(6, 5, 7), heads=heads, first_seed=first_seed)
    memory = Exemplars(heads, SIZE, seeds=range(first_seed, first_seed + count), latest=latest)
    return Step(model, Icarl(memory, WEIGHT, over_batch=latest), LR)


def task_batches(model: Replicas, task: int) -> list[Batch]:
    """Seven batches; labels are places among the task's classes."""
    made = [batch(model, task=task, size=5, seed=10 * task + number) for number in range(7)]
    return [replace(each, y=model.heads.labels(each.y % len(CLASSES[task]), task)) for each in made]


class Plain:
    """The method for one seed in plain words: loops over tasks, classes and exemplars."""

    def __init__(self, module: nn.Module, kind: HeadsKind, *, released: bool) -> None:
        self.module, self.kind, self.released = module, kind, released
        self.sets: dict[int, Tensor] = {}  # exemplars by class
        self.then: dict[int, Tensor] = {}  # their outputs at the last task's end
        self.draws, self.latest = numpy_generator(0, "exemplars"), 0

    def step(self, x: Tensor, y: Tensor, task: int) -> None:
        columns = list(CLASSES[task]) if self.kind == "masked" else list(range(CLASSES[task][-1] + 1))
        loss = cross_entropy(self.module(x)[:, columns], y)
        past = [label for own in CLASSES[:task] for label in own]
        counts = [self.latest if self.released else len(self.sets[label]) for label in past]
        chosen = dict(zip(past, self.draws.integers(np.array(counts)), strict=True)) if past else {}
        for own in CLASSES[:task]:
            old = list(own) if self.kind == "masked" else past
            images = torch.stack([self.sets[label][chosen[label]] for label in own])
            then = torch.stack([self.then[label][chosen[label]] for label in own])[:, old]
            axis = 0 if self.released else 1
            found = kl_div(self.module(images)[:, old].log_softmax(axis), then.softmax(axis), reduction="sum")
            loss = loss + WEIGHT * found / len(own)
        weights = list(self.module.parameters())
        with torch.no_grad():
            for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
                weight -= LR * gradient

    @torch.no_grad()
    def end(self, x: Tensor, y: Tensor, task: int) -> None:
        self.latest = SIZE // (CLASSES[task][-1] + 1)
        for label, place in zip(CLASSES[task], range(3), strict=False):
            own = x[y == (place if self.kind == "masked" else label)]
            outputs, chosen = self.module(own)[:, list(CLASSES[task])], list[int]()
            while len(chosen) < min(self.latest, len(own)):
                left = [place for place in range(len(own)) if place not in chosen]
                away = [(outputs[[*chosen, place]].mean(0) - outputs.mean(0)).norm() for place in left]
                chosen.append(left[int(torch.stack(away).argmin())])
            self.sets[label] = own[chosen]
        self.then = {label: self.module(images) for label, images in self.sets.items()}

    @torch.no_grad()
    def answer(self, x: Tensor, labels: list[int]) -> int:
        means = torch.stack([self.module(self.sets[label]).mean(0) for label in labels])
        return labels[int((means - self.module(x[None])).norm(dim=1).argmin())]


@pytest.mark.parametrize(("kind", "released"), [("masked", False), ("masked", True), ("seen", False)])
def test_twenty_one_steps_of_three_tasks_equal_a_plain_spelling(kind: HeadsKind, released: bool) -> None:
    step = scene(kind=kind, latest=released)
    model, plain = step.model, Plain(own_module(step.model, 0), kind, released=released)
    for task in range(3):
        seen = task_batches(model, task)
        for data in seen:
            metrics = step(data)
            plain.step(data.x[0], data.y[0], task)
            weights = torch.cat([weight.detach().flatten() for weight in plain.module.parameters()])
            torch.testing.assert_close(model.theta[0], weights, rtol=1e-9, atol=1e-12)
            assert ("distillation" in metrics) == (task > 0)
        step.learner.task_ends(model, Seen(task, seen))
        plain.end(torch.cat([each.x[0] for each in seen]), torch.cat([each.y[0] for each in seen]), task)
    x = batch(model, size=30, seed=99).x
    score = step.learner.scorer(model)
    assert score is not None
    for labels in (*CLASSES, tuple(range(7))):
        found = [labels[place] for place in score(x)[0][:, list(labels)].argmax(-1)]
        assert found == [plain.answer(image, list(labels)) for image in x[0]]
        assert len(set(found)) > 1


def train(step: Step, replica: int | None = None) -> None:
    for task in range(3):
        seen = task_batches(replicas(2, heads=step.model.heads), task)
        if replica is not None:
            seen = [replace(each, x=each.x[replica : replica + 1], y=each.y[replica : replica + 1]) for each in seen]
        for data in seen:
            step(data)
        step.learner.task_ends(step.model, Seen(task, seen))


def test_replicas_together_equal_replicas_alone_though_their_classes_are_of_unequal_size() -> None:
    together, alone = scene(2), scene(1, first_seed=1)
    train(together)
    train(alone, replica=1)
    torch.testing.assert_close(together.model.theta[1:], alone.model.theta)
    x = batch(together.model, size=9, seed=99).x
    scores = [step.learner.scorer(step.model) for step in (together, alone)]
    assert all(each is not None for each in scores)
    torch.testing.assert_close(scores[0](x)[1:], scores[1](x[1:]))  # type: ignore[misc]


def test_tasks_to_come_have_a_constant_answer() -> None:
    step = scene(2)
    x = batch(step.model, size=4).x
    before = step.learner.scorer(step.model)
    assert before is not None
    assert not before(x).any()
    step.learner.task_ends(step.model, Seen(0, task_batches(step.model, 0)))
    after = step.learner.scorer(step.model)
    assert after is not None
    assert (after(x)[..., :3] > 0).all()
    assert not after(x)[..., 3:].any()


@dataclass(frozen=True)
class Blurry(Seen):
    """The first image of every batch is of the task before."""

    def batches(self, size: int) -> Iterator[Batch]:
        for made in super().batches(size):
            tasks = torch.full_like(made.y, self.task)
            tasks[:, ::5] -= 1
            yield replace(made, tasks=tasks)


def test_images_of_other_tasks_become_no_exemplars() -> None:
    step = scene(2)
    assert isinstance(step.learner, Icarl)
    step.learner.task_ends(step.model, Seen(0, task_batches(step.model, 0)))
    seen = task_batches(step.model, 1)
    step.learner.task_ends(step.model, Blurry(1, seen))
    foreign = torch.cat([each.x[0, :1] for each in seen])
    chosen = torch.cat(step.learner.memory.images(0)[3:])
    assert len(chosen) == 2 * (SIZE // 5)
    assert not (chosen[:, None] == foreign).all(-1).any()
