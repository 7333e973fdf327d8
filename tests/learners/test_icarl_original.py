import copy
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy, normalize

from gradcast.core import Batch, Replay
from gradcast.gradients.sgd import Sgd
from gradcast.learners.icarl_original import OriginalIcarl
from gradcast.memories.by_class import ClassMemory
from gradcast.replicas.heads import Heads, HeadsKind
from gradcast.replicas.replicas import Replicas, Statistics
from gradcast.signals.pseudo import Attached
from gradcast.training.step import Step
from tests.helpers import batch, replicas
from tests.learners.scene import Seen, outputs, same_state, train
from tests.learners.test_bic import Watching
from tests.replicas.test_replicas import own_module

CLASSES = ((0, 1, 2), (3, 4), (5, 6))
LR, DECAY, SIZE = 0.1, 0.01, 6


def scene(
    count: int = 1, first_seed: int = 0, *, kind: HeadsKind = "seen", classes: tuple[tuple[int, ...], ...] = CLASSES
) -> tuple[Step, Watching]:
    heads, seeds, watching = Heads.of(classes, kind), range(first_seed, first_seed + count), Watching()
    model = replicas(count, sizes=(6, 16, 5, 7), heads=heads, norm="batch", first_seed=first_seed)
    learner = OriginalIcarl(ClassMemory(heads, SIZE, seeds=seeds), 4)
    return Step(model, learner, LR, [Attached(watching)], sgd=Sgd(decay=DECAY)), watching


def task_batches(model: Replicas, task: int) -> list[Batch]:
    """Seven batches; labels are places among the task's classes."""
    made = [batch(model, task=task, size=5, seed=10 * task + number) for number in range(7)]
    width = len(model.heads.task_columns[task])
    return [replace(each, y=model.heads.labels(each.y % width, task)) for each in made]


class Plain:
    """The method for one seed in plain words; the memory's draws are given."""

    def __init__(self, module: nn.Module, kind: HeadsKind) -> None:
        self.module, self.kind, self.before = module, kind, module
        self.memory: list[tuple[Tensor, int]] = []  # an exemplar and its class

    def column(self, y: int, task: int) -> int:
        return CLASSES[task][y] if self.kind == "masked" else y

    def features(self, x: Tensor, statistics: Statistics = "frozen") -> Tensor:
        made = outputs(self.module.get_submodule("layers")[:-1], x, statistics)  # type: ignore[index]
        return normalize(made.detach(), dim=1)

    def step(self, x: Tensor, y: Tensor, task: int, drawn: Replay | None) -> Tensor:
        """The gradient at the batch's outputs, as signals see it: of the mean over the batch alone."""
        size, columns = len(y), [self.column(own, task) for own in y.tolist()]
        if drawn is not None:
            pairs = zip(drawn.y[0].tolist(), drawn.tasks[0].tolist(), strict=True)
            x, columns = torch.cat([x, drawn.x[0]]), columns + [self.column(*pair) for pair in pairs]
        z = outputs(self.module, x, "update")
        old = outputs(self.before, x, "separate").detach()  # in training mode, on the same images
        losses = []
        for row, then, own in zip(z, old, columns, strict=True):
            for column in range(CLASSES[task][-1] + 1):
                new = column in CLASSES[task]
                target = torch.tensor(float(column == own)).double() if new else then[column].sigmoid()
                losses.append(binary_cross_entropy(row[column].sigmoid(), target))
        loss = torch.stack(losses).mean()
        (slope,) = torch.autograd.grad(loss, z, retain_graph=True)
        weights = list(self.module.parameters())
        for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
            weight.data -= LR * (gradient + DECAY * weight.data)
        return slope[:size] * len(columns) / size

    def end(self, x: Tensor, y: Tensor, task: int) -> None:
        features, columns = self.features(x), [self.column(own, task) for own in y.tolist()]
        for own in CLASSES[task]:
            members, chosen = [i for i, column in enumerate(columns) if column == own], list[int]()
            for _ in range(min(SIZE // len(CLASSES[task]), len(members))):
                left = [i for i in members if i not in chosen]
                away = [(features[[*chosen, i]].mean(0) - features[members].mean(0)).norm() for i in left]
                chosen.append(left[int(torch.stack(away).argmin())])
            self.memory += [(x[i], own) for i in chosen]
        self.before = copy.deepcopy(self.module)

    def scores(self, x: Tensor) -> Tensor:
        """Nearness to the mean direction of those of each class's exemplars; the nearest is the answer."""
        features = self.features(torch.stack([image for image, _ in self.memory]))
        found = torch.zeros(len(x), 7).double()
        for own in {own for _, own in self.memory}:
            mean = features[[other == own for _, other in self.memory]].mean(0)
            found[:, own] = 1 / (1 + (self.features(x) - mean / mean.norm()).norm(dim=1))
        return found


@pytest.mark.parametrize("kind", ["masked", "seen", "all"])
def test_twenty_one_steps_of_three_tasks_equal_a_plain_spelling(kind: HeadsKind) -> None:
    step, watching = scene(kind=kind)
    model, learner, plain = step.model, step.learner, Plain(own_module(step.model, 0), kind)
    for task in range(3):
        seen = task_batches(model, task)
        x, y = torch.cat([each.x[0] for each in seen]), torch.cat([each.y[0] for each in seen])
        learner.task_begins(model, Seen(task, seen))
        for data in seen:
            metrics = step(data)
            assert isinstance(learner, OriginalIcarl)
            slope = plain.step(data.x[0], data.y[0], task, learner.drawn)
            same_state(model, plain.module)
            own = slope[:, list(CLASSES[task])] if kind == "masked" else slope
            torch.testing.assert_close(watching.dz[0, :, : own.shape[1]], own, rtol=1e-9, atol=1e-12)
            assert metrics["sigmoid_loss"][0] > 0
        learner.task_ends(model, Seen(task, seen))
        plain.end(x, y, task)
        scores = learner.scorer(model)
        assert scores is not None
        torch.testing.assert_close(scores(x.unsqueeze(0))[0], plain.scores(x), rtol=1e-9, atol=1e-12)


def second_task(step: Step) -> list[Batch]:
    """After its first step; its batches."""
    first, second = (task_batches(step.model, task) for task in range(2))
    train(step, [first[:1]], slice(None))
    step.learner.task_begins(step.model, Seen(1, second))
    step(second[0])
    return second


def test_an_evaluation_within_a_task_leaves_what_a_step_reads_in_its_place() -> None:
    step, _ = scene()
    model, learner = step.model, step.learner
    assert isinstance(learner, OriginalIcarl)
    seen = second_task(step)
    assert learner.drawn is not None
    place = learner.drawn.x.data_ptr()
    assert learner.scorer(model) is not None
    step(seen[1])
    assert learner.drawn.x.data_ptr() == place


def test_before_anything_is_learned_all_answers_are_the_same() -> None:
    step, _ = scene()
    scores = step.learner.scorer(step.model)
    assert scores is not None
    x = batch(step.model, size=5).x
    assert torch.equal(scores(x), torch.zeros(1, 5, 7, dtype=torch.float64))


def test_a_class_that_returns_is_learned_from_its_labels() -> None:
    """In the second task column 1 is the task's own, column 0 and 2 are what they were before it."""
    step, watching = scene(kind="all", classes=((0, 1, 2), (1, 3), (4, 5, 6)))
    seen = second_task(step)
    images = seen[0].y.numel()
    slope = watching.dz[0, :, :4] * 4 * images  # without the mean over images and classes
    label = torch.nn.functional.one_hot(seen[0].y[0], 7)[:, :4]
    assert ((slope[:, [1, 3]] < 0) == (label[:, [1, 3]] == 1)).all()
    assert slope[:, [0, 2]].abs().max() < 0.5 * slope[:, [1, 3]].abs().min()


def test_replicas_together_equal_replicas_alone() -> None:
    (together, _), (alone, _) = scene(2), scene(1, first_seed=1)
    tasks = [
        task_batches(replicas(2, sizes=(6, 16, 5, 7), heads=together.model.heads, norm="batch"), task)
        for task in range(3)
    ]
    train(together, tasks, slice(0, 2))
    train(alone, tasks, slice(1, 2))
    torch.testing.assert_close(together.model.theta[1], alone.model.theta[0], rtol=1e-9, atol=1e-12)
    x = batch(alone.model, size=5).x
    scores = [step.learner.scorer(step.model) for step in (together, alone)]
    assert scores[0] is not None
    assert scores[1] is not None
    torch.testing.assert_close(scores[0](x.expand(2, -1, -1))[1], scores[1](x)[0], rtol=1e-9, atol=1e-12)
    assert not torch.equal(together.model.theta[0], together.model.theta[1])
