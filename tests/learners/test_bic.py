import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, kl_div

from gradcast.core import Batch, Labelled, Metrics, Replay, Signal
from gradcast.learners.bic import Bic, corrected, old_share
from gradcast.memories.by_class import ClassMemory
from gradcast.randomness import numpy_generator
from gradcast.replicas.heads import ABSENT, Heads, HeadsKind
from gradcast.replicas.replicas import Replicas
from gradcast.signals.pseudo import Attached
from gradcast.training.step import Step
from tests.helpers import batch, replicas
from tests.learners.scene import Seen, descend, outputs, same_state
from tests.replicas.test_replicas import own_module

CLASSES = ((0, 1, 2), (3, 4), (5, 6))
LR, T, BATCH, EPOCHS, BIAS_LR = 0.1, 2.0, 4, 9, 0.05
HELD = 6  # images of a task set aside


def labels(heads: Heads, y: Tensor, task: int) -> Tensor:
    return heads.labels(y % len(CLASSES[task]), task)


def aside(model: Replicas, task: int) -> Batch:
    """Two images of every class."""
    width = len(CLASSES[task])
    made = batch(replicas(2, heads=model.heads), task=task, size=2 * width, seed=50 + task)
    y = model.heads.labels(torch.arange(2 * width).expand(2, -1) % width, task)
    return replace(made, y=y)


class Watching(Signal):
    """Keeps the gradient that signals are shown."""

    dz: Tensor

    def learn(self, model: Replicas, labelled: Labelled) -> Metrics:
        self.dz = labelled.dz
        return {}


def scene(count: int = 1, first_seed: int = 0, *, kind: HeadsKind = "masked") -> tuple[Step, Watching]:
    heads, seeds, watching = Heads.of(CLASSES, kind), range(first_seed, 9)[:count], Watching()
    model = replicas(count, sizes=(6, 5, 7), heads=heads, norm="batch", first_seed=first_seed)
    memories = (ClassMemory(heads, size, seeds=seeds) for size in (6, HELD))

    def own(task: int) -> Batch:
        made = aside(model, task)
        return replace(made, x=made.x[seeds.start : seeds.stop], y=made.y[seeds.start : seeds.stop])

    learner = Bic(*memories, own, seeds, 4, BATCH, T, EPOCHS, BIAS_LR)
    return Step(model, learner, LR, [Attached(watching)]), watching


def task_batches(model: Replicas, task: int) -> list[Batch]:
    """Seven batches; labels are places among the task's classes."""
    made = [batch(model, task=task, size=5, seed=10 * task + number) for number in range(7)]
    return [replace(each, y=labels(model.heads, each.y, task)) for each in made]


class Plain:
    """The method for one seed in plain words; the memory's draws are given."""

    def __init__(self, module: nn.Module, kind: HeadsKind) -> None:
        self.module, self.kind, self.before = module, kind, module
        self.a, self.b = torch.tensor(1.0).double(), torch.tensor(0.0).double()
        self.held: list[tuple[Tensor, Tensor]] = []  # images set aside and their columns

    def columns(self, task: int, now: int) -> list[int]:
        if self.kind == "masked":
            return list(CLASSES[task])
        return list(range(7 if self.kind == "all" else CLASSES[now][-1] + 1))

    def corrected(self, outputs: Tensor, task: int) -> Tensor:
        own = torch.tensor([column in CLASSES[task] for column in range(7)])
        return torch.where(own, self.a * outputs + self.b, outputs)

    def scores(self, x: Tensor, task: int) -> Tensor:
        """In evaluation mode, for the fit as for the answers."""
        return self.corrected(outputs(self.module, x, "frozen").detach(), task)

    def step(self, x: Tensor, y: Tensor, task: int, drawn: Replay | None) -> Tensor:
        """The gradient at the batch's logits."""
        size, tasks = len(y), [task] * len(y)
        if drawn is not None:
            x, y, tasks = torch.cat([x, drawn.x[0]]), torch.cat([y, drawn.y[0]]), tasks + drawn.tasks[0].tolist()
        z = outputs(self.module, x, "update")
        each = [cross_entropy(row[self.columns(t, task)], own) for row, own, t in zip(z, y, tasks, strict=True)]
        loss = torch.stack(each).mean()
        if task:
            past = list(CLASSES[:task]) if self.kind == "masked" else [range(CLASSES[task - 1][-1] + 1)]
            old = outputs(self.before, x, "separate").detach()  # in training mode, on batch and replayed images
            old = self.corrected(old, task - 1).detach() if task > 1 else old
            apart = loss * 0
            for own in past:
                now, then = (logits[:, list(own)] / T for logits in (z, old))
                apart = apart + kl_div(now.log_softmax(1), then.softmax(1), reduction="batchmean") / len(past)
            share = (CLASSES[task - 1][-1] + 1) / (CLASSES[task][-1] + 1)
            loss = (1 - share) * loss + share * T**2 * apart
        (slope,) = torch.autograd.grad(loss, z, retain_graph=True)
        descend(list(self.module.parameters()), loss, LR)
        return slope[:size, self.columns(task, task)] * len(y) / size

    def end(self, held: Batch, task: int) -> None:
        column = held.y[0] + (CLASSES[task][0] if self.kind == "masked" else 0)
        rows = np.resize(column.argsort(stable=True).numpy(), HELD)
        self.held.append((held.x[0][rows], column[rows]))
        self.before = copy.deepcopy(self.module)
        if task == 0:
            return
        x, y = (torch.cat(parts) for parts in zip(*self.held, strict=True))
        self.a, self.b = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (1.0, 0.0))
        adam, draws = torch.optim.Adam([self.a, self.b], lr=BIAS_LR), numpy_generator(0, "bias", task)
        for _ in range(EPOCHS):
            for part in torch.from_numpy(draws.permutation(len(y))).split(BATCH):
                z = self.scores(x[part], task)[:, : CLASSES[task][-1] + 1]
                adam.zero_grad()
                cross_entropy(z, y[part]).backward()
                adam.step()


@pytest.mark.parametrize("kind", ["masked", "seen", "all"])
def test_twenty_one_steps_of_three_tasks_equal_a_plain_spelling(kind: HeadsKind) -> None:
    step, watching = scene(kind=kind)
    model, learner, plain = step.model, step.learner, Plain(own_module(step.model, 0), kind)
    assert isinstance(learner, Bic)
    assert learner.scorer(model) is None
    for task in range(3):
        seen = task_batches(model, task)
        learner.task_begins(model, Seen(task, seen))
        for data in seen:
            metrics = step(data)
            shown = plain.step(data.x[0], data.y[0], task, learner.drawn)
            same_state(model, plain.module)
            dz = watching.dz[0]
            torch.testing.assert_close(dz[:, : shown.shape[1]], shown, rtol=1e-9, atol=1e-12)
            assert not dz[:, shown.shape[1] :].any()
            assert ("distillation" in metrics) == (task > 0)
        learner.task_ends(model, Seen(task, seen))
        plain.end(aside(model, task), task)
        assert learner.correction is not None
        torch.testing.assert_close(
            learner.correction[0], torch.stack([plain.a, plain.b]).detach(), rtol=1e-9, atol=1e-12
        )
        score, x = learner.scorer(model), batch(model, size=30, seed=99).x
        assert (score is not None) == (task > 0)
        if score is not None:
            torch.testing.assert_close(score(x)[0], plain.scores(x[0], task).detach(), rtol=1e-9, atol=1e-12)
            assert (learner.correction[0] != torch.tensor([1.0, 0.0])).all()
        same_state(model, plain.module)


def test_replicas_together_equal_replicas_alone() -> None:
    (together, _), (alone, _) = scene(2), scene(1, first_seed=1)
    for step, replica in ((together, slice(0, 2)), (alone, slice(1, 2))):
        for task in range(3):
            seen = task_batches(replicas(2, heads=step.model.heads), task)
            seen = [replace(each, x=each.x[replica], y=each.y[replica]) for each in seen]
            step.learner.task_begins(step.model, Seen(task, seen))
            for data in seen:
                step(data)
            step.learner.task_ends(step.model, Seen(task, seen))
    torch.testing.assert_close(together.model.theta[1:], alone.model.theta)
    for name, buffer in alone.model.buffers.items():
        torch.testing.assert_close(together.model.buffers[name][1:], buffer)
    assert isinstance(together.learner, Bic)
    assert isinstance(alone.learner, Bic)
    assert together.learner.correction is not None
    assert alone.learner.correction is not None
    torch.testing.assert_close(together.learner.correction[1:], alone.learner.correction)


def test_a_class_that_returns_is_old_and_the_share_of_old_classes_is_never_one() -> None:
    heads = Heads.of([(4, 7), (9, 7), (7, 4)], "seen")
    assert [heads.new_columns(task) for task in range(3)] == [slice(0, 2), slice(2, 3), slice(3, 3)]
    assert [old_share(heads, task) for task in (1, 2)] == [0.5, 0.6]
    z = torch.ones(1, 2, 3)
    assert torch.equal(corrected(z, torch.tensor([[2.0, 1.0]]), slice(3, 3)), z)


def test_a_gradient_at_all_outputs_is_none_where_a_class_is_absent() -> None:
    heads, slope = Heads.of(CLASSES, "seen"), torch.ones(1, 2, 7)
    found = heads.slopes(slope, torch.zeros(1, 2, dtype=torch.int64), 0)
    assert found[0, 0].tolist() == [1, 1, 1, 0, 0, 0, 0]
    assert (heads.columns(slope, 0) == ABSENT).any()
