import copy
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, kl_div, mse_loss

from gradcast.core import Batch
from gradcast.errors import GradcastError
from gradcast.learners.cfa import Cfa, concatenated, nearest
from gradcast.memories.by_class import ClassMemory
from gradcast.randomness import numpy_generator, seeded
from gradcast.replicas.heads import Heads, HeadsKind
from gradcast.replicas.replicas import Replicas
from gradcast.specs.text import load
from gradcast.training.step import Step
from tests.helpers import batch, flat, replicas
from tests.learners.scene import Seen, descend, train
from tests.replicas.test_replicas import own_module
from tests.training.scene import shared

CLASSES = ((0, 1, 2), (3, 4), (5, 6))
LR, BATCH, EPOCHS, SIZE, ADAM, ALPHA, BETA = 0.1, 4, 2, 6, 0.02, 0.3, 0.7
NOISE = 1e-9  # BatchNorm takes a bias before it away; Adam makes a step of what rounding leaves of its gradient


def scene(count: int = 1, first_seed: int = 0, *, kind: HeadsKind = "masked") -> Step:
    heads, seeds = Heads.of(CLASSES, kind), range(first_seed, first_seed + count)
    model = replicas(count, sizes=(6, 5, 7), heads=heads, norm="batch", first_seed=first_seed)
    return Step(model, Cfa(ClassMemory(heads, SIZE, seeds=seeds), seeds, BATCH, EPOCHS, ADAM, ALPHA, BETA), LR)


def task_batches(model: Replicas, task: int) -> list[Batch]:
    """Seven batches; labels are places among the task's classes."""
    made = [batch(model, task=task, size=5, seed=10 * task + number) for number in range(7)]
    return [replace(each, y=model.heads.labels(each.y % len(CLASSES[task]), task)) for each in made]


class Plain:
    """The method for one seed in plain words."""

    def __init__(self, module: nn.Module, kind: HeadsKind) -> None:
        self.module, self.kind, self.old = module, kind, module
        self.memory: list[Tensor] = []

    def features(self, module: nn.Module, x: Tensor) -> Tensor:
        return module.get_submodule("layers")[:-1](x)  # type: ignore[index, no-any-return]

    def places(self, y: Tensor, task: int) -> Tensor:
        return y if self.kind == "masked" else y - CLASSES[task][0]

    def step(self, x: Tensor, y: Tensor, task: int) -> Tensor:
        loss = cross_entropy(self.module.train()(x)[:, list(CLASSES[task])], self.places(y, task))
        return descend(list(self.module.parameters()), loss, LR)

    def end(self, x: Tensor, y: Tensor, task: int) -> None:
        found, features = list[int](), self.features(self.module.eval(), x).detach()
        for place in range(len(CLASSES[task])):
            members = [i for i, own in enumerate(self.places(y, task).tolist()) if own == place]
            mean = features[members].mean(0)
            found += sorted(members, key=lambda i: float((features[i] - mean).norm()))[: SIZE // len(CLASSES[task])]
        self.memory.append(x[found])
        if task:
            self.module = self.amalgamated(self.old.eval(), self.module, task)
        self.old = copy.deepcopy(self.module)

    def amalgamated(self, old: nn.Module, teacher: nn.Module, task: int) -> nn.Module:
        student, x, first = copy.deepcopy(old).train(), torch.cat(self.memory), CLASSES[task][0]
        with seeded(0, "common space", task):
            align = [nn.Linear(5, 10, bias=False).double() for _ in range(3)]
            skip, inner = (nn.Linear(10, 5, bias=False).double() for _ in range(2))
            more = [nn.Linear(5, 5, bias=False).double() for _ in range(9)]
        layers = nn.ModuleList([*align, skip, inner, *more])

        def common(features: Tensor, own: nn.Module) -> Tensor:
            h = own(features).relu()
            h = (more[0](inner(h).relu()) + skip(h)).relu()
            h = (more[2](more[1](h).relu()) + h).relu()
            h = (more[4](more[3](h).relu()) + h).relu()
            return h

        head = [weight for name, weight in student.named_parameters() if name.startswith("layers.3")]
        body = [weight for name, weight in student.named_parameters() if not name.startswith("layers.3")]
        fast = {"params": [*head, *layers.parameters()], "lr": 10 * ADAM}
        adam, draws = torch.optim.Adam([{"params": body, "lr": ADAM}, fast]), numpy_generator(0, "amalgamation", task)
        for _ in range(EPOCHS):
            order = torch.from_numpy(draws.permutation(len(x)))
            for rows in [part for part in order.split(BATCH) if len(part) == BATCH]:
                hidden = self.features(student, x[rows])
                z = student.get_submodule("layers.3")(hidden)[:, : CLASSES[task][-1] + 1]
                with torch.no_grad():
                    label = torch.cat([old(x[rows])[:, :first], teacher(x[rows])[:, first : z.shape[1]]], 1)
                    known = [self.features(each, x[rows]) for each in (old, teacher)]
                h, others = common(hidden, align[0]), [common(known[i], align[1 + i]) for i in (0, 1)]
                apart = sum(kl_div(h.log_softmax(1), t.softmax(1), reduction="none").mean() for t in others)
                decoded = more[6](more[5](others[0]).relu()), more[8](more[7](others[1]).relu())
                lost = sum(mse_loss(made, own) for made, own in zip(decoded, known, strict=True))
                loss = ALPHA * kl_div(z.log_softmax(1), label.softmax(1), reduction="none").mean()
                adam.zero_grad()
                (loss + (1 - ALPHA) * 10 * (apart + BETA * lost)).backward()
                adam.step()
        return student


@pytest.mark.parametrize("kind", ["masked", "seen", "all"])
def test_thirty_five_steps_of_three_tasks_equal_a_plain_spelling(kind: HeadsKind) -> None:
    step = scene(kind=kind)
    model, learner, plain = step.model, step.learner, Plain(own_module(step.model, 0), kind)
    for task in range(3):
        seen = task_batches(model, task)
        learner.task_begins(model, Seen(task, seen))
        for data in seen:
            step(data)
            torch.testing.assert_close(model.theta[0], plain.step(data.x[0], data.y[0], task), rtol=1e-9, atol=NOISE)
        teacher = model.theta[0].clone()
        learner.task_ends(model, Seen(task, seen))
        plain.end(torch.cat([each.x[0] for each in seen]), torch.cat([each.y[0] for each in seen]), task)
        torch.testing.assert_close(model.theta[0], flat(plain.module), rtol=1e-9, atol=NOISE)
        assert torch.equal(model.theta[0], teacher) == (task == 0)
        for name, value in plain.module.named_buffers():
            torch.testing.assert_close(model.buffers[name][0], value, rtol=1e-9, atol=NOISE)


def test_replicas_together_equal_replicas_alone() -> None:
    together, alone = scene(2, kind="seen"), scene(1, first_seed=1, kind="seen")
    tasks = [task_batches(together.model, task) for task in range(3)]
    train(together, tasks, slice(0, 2))
    train(alone, tasks, slice(1, 2))
    torch.testing.assert_close(together.model.theta[1:], alone.model.theta)
    for name, buffer in alone.model.buffers.items():
        torch.testing.assert_close(together.model.buffers[name][1:], buffer)


def test_a_class_that_returns_is_the_teachers() -> None:
    heads = Heads.of([(4, 7), (9, 7), (7, 4)], "seen")
    old, new = torch.zeros(1, 1, 3), torch.ones(1, 1, 3)
    labels = [concatenated(old, new, columns).flatten().tolist() for columns in heads.task_columns]
    assert labels == [[1, 1, 0], [0, 1, 1], [1, 1, 0]]


def test_exemplars_are_nearest_to_the_mean_and_of_two_the_first_comes_first() -> None:
    x = torch.tensor([[0.0], [9.0], [4.0], [3.0]])
    assert nearest(x, 3).tolist() == [2, 3, 0]
    assert nearest(x[:2], 1).tolist() == nearest(x[:2].flip(0), 1).tolist() == [0]
    assert len(nearest(x[:0], 2)) == 0


def test_other_learning_rates_of_layers_count() -> None:
    step = scene()
    rates = [0.0] * len(step.model.names)
    step.model.use_rates(rates)
    before = step.model.theta.clone()
    train(step, [task_batches(step.model, task) for task in range(3)], slice(0, 1))
    assert torch.equal(step.model.theta, before)


def test_the_average_that_is_evaluated_begins_anew_with_the_student() -> None:
    changes = ["stream.tasks=2", "stream.samples=40", "learner.name=cfa", "learner.memory=12", "model.heads=masked"]
    setting = load("digits", [*changes, "model.norm=batch", "signal.name=mean-teacher"]).rows[1].setting
    loop = shared().loop(setting, [0, 1])
    loop.run([])
    trainer = loop.trainer
    assert trainer.evaluated is not trainer.model
    assert torch.equal(trainer.evaluated.theta, trainer.model.theta)
    assert all(torch.equal(trainer.evaluated.buffers[name], own) for name, own in trainer.model.buffers.items())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["learner.memory=9"], r"learner\.memory = 9 holds fewer samples .* than learner\.replay = 10 asks for"),
        (["evaluation.average=5"], "leave evaluation.average out"),
    ],
)
def test_what_cannot_work_is_refused(changes: list[str], message: str) -> None:
    with pytest.raises(GradcastError, match=message):
        load("digits", ["learner.name=cfa", "model.heads=masked", *changes])
