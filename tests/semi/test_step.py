"""Steps against the published order of passes, spelled out with plain modules, autograd and torch's SGD."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from gradcast.semi.core import Part
from gradcast.semi.mean_teacher import MeanTeacher
from gradcast.semi.meta_fitness import MetaFitness
from gradcast.semi.meta_labels import MetaLabels
from gradcast.semi.mix_up import MixUp
from gradcast.semi.schedule import Schedule
from gradcast.semi.signalled import Signalled
from gradcast.semi.step import SemiStep
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, kl_div, normalize, one_hot

from gradcast.core import Batch, Metrics, Unlabelled
from gradcast.gradients.sgd import Sgd
from gradcast.networks import SlimResNet18
from gradcast.randomness import numpy_generator, seeded
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.signals.pseudo_labels import PseudoLabels
from gradcast.training.capture import Captured
from tests.helpers import flat, needs_gpu
from tests.replicas.test_replicas import own_module
from tests.semi.scene import images, learner, small_model

COURSE = Schedule(steps=100, lr=0.2, warm_up=3, milestones=(4,), ramp=5)
SEEDS = [0, 1]


def semi(model: Replicas, *, mixed: bool = True, predicted: bool = False) -> SemiStep:
    labels = MetaLabels()
    parts: list[Part] = [labels, *([MetaFitness(learner(model.count))] if predicted else [])]
    mix_up = MixUp(labels, 0.7, SEEDS) if mixed else None
    return SemiStep(model, COURSE, Sgd(momentum=0.9, decay=1e-2), parts, mix_up)


class Published:
    """One replica of meta-gradient as its description says, weights moved back and forth in place."""

    def __init__(self, module: nn.Module, seed: int) -> None:
        self.module, self.mixing = module, numpy_generator(seed, "mix-up")
        self.optimizer = torch.optim.SGD(module.parameters(), lr=0.0, momentum=0.9, weight_decay=1e-2)

    def step(self, x: Tensor, y: Tensor, pool: Tensor, *, lr: float, weight: float, mixed: bool) -> tuple[float, float]:
        net = self.module.eval()
        loss = cross_entropy(net(x), y)
        d = torch.autograd.grad(loss, list(net.parameters()))
        eps = 0.01 / torch.cat([each.flatten() for each in d]).norm()
        label = net(pool).softmax(1).detach()
        ends, kept = [], copy.deepcopy(net.state_dict())
        for sign in (1, -1):
            with torch.no_grad():
                for parameter, direction in zip(net.parameters(), d, strict=True):
                    parameter.add_(sign * eps * direction)
                ends.append(net(pool).softmax(1))
            net.load_state_dict(kept)
        label = (label - lr * (ends[0] - ends[1]) / eps).clamp(min=0)
        label = label / label.sum(1, keepdim=True)
        net.train()
        if mixed:
            a = torch.from_numpy(self.mixing.beta(0.7, 0.7, len(y))).unsqueeze(1)
            y_mix = a * one_hot(y, 3) + (1 - a) * label
            first = kl_div(net(a * x + (1 - a) * pool).log_softmax(1), y_mix, reduction="batchmean")
        else:
            first = cross_entropy(net(x), y)
        second = (net(pool).softmax(1) - label).square().sum(1).mean()
        self.optimizer.param_groups[0]["lr"] = lr
        self.optimizer.zero_grad()
        (first + weight * second).backward()
        self.optimizer.step()
        return float(first.detach()), float(second.detach())


@pytest.mark.parametrize("mixed", [True, False])
def test_steps_of_meta_gradient_are_the_published_ones(mixed: bool) -> None:
    model = small_model()
    plain = [Published(own_module(model, replica), seed) for replica, seed in enumerate(SEEDS)]
    step, rates, weights = semi(model, mixed=mixed), [1 / 15, 2 / 15, 0.2, 0.2, 0.02], [0.2, 0.4, 0.6, 0.8, 1.0]
    for number, (lr, weight) in enumerate(zip(rates, weights, strict=True)):
        batch, unlabelled = images(model, seed=number)
        told = step(batch, unlabelled)
        for replica, own in enumerate(plain):
            given = batch.x[replica], batch.y[replica], unlabelled.x[replica]
            first, second = own.step(*given, lr=lr, weight=weight, mixed=mixed)
            assert float(told["loss"][replica]) == pytest.approx(first, rel=1e-9)
            assert float(told["signal_loss"][replica]) == pytest.approx(second, rel=1e-9)
            torch.testing.assert_close(model.theta[replica], flat(own.module), rtol=1e-9, atol=1e-11)
            statistics = dict(own.module.named_buffers())["layers.1.running_var"]
            torch.testing.assert_close(model.buffers["layers.1.running_var"][replica], statistics)


def test_predictions_join_the_same_training_pass() -> None:
    """Two steps that differ by h alone differ by ``lr * sum_j (dz_j/dtheta)' gbar_j``, and in no statistics."""
    with_h, without = small_model(), small_model()
    start, (batch, unlabelled) = with_h.theta.clone(), images(with_h)
    step = semi(with_h, predicted=True)
    step(batch, unlabelled)
    semi(without)(batch, unlabelled)
    h = step.parts[1]
    assert isinstance(h, MetaFitness)
    for replica in range(2):
        module = own_module(small_model(), replica).train()
        assert torch.equal(flat(module), start[replica])
        z = module(unlabelled.x[replica])
        raw = z.detach()
        for weight in h.learner.weights[:-1]:
            raw = (raw @ weight[replica].mT).relu()
        assert h.learner.length.tau is not None
        gbar = 0.05 * h.learner.length.tau[replica] * normalize(raw @ h.learner.weights[-1][replica].mT, dim=1)
        pulled = torch.cat([g.flatten() for g in torch.autograd.grad(z, list(module.parameters()), gbar.detach())])
        torch.testing.assert_close((without.theta - with_h.theta)[replica], COURSE.rate(1) * pulled)
    assert all(torch.equal(with_h.buffers[name], without.buffers[name]) for name in with_h.buffers)


def test_the_truth_of_unlabelled_images_judges_their_labels_and_nothing_else() -> None:
    """Whatever it says, every part learns the same; labels of the first part that has any are judged."""
    weights, told = [], []
    for shift in (0, 1):
        model = small_model()
        teacher = Signalled(PseudoLabels(small_model(first_seed=5), soft=True), ramped=True)
        labels = MetaLabels()
        step, (batch, unlabelled) = SemiStep(model, COURSE, Sgd(), [labels, teacher]), images(model)
        truth = torch.tensor([[0, 1, 2, 0], [2, 1, 1, 1]])
        told.append(step(batch, replace(unlabelled, truth=(truth + shift) % 3))["pseudo_accuracy"])
        assert labels.label is not None
        right = (labels.label.argmax(-1) == (truth + shift) % 3).double().mean(1)
        assert torch.equal(told[-1], right)
        assert teacher.label is not None
        assert teacher.label.shape == labels.label.shape
        weights.append(model.theta)
    assert torch.equal(*weights)
    assert not torch.equal(*told)
    assert "pseudo_accuracy" not in step(batch, unlabelled)


def test_without_parts_it_is_sgd_on_labels() -> None:
    model = small_model()
    modules = [own_module(model, replica).train() for replica in range(2)]
    step = SemiStep(model, COURSE, Sgd(momentum=0.9, decay=1e-2))
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.0, momentum=0.9, weight_decay=1e-2) for m in modules]
    for number in range(4):
        batch, _ = images(model, seed=number)
        told = step(batch, None)
        for replica, (module, optimizer) in enumerate(zip(modules, optimizers, strict=True)):
            optimizer.param_groups[0]["lr"] = COURSE.rate(number + 1)
            optimizer.zero_grad()
            loss = cross_entropy(module(batch.x[replica]), batch.y[replica])
            loss.backward()
            optimizer.step()
            torch.testing.assert_close(model.theta[replica], flat(module), rtol=1e-9, atol=1e-12)
            assert float(told["loss"][replica]) == pytest.approx(float(loss.detach()))
    assert set(told) == {"loss", "finite"}


def test_a_step_that_is_not_finite_says_so_and_is_undone_where_that_is_asked_for() -> None:
    model = small_model()
    step, (batch, unlabelled) = semi(model, predicted=True), images(model)
    step.skips = True
    step(batch, unlabelled)
    before, velocity = model.theta.clone(), step.sgd.velocity[0].clone()
    x = batch.x.clone()
    x[1] = float("inf")
    told = step(Batch(x, batch.y, 0), unlabelled)
    assert told["finite"].tolist() == [True, False]
    assert told["skipped"].tolist() == [0.0, 1.0]
    assert torch.equal(model.theta[1], before[1])
    assert torch.equal(step.sgd.velocity[0][1], velocity[1])
    assert not torch.equal(model.theta[0], before[0])
    step.skips = False
    assert step(Batch(x, batch.y, 0), unlabelled)["finite"].tolist() == [True, False]


@needs_gpu
@pytest.mark.parametrize("method", ["supervised", "mg", "mean-teacher"])
def test_graphs_train_as_steps_do(method: str) -> None:
    def network() -> Replicas:
        modules: list[nn.Module] = []
        for seed in SEEDS:
            with seeded(seed, "model"):
                modules.append(SlimResNet18(2, 3))
        return Replicas(modules, Heads(3), device=torch.device("cuda"), dtype=torch.float64)

    def trained(*, graphs: bool) -> tuple[Tensor, Metrics]:
        model, parts, mix_up = network(), list[Part](), None
        if method == "mg":
            labels = MetaLabels()
            parts = [labels, MetaFitness(learner(2).to("cuda"))]
            mix_up = MixUp(labels, 1.0, SEEDS)
        if method == "mean-teacher":
            parts = [MeanTeacher(network(), model)]
        step = SemiStep(
            model, Schedule(steps=100, lr=0.001, warm_up=4, milestones=(8,)), Sgd(momentum=0.9), parts, mix_up
        )
        advance, drawn = Captured(step) if graphs else step, np.random.default_rng(0)
        used, views = torch.tensor([True, True]).cuda(), parts[0].views if parts else 1
        for _ in range(12):
            x = torch.from_numpy(drawn.random((2, 6 + 6 * views, 3, 16, 16))).cuda()
            y, truth = (torch.from_numpy(drawn.integers(3, size=(2, 6))).cuda() for _ in range(2))
            unlabelled = Unlabelled(x[:, 6:], used, views, truth=truth) if parts else None
            told = advance(Batch(x[:, :6], y, 0), unlabelled)
        return step.networks()[-1].theta, told

    (found, told), (expected, plain) = trained(graphs=True), trained(graphs=False)
    torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-10)
    assert told.keys() == plain.keys()
    assert ("pseudo_accuracy" in told) == (method != "supervised")
    for name in ("loss", *({"pseudo_accuracy"} & told.keys())):
        torch.testing.assert_close(told[name], plain[name].double(), rtol=1e-7, atol=1e-10)
