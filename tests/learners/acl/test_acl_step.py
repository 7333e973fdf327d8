"""One labelled batch against plain modules, torch's own optimizers and autograd."""

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.functional import cross_entropy

from gradcast.core import Unlabelled
from gradcast.learners.acl.acl import Acl
from gradcast.learners.acl.acl_step import mean_over
from gradcast.learners.acl.settings import AclSettings
from gradcast.networks.acl_network import AclNetwork
from gradcast.randomness import torch_generator
from gradcast.signals.policy import Policy
from gradcast.signals.predicted import Predicted
from tests.helpers import flat
from tests.learners.acl.scene import CLASSES, LATENT, TaskOf, batch, images, learner, predicted, stepped
from tests.replicas.test_replicas import own_module

LR = torch.tensor([0.1, 0.02], dtype=torch.float64)
ALL = torch.tensor([True, True])
SETTINGS = AclSettings(adversarial=0.7, orthogonal=0.9, discriminator_units=5, discriminator_lr=0.05, updates=3)


def h_of(acl: Acl) -> Predicted:
    found = acl.training.update.signals[0].signal
    assert isinstance(found, Predicted)
    return found


class Reversal(Function):
    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: object, slope: Tensor) -> Tensor:  # type: ignore[override]
        return -slope


class Plain:
    """One replica, spelled out: modules, losses, autograd, torch.optim."""

    def __init__(self, acl: Acl, replica: int) -> None:
        self.replica, self.settings = replica, acl.settings
        found = own_module(acl.model, replica)
        assert isinstance(found, AclNetwork)
        self.net = found
        self.judge = self._judge(acl)
        self.h = self._h(acl)
        lr = float(LR[replica])
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=lr, momentum=0.9, weight_decay=0.01)
        self.judge_optimizer = torch.optim.SGD(self.judge.parameters(), lr=0.05, weight_decay=0.01)
        self.h_optimizer = torch.optim.SGD(self.h.parameters(), lr=lr, momentum=0.9, weight_decay=0.01)

    def _judge(self, acl: Acl) -> nn.Module:
        weights = acl.discriminator.weights
        sizes = [(weight.shape[2] - 1, weight.shape[1]) for weight in weights]
        layers = [nn.Linear(*size, dtype=torch.float64) for size in sizes]
        for layer, weight in zip(layers, weights, strict=True):
            layer.weight.data = weight[self.replica, :, :-1].clone()
            layer.bias.data = weight[self.replica, :, -1].clone()
        return nn.Sequential(layers[0], nn.LeakyReLU(0.01), *layers[1:])

    def _h(self, acl: Acl) -> nn.Module:
        if not acl.training.update.signals:
            return nn.Linear(1, 1)
        layers: list[nn.Module] = []
        for weight in h_of(acl).learner.weights:
            layer = nn.Linear(weight.shape[2], weight.shape[1], bias=False, dtype=torch.float64)
            layer.weight.data = weight.detach()[self.replica].clone()
            layers += [layer, nn.ReLU()]
        return nn.Sequential(*layers[:-1])

    def update(self, x: Tensor, y: Tensor, task: int, pool: Tensor | None = None) -> None:
        """One of the updates of the published algorithm."""
        self.optimizer.zero_grad()
        logits = self.net(x)[:, :CLASSES]
        logits.retain_grad()
        features = self.net(x)[:, CLASSES:]
        zs, zp = features[:, :LATENT], features[:, LATENT:]
        adversarial = cross_entropy(self.judge(Reversal.apply(zs)), torch.full_like(y, task + 1))
        s, p = (z / (z.norm(dim=1, keepdim=True).detach() + 1e-6) for z in (zs, zp))
        total = cross_entropy(logits, y) + self.settings.adversarial * adversarial
        (total + self.settings.orthogonal * (s @ p.T).pow(2).mean()).backward()
        if isinstance(self.h, nn.Sequential):
            assert logits.grad is not None
            self._signal(x, y, logits.detach(), logits.grad, pool)
        self.optimizer.step()

    def _signal(self, x: Tensor, y: Tensor, z: Tensor, dz: Tensor, pool: Tensor | None) -> None:
        tau, lr = dz.norm(dim=1).mean(), float(LR[self.replica])

        def rescaled(rows: Tensor) -> Tensor:
            return 0.5 * tau * rows / rows.norm(dim=1, keepdim=True)

        self.h_optimizer.zero_grad()
        (5.0 * cross_entropy(z - lr * rescaled(self.h(z)), y)).backward()
        self.h_optimizer.step()
        if pool is not None:
            both = torch.cat([self.net.private(x), self.net.shared(pool)], dim=1)
            guess = self.net.head(both)
            guess.backward(rescaled(self.h(guess.detach())).detach())

    def judgement(self, x: Tensor, task: int, seed: int, moment: str) -> None:
        zs = self.net(x)[:, CLASSES : CLASSES + LATENT].detach()
        fake = torch.randn(zs.shape, generator=torch_generator(seed, "fake", moment), dtype=torch.float64)
        self.judge_optimizer.zero_grad()
        real = cross_entropy(self.judge(zs), torch.full((len(x),), task + 1))
        (real + cross_entropy(self.judge(fake), torch.zeros(len(x), dtype=torch.long))).backward()
        self.judge_optimizer.step()


@pytest.mark.parametrize("signal", ["none", "watching", "unlabelled"])
def test_two_batches_end_at_the_weights_of_plain_modules(signal: str) -> None:
    acl = learner(settings=SETTINGS, signal=None if signal == "none" else predicted())
    acl.begin(TaskOf(0))
    plain = [Plain(acl, replica) for replica in range(2)]
    for number in range(2):
        data, used = batch(number), [images(10 * number + update + 50) for update in range(3)]
        pool = iter(used)
        draw = (lambda pool=pool: Unlabelled(next(pool), ALL)) if signal == "unlabelled" else (lambda: None)
        stepped(acl, data, LR, (0, 0, number), draw)
        for own in plain:
            r = own.replica
            for update in range(3):
                own.update(data.x[r], data.y[r], 0, used[update][r] if signal == "unlabelled" else None)
            own.judgement(data.x[r], 0, acl.seeds[r], f"0/0/{number}/judgement 0")
    for own in plain:
        torch.testing.assert_close(acl.model.theta[own.replica], flat(own.net), rtol=1e-10, atol=1e-12)
        judge = plain_weights(acl, own.replica)
        torch.testing.assert_close(judge, flat(own.judge), rtol=1e-10, atol=1e-12)
        if signal != "none":
            h = torch.cat([w.detach()[own.replica].flatten() for w in h_of(acl).learner.parameters()])
            torch.testing.assert_close(h, flat(own.h), rtol=1e-10, atol=1e-12)


def plain_weights(acl: Acl, replica: int) -> Tensor:
    rows = [weight[replica] for weight in acl.discriminator.weights]
    return torch.cat([part.flatten() for row in rows for part in (row[:, :-1], row[:, -1])])


def test_logits_and_features_come_from_passes_with_other_masks() -> None:
    acl = learner(dropout=0.5)
    acl.begin(TaskOf(0))
    passes: list[Tensor] = []
    everything, forward = acl.model.everything, acl.model.forward
    acl.model.forward = lambda x, task, **how: (passes.append(everything(x).z), forward(x, task))[1]  # type: ignore
    acl.model.everything = lambda x: (lambda made: (passes.append(made.z), made)[1])(everything(x))  # type: ignore
    stepped(acl, batch(0), LR, (0, 0, 0))
    assert len(passes) == 2 * 5 + 1  # and one for the discriminator
    assert not torch.equal(passes[0][..., CLASSES:], passes[1][..., CLASSES:])


def after(acl: Acl, pool: Tensor | None, used: Tensor = ALL) -> Tensor:
    acl.begin(TaskOf(0))
    stepped(acl, batch(0), LR, (0, 0, 0), lambda: None if pool is None else Unlabelled(pool, used))
    return acl.model.theta


def test_an_unlabelled_batch_of_another_size_is_not_used_unless_the_private_module_sees_it_too() -> None:
    settings = SETTINGS.model_copy(update={"private_input": "unlabelled"})
    without = after(learner(settings=SETTINGS, signal=predicted()), None)
    assert torch.equal(after(learner(settings=SETTINGS, signal=predicted()), images(7, size=4)), without)
    assert not torch.allclose(after(learner(settings=settings, signal=predicted()), images(7, size=4)), without)


def test_private_features_of_labelled_and_of_unlabelled_images_differ() -> None:
    found = [
        after(learner(settings=SETTINGS.model_copy(update={"private_input": which}), signal=predicted()), images(7))
        for which in ("labelled", "unlabelled")
    ]
    assert not torch.allclose(*found)


def test_only_replicas_that_use_their_images_feel_them() -> None:
    without = after(learner(settings=SETTINGS, signal=predicted()), None).clone()
    found = after(learner(settings=SETTINGS, signal=predicted()), images(7), torch.tensor([False, True]))
    assert torch.equal(found[0], without[0])
    assert not torch.equal(found[1], without[1])


def test_a_replica_whose_learning_rate_is_zero_does_not_move_and_neither_do_its_judge_and_h() -> None:
    acl = learner(settings=SETTINGS, signal=predicted(), policy=Policy(p=1.0))
    acl.begin(TaskOf(0))
    things = [acl.model.theta, *acl.discriminator.weights, *h_of(acl).learner.parameters()]
    before = [thing.detach().clone() for thing in things]
    rates = torch.tensor([0.0, 0.1], dtype=torch.float64)
    stepped(acl, batch(0), rates, (0, 0, 0), lambda: Unlabelled(images(7), torch.tensor([False, True])))
    assert all(torch.equal(now[0], then[0]) for now, then in zip(things, before, strict=True))
    assert not any(torch.equal(now[1], then[1]) for now, then in zip(things, before, strict=True))


def test_metrics() -> None:
    acl = learner(settings=SETTINGS, signal=predicted())
    acl.begin(TaskOf(0))
    metrics = stepped(acl, batch(0), LR, (0, 0, 0), lambda: Unlabelled(images(7), ALL))
    assert metrics["finite"].tolist() == [True, True]
    assert metrics["unlabelled"].tolist() == [5.0, 5.0]
    assert {"loss", "adversarial", "orthogonality", "discriminator_loss", "cosine", "pseudo_ratio"} <= set(metrics)
    acl.model.theta[1] = torch.nan
    assert stepped(acl, batch(0), LR, (0, 0, 1))["finite"].tolist() == [True, False]


def test_means_are_over_updates_that_have_something_to_say() -> None:
    nan = float("nan")
    found = mean_over([{"a": torch.tensor([1.0, nan]), "b": torch.tensor([5.0, 6.0])}, {"a": torch.tensor([3.0, 4.0])}])
    assert {name: value.tolist() for name, value in found.items()} == {"a": [2.0, 4.0], "b": [5.0, 6.0]}
