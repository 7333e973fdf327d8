from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy, mse_loss, normalize

from gradcast.core import Batch
from gradcast.learners.der import LOGITS
from gradcast.learners.xder import XDer
from gradcast.memories.refilled import RefilledMemory
from gradcast.randomness import numpy_generator
from gradcast.replicas.heads import Heads, HeadsKind
from gradcast.replicas.replicas import Replicas
from gradcast.signals.pseudo import Attached
from gradcast.training.step import Step
from tests.helpers import batch, replicas
from tests.learners.scene import Seen, descend
from tests.learners.test_bic import Watching
from tests.replicas.test_replicas import own_module

CLASSES = ((0, 1, 2), (3, 4), (5, 6))
LR, SIZE, COUNT, JOINING, BATCH = 0.1, 13, 4, 5, 5
ALPHA, BETA, GAMMA, MARGIN, ETA, CONTRAST, T = 0.6, 0.9, 0.85, 0.7, 0.3, 0.4, 2.0


def shown(x: Tensor, noise: object = None) -> Tensor:
    """Stands for an augmentation."""
    return 0.9 * x + 0.1


def seen_strongly(x: Tensor, noise: object = None) -> Tensor:
    """Stands for one that makes views differ."""
    return x * torch.linspace(0.5, 1.5, x.shape[-2], dtype=x.dtype).unsqueeze(-1)


def scene(
    count: int = 1, first_seed: int = 0, *, kind: HeadsKind = "masked", classes: tuple[tuple[int, ...], ...] = CLASSES
) -> tuple[Step, Watching]:
    heads, seeds, watching = Heads.of(classes, kind), range(first_seed, 9)[:count], Watching()
    model = replicas(count, sizes=(6, 5, 7), heads=heads, norm="batch", first_seed=first_seed)
    learner = XDer(RefilledMemory(heads, SIZE, seeds), COUNT, BATCH, ALPHA, BETA, GAMMA, MARGIN, ETA, CONTRAST, T)
    learner.images, learner.augment, learner.strong = JOINING, shown, seen_strongly  # type: ignore[assignment]
    return Step(model, learner, LR, [Attached(watching)]), watching


def task_batches(model: Replicas, task: int) -> list[Batch]:
    made = [batch(model, task=task, size=5, seed=10 * task + number) for number in range(8)]
    return [replace(each, y=model.heads.labels(each.y % len(model.heads.task_columns[task]), task)) for each in made]


class Plain:
    """The method for one seed in plain words; ``held`` has image, column of the class, task and logits of each slot."""

    def __init__(self, module: nn.Module, kind: HeadsKind) -> None:
        self.module, self.kind, self.draws = module.train(), kind, numpy_generator(0, "replay")
        self.uses, self.held = Counter[int](), dict[int, tuple[Tensor, int, int, Tensor]]()

    def outputs(self, x: Tensor, *, update: bool = False) -> Tensor:
        kept = {} if update else {name: buffer.clone() for name, buffer in self.module.named_buffers()}
        return functional_call(self.module, kept, (x,))  # type: ignore[no-any-return]

    def draw(self, count: int) -> list[int]:
        return [int(slot) for slot in np.resize(self.draws.permutation(sorted(self.held)), count)]

    def edited(self, old: Tensor, new: Tensor, label: int, columns: range) -> Tensor:
        made, u, largest = old.detach().clone(), old[label], max([*new[columns.start : columns.stop], old[label]])
        for column in columns:
            low = new[column] * GAMMA * u / largest if u > 0 else new[column] - (largest - u)
            made[column] = low if largest > u else new[column]
        return made.detach()

    def transplant(self, slot: int, new: Tensor, task: int) -> None:
        x, label, of, old = self.held[slot]
        self.held[slot] = x, label, of, self.edited(old, new, label, range(CLASSES[task][0], 7))

    def step(self, x: Tensor, y: Tensor, task: int) -> tuple[Tensor, Tensor]:
        own, outputs = list(CLASSES[task]), self.outputs(shown(x), update=task == 0)
        loss = cross_entropy(outputs[:, own], y - own[0])
        rows, views, classes = [(row, task) for row in outputs], x, y.tolist()
        if task:
            first, second, joining = self.draw(COUNT), self.draw(COUNT), self.draw(JOINING)
            dark, known, more = ([self.held[slot] for slot in own] for own in (first, second, joining))
            mixed = torch.cat([torch.stack([own[0] for own in dark]), x[: COUNT // task]])
            dark_z = self.outputs(shown(mixed), update=True)[:COUNT]
            known_z = self.outputs(shown(torch.stack([own[0] for own in known])))
            loss = loss + ALPHA * mse_loss(dark_z, torch.stack([own[3] for own in dark]))
            for row, (_, label, of, _) in zip(known_z, known, strict=True):
                past = CLASSES[of] if self.kind == "masked" else range(CLASSES[task][0])
                loss = loss + BETA / COUNT * cross_entropy(row[list(past)], torch.tensor(label - past[0]))
            replayed = dict(reversed(list(zip(first + second, [*dark_z, *known_z], strict=True))))  # each once
            rows += [(row, self.held[slot][2]) for slot, row in replayed.items()]
            views, classes = torch.cat([x, *(own[0][None] for own in more)]), classes + [own[1] for own in more]
        if task < 2:
            short = [row[CLASSES[task][-1] + 1 :].max() + MARGIN - row[list(CLASSES[of])].max() for row, of in rows]
            loss = loss + ETA * torch.stack(short).relu().mean()
            z, who = self.outputs(seen_strongly(torch.cat([views, views]))), torch.tensor(classes * 2)
            for head in CLASSES[task + 1 :]:
                similar = (normalize(z[:, head]) @ normalize(z[:, head]).T / T).exp()
                for i in range(len(who)):
                    logs = (similar[i] / (similar[i].sum() - similar[i, i])).log()
                    own = (who == who[i]) & (torch.arange(len(who)) != i)
                    loss = loss - CONTRAST * logs[own].mean() / len(who) / len(CLASSES[task + 1 :])
        (slope,) = torch.autograd.grad(loss, outputs, retain_graph=True)  # at all outputs of the batch
        weights = descend(list(self.module.parameters()), loss, LR)
        for place, coin in enumerate(self.draws.random(2 * COUNT) if task else ()):
            slot = (first + second)[place]
            self.uses[slot] += (fresh := slot not in (first + second)[:place])
            if fresh and coin < 1 / self.uses[slot]:
                self.transplant(slot, replayed[slot], task)
        return weights, slope

    def end(self, x: Tensor, y: Tensor, task: int) -> None:
        owned = [sorted(s for s in self.held if self.held[s][1] == label) for label in range(CLASSES[task][0])]
        for slot in [slot for own in owned for slot in own[SIZE // (CLASSES[task][-1] + 1) :]]:
            del self.held[slot]
        free, width = SIZE - len(self.held), len(CLASSES[task])
        lucky = self.draws.permutation(CLASSES[task])[: free % width]
        room = {label: free // width + (label in lucky) for label in CLASSES[task]}
        for images, labels in zip(x.split(BATCH), y.split(BATCH), strict=True):
            for image, label, z in zip(images, labels.tolist(), self.outputs(shown(images)), strict=True):
                if room[label]:
                    slot, room[label] = min({*range(SIZE)} - {*self.held}), room[label] - 1
                    self.held[slot] = image, label, task, self.edited(z, z, label, range(CLASSES[task][0]))
        order = self.draw(-(-SIZE // BATCH) * BATCH) if task else []
        for start in range(0, len(order), BATCH):
            part = order[start : start + BATCH]
            for slot, z in zip(part, self.outputs(shown(torch.stack([self.held[s][0] for s in part]))), strict=True):
                if self.held[slot][2] < task and order.index(slot) >= start:
                    self.transplant(slot, z, task)
        self.uses.clear()


@pytest.mark.parametrize("kind", ["masked", "seen", "all"])
def test_twenty_four_steps_of_three_tasks_equal_a_plain_spelling(kind: HeadsKind) -> None:
    step, watching = scene(kind=kind)
    model, learner, plain = step.model, step.learner, Plain(own_module(step.model, 0), kind)
    assert isinstance(learner, XDer)
    for task in range(3):
        seen = task_batches(model, task)
        for data in seen:
            metrics = step(data)
            y = model.heads.classes(data.y, data.each_task)[0]
            weights, slope = plain.step(data.x[0], y, task)
            torch.testing.assert_close(model.theta[0], weights, rtol=1e-9, atol=1e-11)
            expected = model.heads.slopes(slope[None], data.each_task, task)[0]
            torch.testing.assert_close(watching.dz[0], expected, rtol=1e-9, atol=1e-11)
            for name, buffer in plain.module.named_buffers():
                torch.testing.assert_close(model.buffers[name][0], buffer, rtol=1e-9, atol=1e-11)
            parts = {"distance", "replay_loss"} if task else set()
            assert metrics.keys() >= parts | ({"contrast", "margin"} if task < 2 else set())
            same_memory(learner, plain)
        learner.task_ends(model, Seen(task, seen))
        x, y = (torch.cat([getattr(each, key)[0] for each in seen]) for key in ("x", "y"))
        plain.end(x, model.heads.classes(y[None], task)[0], task)
        same_memory(learner, plain)


def same_memory(learner: XDer, plain: Plain) -> None:
    """Images, classes and logits."""
    if not plain.held:
        return
    known = learner.memory.filled
    for slot, (x, label, task, logits) in plain.held.items():
        assert torch.equal(known["x"][0, slot], x)
        found = learner.memory.heads.classes(known["y"][0, slot], known["tasks"][0, slot])
        assert (int(found), int(known["tasks"][0, slot])) == (label, task)
        torch.testing.assert_close(known[LOGITS][0, slot], logits, rtol=1e-9, atol=1e-10)


def train(step: Step, replica: slice) -> None:
    """Three tasks on the batches of two replicas, or of some of them."""
    for task in range(3):
        seen = task_batches(replicas(2, sizes=(6, 5, 7), heads=step.model.heads), task)
        seen = [replace(each, x=each.x[replica], y=each.y[replica]) for each in seen]
        for data in seen:
            step(data)
        step.learner.task_ends(step.model, Seen(task, seen))


def test_replicas_together_equal_replicas_alone() -> None:
    (together, _), (alone, _) = scene(2), scene(1, first_seed=1)
    train(together, slice(0, 2))
    train(alone, slice(1, 2))
    torch.testing.assert_close(together.model.theta[1:], alone.model.theta)
    assert isinstance(together.learner, XDer)
    assert isinstance(alone.learner, XDer)
    torch.testing.assert_close(together.learner.memory.filled[LOGITS][1:], alone.learner.memory.filled[LOGITS])


@pytest.mark.parametrize("kind", ["masked", "seen"])
def test_classes_that_return_are_learned_in_both_tasks(kind: HeadsKind) -> None:
    step, _ = scene(2, kind=kind, classes=((0, 1, 2), (1, 3, 4), (4, 0)))
    train(step, slice(0, 2))
    assert isinstance(step.learner, XDer)
    assert torch.isfinite(step.model.theta).all()
    held = step.learner.memory.filled
    assert sorted(set(held["tasks"][0].tolist())) == [0, 1, 2]
    assert held[LOGITS].abs().max() < 50


def test_a_batch_with_images_of_earlier_tasks_trains_on_their_classes_too() -> None:
    step, watching = scene(1, kind="seen")
    first, second = (task_batches(step.model, task) for task in range(2))
    step(first[0])
    step.learner.task_ends(step.model, Seen(0, first))
    tasks = torch.tensor([[1, 1, 1, 1, 0]])
    y = second[0].y.clone()
    y[0, 4] = 2  # a class of the first task
    metrics = step(Batch(second[0].x, y, 1, tasks=tasks))
    assert metrics["loss"].item() < 100
    assert watching.dz[0, 4, 2] < 0
    assert (watching.dz[0, :, 2] != 0).all()  # it competes with the task's own
    assert not watching.dz[0, :4, :2].any()


def test_replicas_at_rest_keep_the_logits_of_their_memory() -> None:
    step, _ = scene(2)
    assert isinstance(step.learner, XDer)
    first, second = (task_batches(step.model, task) for task in range(2))
    step(first[0])
    step.learner.task_ends(step.model, Seen(0, first))
    before = step.learner.memory.filled[LOGITS].clone()
    step.at(None, torch.tensor([LR, 0.0], dtype=torch.float64))
    step(second[0])
    after = step.learner.memory.filled[LOGITS]
    assert torch.equal(after[1], before[1])
    assert (after[0, :, 3:] != before[0, :, 3:]).any()
    assert torch.equal(after[0, :, :3], before[0, :, :3])  # of past heads they never change


def test_logits_that_are_not_finite_are_not_stored() -> None:
    step, _ = scene(1)
    assert isinstance(step.learner, XDer)
    first, second = (task_batches(step.model, task) for task in range(2))
    step(first[0])
    step.learner.task_ends(step.model, Seen(0, first))
    step.model.theta.fill_(torch.nan)
    step(second[0])
    assert torch.isfinite(step.learner.memory.filled[LOGITS]).all()
