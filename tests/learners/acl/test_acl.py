import json
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from gradcast.core import Batch, Signal, Unlabelled
from gradcast.devices import Place
from gradcast.errors import GradcastError
from gradcast.gradients.gradient_learner import GradientLearner
from gradcast.gradients.length import Length
from gradcast.learners.acl.acl import Acl, replicas
from gradcast.learners.acl.losses import orthogonality
from gradcast.learners.acl.settings import AclSettings
from gradcast.networks.acl_network import AclNetwork, Head, HeadPerTask
from gradcast.randomness import torch_generator
from gradcast.replicas.replicas import Replicas
from gradcast.runs.checkpoint.state import pack, restore
from gradcast.signals.forward_only import ForwardOnly
from gradcast.signals.meta_gradient import MetaGradient
from gradcast.signals.noise import Noise
from gradcast.signals.pseudo import Attached
from gradcast.signals.pseudo_labels import PseudoLabels
from gradcast.training.trainer import Trainer
from tests.helpers import CPU
from tests.learners.acl.scene import CLASSES, LATENT, TaskOf, batch, images, learner, network, predicted, stepped
from tests.replicas.test_replicas import own_module

LR = torch.tensor([0.05, 0.05], dtype=torch.float64)
FIRST = torch.tensor([True, False])


def train(acl: Acl, task: int, steps: int = 3) -> None:
    acl.begin(TaskOf(task))
    for number in range(steps):
        stepped(acl, batch(10 * task + number, task), LR, (task, 0, number))


def test_it_is_a_learner_of_the_loop() -> None:
    assert isinstance(learner(), Trainer)


def test_modules_of_earlier_tasks_are_bit_identical_after_later_ones_and_only_the_shared_module_changes() -> None:
    acl, kept = learner(dropout=0.3), list[Tensor]()
    for task in range(3):
        train(acl, task)
        acl.finish(TaskOf(task))
        kept.append(acl.model.theta.clone())
    shared = acl.modules.alone.start
    assert shared == sum(p.numel() for p in network().shared.parameters())
    for task, then in enumerate(kept):
        now = acl.weights_for(task)
        assert torch.equal(now[:, shared:], then[:, shared:])
        assert torch.equal(now[:, :shared], kept[-1][:, :shared])
    assert not torch.isclose(kept[0][:, :shared], kept[1][:, :shared]).all()
    assert torch.equal(acl.weights_for(2), acl.model.theta)


def test_every_task_begins_with_private_module_and_head_of_its_own() -> None:
    acl = learner()
    first = acl.model.theta.clone()
    acl.begin(TaskOf(0))
    assert torch.equal(acl.model.theta, first)
    acl.begin(TaskOf(1))
    second = acl.model.theta.clone()
    assert torch.equal(second[:, : acl.modules.alone.start], first[:, : acl.modules.alone.start])
    assert not torch.isclose(second[:, acl.modules.alone], first[:, acl.modules.alone]).any()
    assert acl.discriminator.weights[-1].shape[1] == 3
    acl.begin(TaskOf(1))  # twice is as good as once
    assert torch.equal(acl.model.theta, second)


def test_loss_is_the_weighed_sum_without_dropout() -> None:
    settings = AclSettings(adversarial=0.3, orthogonal=0.6)
    acl, data = learner(settings=settings, dropout=0.4), batch(1)
    found = acl.loss(data)
    for replica in range(2):
        outputs = own_module(acl.model, replica).eval()(data.x[replica])
        z, zs, zp = outputs.split([CLASSES, LATENT, LATENT], dim=1)
        judged = cross_entropy(acl.discriminator(zs.expand(2, -1, -1))[replica], torch.ones(5, dtype=torch.long))
        alike = orthogonality(zs, zp)[0]
        expected = cross_entropy(z, data.y[replica]) + 0.3 * judged + 0.6 * alike
        torch.testing.assert_close(found["loss"][replica], expected.detach())
        torch.testing.assert_close(found["adversarial"][replica], judged.detach())
        assert found["hits"][replica] == (z.argmax(1) == data.y[replica]).sum()


@pytest.mark.parametrize("task", [0, 1])
def test_a_restart_goes_back_to_the_tasks_beginning_or_in_the_first_task_to_other_weights(task: int) -> None:
    acl = learner()
    for earlier in range(task):
        train(acl, earlier)
        acl.finish(TaskOf(earlier))
    acl.begin(TaskOf(task))
    began = acl.model.theta.clone()
    train(acl, task)
    trained, judge = acl.model.theta.clone(), [weight.clone() for weight in acl.discriminator.weights]
    acl.restart(FIRST, "fixed")
    now = acl.model.theta
    assert torch.equal(now[1], trained[1])
    assert torch.equal(now[0], began[0]) == (task > 0)
    assert not torch.isclose(now[0], trained[0]).all()
    assert not torch.equal(acl.discriminator.weights[0][0], judge[0][0])
    assert torch.equal(acl.discriminator.weights[0][1], judge[0][1])
    torch.testing.assert_close(acl.judging.lr, torch.tensor([1e-4, 1e-3], dtype=torch.float64))
    velocity = acl.sgd.velocity[0]
    assert not velocity[0].any()
    assert velocity[1].any()


def test_the_reference_restart_stands_still_until_each_optimizer_is_renewed() -> None:
    acl = learner()
    train(acl, 0)
    acl.restart(FIRST, "reference")
    weights = [acl.model.theta, acl.discriminator.weights[0]]

    def moved() -> list[list[bool]]:
        before = [weight.clone() for weight in weights]
        stepped(acl, batch(7), LR, (0, 5, 0))
        return [
            [not torch.equal(a, b) for a, b in zip(now, then, strict=True)]
            for now, then in zip(weights, before, strict=True)
        ]

    assert moved() == [[False, True], [False, True]]
    acl.renew(FIRST)
    assert moved() == [[True, True], [False, True]]
    for _ in range(6):  # the first epoch improves on nothing known, five more do not improve
        acl.epoch_ended({"adversarial": torch.ones(2)}, torch.tensor([True, True]))
    assert moved() == [[True, True], [True, True]]
    torch.testing.assert_close(acl.judging.lr, torch.tensor([1e-4 / 3, 1e-3 / 3], dtype=torch.float64))


def teacher(model: Replicas) -> Replicas:
    return replicas(lambda: network(0.5), [8, 9], Place(CPU, torch.float64))


def attached(make: Callable[[Replicas], Signal]) -> Callable[[Replicas], list[Attached]]:
    return lambda model: [Attached(make(model))]


SIGNALS: dict[str, Callable[[Replicas], Signal]] = {
    "predicted": lambda model: predicted(bias=True, activation="none")(model)[0].signal,
    "one-hot": lambda model: PseudoLabels(teacher(model), soft=False),
    "soft": lambda model: PseudoLabels(teacher(model), soft=True, length=Length(0.1)),
    "meta-gradient": lambda model: MetaGradient(),
    "noise": lambda model: Noise(CLASSES, [torch_generator(seed, "directions") for seed in (3, 4)]),
}


@pytest.mark.parametrize("name", [*SIGNALS, "forward-only"])
def test_every_signal_on_logits_works_and_reaches_shared_and_private_module_and_head(name: str) -> None:
    make = SIGNALS.get(name, lambda model: ForwardOnly())
    acl, plain = learner(signal=attached(make)), learner()
    for own in (acl, plain):
        own.begin(TaskOf(1))
        stepped(own, batch(0, 1), LR, (1, 0, 0), lambda: Unlabelled(images(5), torch.tensor([True, False])))
    difference = (acl.model.theta - plain.model.theta).abs()
    assert not difference[1].any()
    reached = {weight.split(".")[0] for weight in acl.model.names if difference[0, acl.model.places[weight]].any()}
    assert reached == (set() if name == "forward-only" else {"shared", "private", "head"})


def test_the_published_learner_is_affine_with_5061_parameters() -> None:
    h = GradientLearner(5, (128, 32), bias=True, activation="none")
    assert sum(p.numel() for p in h.parameters()) == 5_061
    z = torch.randn(3, 2, 5)
    torch.testing.assert_close(h(z.mean(0)), h(z).mean(0), rtol=1e-4, atol=1e-5)


def test_what_cannot_be_renewed_seed_by_seed_is_refused() -> None:
    acl = learner(signal=predicted(optimizer="adam", momentum=0.0, decay=0.0, lr=0.01))
    acl.begin(TaskOf(0))  # all seeds at once
    with pytest.raises(GradcastError, match="set optimizer='sgd'"):
        acl.renew(FIRST)


def test_a_learner_is_remembered_with_modules_of_all_tasks_and_the_discriminators_rate() -> None:
    old, new = learner(), learner()
    for task in range(2):
        train(old, task)
        old.finish(TaskOf(task))
    train(old, 2)
    for loss in (1.0, *[2.0] * 5):
        old.epoch_ended({"adversarial": torch.tensor([loss, -loss])}, torch.tensor([True, True]))
    tensors: dict[str, Tensor] = {}
    restore(new, json.loads(json.dumps(pack(old, tensors))), tensors, CPU)
    torch.testing.assert_close(new.judging.lr, torch.tensor([1e-3 / 3, 1e-3], dtype=torch.float64))
    for own in (new, old):
        own.restart(FIRST, "fixed")
        stepped(own, batch(5, 2), LR, (2, 1, 0))
        own.finish(TaskOf(2))
    assert all(torch.equal(new.weights_for(task), old.weights_for(task)) for task in range(3))
    assert all(map(torch.equal, new.discriminator.weights, old.discriminator.weights))
    new.begin(TaskOf(3))
    assert new.judging.lr.tolist() == [1e-3, 1e-3]


def test_the_discriminator_of_its_best_epoch_comes_back_replica_by_replica() -> None:
    acl, everybody = learner(), torch.tensor([True, True])
    acl.begin(TaskOf(0))
    seen = []
    for epoch, losses in enumerate([[0.5, 0.5], [0.4, 0.6], [0.6, 0.7]]):
        stepped(acl, batch(epoch), LR, (0, epoch, 0))
        acl.epoch_ended({"adversarial": torch.tensor(losses)}, everybody)
        seen.append([weight.clone() for weight in acl.discriminator.weights])
    acl.finish(TaskOf(0))
    for layer, now in enumerate(acl.discriminator.weights):
        assert torch.equal(now[0], seen[1][layer][0])
        assert torch.equal(now[1], seen[0][layer][1])
    acl.begin(TaskOf(1))
    acl.finish(TaskOf(1))  # nothing was kept in this task
    assert acl.discriminator.weights[-1].shape[1] == 3


def test_images_of_earlier_tasks_train_their_own_head_and_heads_that_nobody_asks_for_rest() -> None:
    def several() -> AclNetwork:
        made = network()
        return AclNetwork(made.shared, made.private, HeadPerTask([Head(LATENT, CLASSES, 12) for _ in range(3)]))

    acl = Acl(several, [3, 4], place=Place(CPU, torch.float64))
    first, mixed = batch(0), batch(1, 1)
    tasks = torch.ones_like(mixed.y)
    tasks[0, :2] = 0  # the first replica checkpointed two images
    acl.begin(TaskOf(0))
    begun = acl.model.theta.clone()
    stepped(acl, first, LR, (0, 0, 0))
    assert moved_heads(acl, begun) == [[True, False, False], [True, False, False]]
    acl.finish(TaskOf(0))
    aside = acl.weights_for(0)[:, acl.modules.alone].clone()
    acl.begin(TaskOf(1))
    begun = acl.model.theta.clone()
    stepped(acl, Batch(mixed.x, mixed.y, 1, tasks=tasks), LR, (1, 0, 0))
    assert moved_heads(acl, begun) == [[True, True, False], [False, True, False]]
    assert torch.equal(acl.weights_for(0)[:, acl.modules.alone], aside)


def moved_heads(acl: Acl, before: Tensor) -> list[list[bool]]:
    """Replica by replica, task by task."""
    places = [
        [place for name, place in acl.model.places.items() if name.startswith(f"head.each.{t}.")] for t in range(3)
    ]
    changed = acl.model.theta != before
    return [[any(bool(changed[r, place].any()) for place in own) for own in places] for r in range(2)]


def test_several_signals_reach_the_same_model_and_noise_does_not_depend_on_its_place() -> None:
    def both(model: Replicas) -> list[Attached]:
        return [Attached(SIGNALS[name](model), 0, name) for name in ("predicted", "noise")]

    acls = {name: learner(signal=attached(SIGNALS[name])) for name in ("predicted", "noise")}
    acls |= {"both": learner(signal=both), "none": learner()}
    one = AclSettings(updates=1, judgements=0, momentum=0.0, decay=0.0)
    for name, own in list(acls.items()):
        own.settings = own.training.settings = one
        own.sgd.momentum = own.sgd.decay = 0.0
        own.begin(TaskOf(1))
        stepped(own, batch(0, 1), LR, (1, 0, 0), lambda: Unlabelled(images(5), torch.tensor([True, True])))
        acls[name] = own
    theta = {name: own.model.theta for name, own in acls.items()}
    torch.testing.assert_close(
        theta["both"] - theta["none"], theta["predicted"] + theta["noise"] - 2 * theta["none"], rtol=1e-6, atol=1e-9
    )


def test_a_batch_that_is_not_finite_is_undone_for_model_and_discriminator() -> None:
    acl = learner()
    acl.training.update.skips = True
    assert acl.skips
    acl.begin(TaskOf(0))
    stepped(acl, batch(0), LR, (0, 0, 0))
    things = [acl.model.theta, *acl.discriminator.weights]
    before = [thing.clone() for thing in things]
    bad = batch(1)
    x = bad.x.clone()
    x[1] = float("inf")
    told = stepped(acl, Batch(x, bad.y, 0), LR, (0, 0, 1))
    assert told["finite"].tolist() == [True, False]
    assert all(torch.equal(now[1], then[1]) for now, then in zip(things, before, strict=True))
    assert not any(torch.equal(now[0], then[0]) for now, then in zip(things, before, strict=True))
