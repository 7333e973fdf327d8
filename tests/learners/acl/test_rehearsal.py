"""Stored images against plain modules, autograd and torch's own optimizers."""

import json

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from gradcast.learners.acl.acl import Acl
from gradcast.networks.acl_network import AclNetwork
from gradcast.randomness import torch_generator
from gradcast.runs.checkpoint.state import pack, restore
from tests.helpers import CPU, flat
from tests.learners.acl.scene import CLASSES, LATENT, TaskOf, batch, learner, stepped
from tests.learners.acl.test_acl_step import LR, SETTINGS, Plain, Reversal, plain_weights
from tests.replicas.test_replicas import own_module


def taught(acl: Acl, task: int, batches: int = 4) -> None:
    """A task with all its batches, new ones."""
    acl.begin(TaskOf(task))
    for number in range(batches):
        stepped(acl, batch(10 * task + number, task), LR, (task, 0, number))
    acl.finish(TaskOf(task))


def stored(replica: int, task: int, each: int) -> tuple[Tensor, Tensor]:
    """The last images of every class, by lists."""
    seen = [batch(10 * task + number, task) for number in range(4)]
    pairs = [(x, int(y)) for own in seen for x, y in zip(own.x[replica], own.y[replica], strict=True)]
    kept = [pair for label in range(CLASSES) for pair in [p for p in pairs if p[1] == label][-each:]]
    assert len(kept) == each * CLASSES
    return torch.stack([x for x, _ in kept]), torch.tensor([y for _, y in kept])


class Rehearsing(Plain):
    """The same where stored images of the first task have its private module and head, and weigh like others."""

    def __init__(self, acl: Acl, replica: int) -> None:
        super().__init__(acl, replica)
        old = own_module(acl.model, replica)
        torch.nn.utils.vector_to_parameters(acl.weights_for(0)[replica], old.parameters())
        assert isinstance(old, AclNetwork)
        self.old = old.requires_grad_(False)
        self.x, self.y = stored(replica, 0, each=2)

    def loss(self, zs: Tensor, zp: Tensor, logits: Tensor, y: Tensor, task: int) -> Tensor:
        adversarial = cross_entropy(self.judge(Reversal.apply(zs)), torch.full_like(y, task + 1))
        s, p = (z / (z.norm(dim=1, keepdim=True).detach() + 1e-6) for z in (zs, zp))
        alike = (s @ p.T).pow(2).mean()
        return cross_entropy(logits, y) + self.settings.adversarial * adversarial + self.settings.orthogonal * alike

    def update(self, x: Tensor, y: Tensor, task: int, pool: Tensor | None = None) -> None:
        self.optimizer.zero_grad()
        logits, zs, zp = self.net(x).split([CLASSES, LATENT, LATENT], dim=1)
        before, private = self.net.shared(self.x), self.old.private(self.x)
        told = self.old.head(torch.cat([private, before], dim=1))
        rehearsed = self.loss(before, private, told, self.y, 0)
        (self.loss(zs, zp, logits, y, task) + len(self.y) / len(y) * rehearsed).backward()
        self.optimizer.step()

    def judged(self, x: Tensor, task: int, seed: int, moment: str) -> None:
        zs = self.net.shared(torch.cat([x, self.x])).detach()
        tasks = torch.tensor([task + 1] * len(x) + [1] * len(self.x))
        fake = torch.randn(zs.shape, generator=torch_generator(seed, "fake", moment), dtype=torch.float64)
        self.judge_optimizer.zero_grad()
        noise = cross_entropy(self.judge(fake), torch.zeros(len(zs), dtype=torch.long))
        (cross_entropy(self.judge(zs), tasks) + noise).backward()
        self.judge_optimizer.step()


def test_two_batches_with_stored_images_end_at_the_weights_of_plain_modules() -> None:
    acl = learner(settings=SETTINGS, memory=6)
    taught(acl, 0)
    acl.begin(TaskOf(1))
    plain = [Rehearsing(acl, replica) for replica in range(2)]
    for number in range(2):
        data = batch(70 + number, 1)
        told = stepped(acl, data, LR, (1, 0, number))
        for own in plain:
            r = own.replica
            for _ in range(3):
                own.update(data.x[r], data.y[r], 1)
            own.judged(data.x[r], 1, acl.seeds[r], f"1/0/{number}/judgement 0")
    assert told["rehearsal"].shape == (2,)
    for own in plain:
        torch.testing.assert_close(acl.model.theta[own.replica], flat(own.net), rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(plain_weights(acl, own.replica), flat(own.judge), rtol=1e-10, atol=1e-12)


def test_the_first_task_trains_as_without_memory_and_modules_of_earlier_tasks_stay_frozen() -> None:
    acl, without = learner(dropout=0.3, memory=3), learner(dropout=0.3)
    for own in (acl, without):
        taught(own, 0)
    assert torch.equal(acl.model.theta, without.model.theta)
    before = acl.weights_for(0)[:, acl.modules.alone].clone()
    for own in (acl, without):
        taught(own, 1)
    assert torch.equal(acl.weights_for(0)[:, acl.modules.alone], before)
    shared = slice(0, acl.modules.alone.start)
    assert not torch.isclose(acl.model.theta[:, shared], without.model.theta[:, shared]).all()


def test_earlier_tasks_take_turns_in_an_epoch_and_known_batches_are_not_stored_again() -> None:
    acl = learner(memory=3)
    for task in range(2):
        taught(acl, task)
    acl.begin(TaskOf(2))
    own = acl.training.rehearsal
    assert own is not None
    turns = []
    for number in range(5):
        own.begin(batch(20 + number, 2), number)
        assert own.stored is not None
        turns.append(own.stored.tasks.unique().tolist())
        for replica in range(2):
            x, _ = stored(replica, turns[-1][0], each=1)
            assert {tuple(row) for row in own.stored.x[replica].flatten(1).tolist()} == {
                tuple(row) for row in x.flatten(1).tolist()
            }
    assert turns == [[0], [1], [0], [1], [0]]
    assert own.memory.counts is not None
    assert own.memory.counts[0, 2].sum() == 25
    first = batch(30, 2)
    own.begin(type(first)(first.x, first.y, 2, repeated=5), 5)
    assert own.memory.counts[0, 2].sum() == 25


def test_what_is_stored_is_remembered() -> None:
    old, new = (learner(dropout=0.3, memory=6) for _ in range(2))
    taught(old, 0)
    old.begin(TaskOf(1))
    stepped(old, batch(11, 1), LR, (1, 0, 0))
    tensors: dict[str, Tensor] = {}
    restore(new, json.loads(json.dumps(pack(old, tensors))), tensors, CPU)
    for own in (old, new):
        stepped(own, batch(12, 1), LR, (1, 0, 1))
    assert torch.equal(old.model.theta, new.model.theta)
    assert all(map(torch.equal, old.discriminator.weights, new.discriminator.weights))
