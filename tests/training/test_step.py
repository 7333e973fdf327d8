"""The order of a step and what it promises."""

import copy
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, kl_div, normalize, one_hot

from gradcast.core import Batch, Feeds, Labelled, Learner, Metrics, Replay, Signal, Terms, Unlabelled
from gradcast.gradients.gradient_learner import GradientLearner
from gradcast.gradients.sgd import Sgd
from gradcast.learners.dcl import dcl
from gradcast.learners.finetune import Finetune
from gradcast.learners.gem import Gem
from gradcast.memories.ring import TaskMemory
from gradcast.networks import SlimResNet18
from gradcast.randomness import numpy_generator, seeded, torch_generator
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.signals.forward_only import ForwardOnly
from gradcast.signals.mean_teacher import MeanTeacher
from gradcast.signals.meta_fitness import MetaFitness
from gradcast.signals.meta_gradient import MetaGradient
from gradcast.signals.mixtures import Shares
from gradcast.signals.noise import Noise
from gradcast.signals.policy import Policy
from gradcast.signals.predicted import Predicted
from gradcast.signals.pseudo import Attached
from gradcast.signals.pseudo_labels import PseudoLabels
from gradcast.training.capture import Captured
from gradcast.training.schedule_tables import StepsSpec
from gradcast.training.step import Step
from tests.helpers import CPU, batch, flat, needs_gpu, replicas
from tests.replicas.test_replicas import loss_gradient, own_module

LEARNERS = ["finetune", "gem", "dcl"]


def learner(name: str) -> Learner:
    match name:
        case "finetune":
            return Finetune()
        case "gem":
            return Gem(TaskMemory(3, 8), margin=0.5)
        case _:
            return dcl(TaskMemory(3, 8), interval=4, margin=0.5)


def predicting(count: int, **options: object) -> Predicted:
    torch.manual_seed(0)
    options = {"alpha": 0.3, "loss_scale": 5.0, **options}
    return Predicted(GradientLearner(3, (8, 5), replicas=(count,), **options).double())  # type: ignore[arg-type]


def signal(count: int, **options: object) -> list[Attached]:
    return [Attached(predicting(count, **options))]


def train(model: Replicas, step: Step, used: list[list[bool]] | None = None, steps: int = 15) -> Tensor:
    for number in range(steps):
        flags = None if used is None else used[number % len(used)]
        pool = batch(model, size=3, seed=1000 + number).x
        unlabelled = () if flags is None or not any(flags) else (Unlabelled(pool, torch.tensor(flags)),)
        step(batch(model, task=number // 5, seed=number), unlabelled)
    return model.theta


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("policy", [Policy(), Policy(update="sequential"), Policy(project=False)])
def test_no_unlabelled_batch_means_the_learners_own_weights_bit_for_bit(name: str, policy: Policy) -> None:
    plain, with_signal = replicas(2, dtype=torch.float64), replicas(2, dtype=torch.float64)
    base = train(plain, Step(plain, learner(name), 0.1))
    found = train(with_signal, Step(with_signal, learner(name), 0.1, signal(2), policy))
    assert torch.equal(base, found)


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("policy", [Policy(), Policy(update="sequential"), Policy(project=False)])
def test_alpha_zero_means_the_learners_own_weights_bit_for_bit(name: str, policy: Policy) -> None:
    plain, with_signal = replicas(2), replicas(2)
    base = train(plain, Step(plain, learner(name), 0.1))
    found = train(
        with_signal, Step(with_signal, learner(name), 0.1, signal(2, alpha=0.0), policy), [[True, False], [True, True]]
    )
    assert torch.equal(base, found)


def test_joint_adds_before_one_step() -> None:
    model = replicas(2)
    own = predicting(2)
    start, data, pool = model.theta.clone(), batch(model), batch(model, size=3, seed=9)
    Step(model, Finetune(), 0.1, [Attached(own)])(data, (Unlabelled(pool.x, torch.tensor([True, True])),))
    other = replicas(2)
    labelled = torch.stack([loss_gradient(own_module(other, r), data.x[r], data.y[r]) for r in range(2)])
    pseudo = own.gradient(other, Unlabelled(pool.x, torch.tensor([True, True])), 0)[0].flat  # h after its step
    torch.testing.assert_close(model.theta, start - 0.1 * (labelled + pseudo), rtol=1e-12, atol=1e-14)


def test_sequential_steps_twice_with_the_updated_models_logits() -> None:
    model, base = replicas(2), replicas(2)
    own = predicting(2)
    data, pool = batch(model), Unlabelled(batch(model, size=3, seed=9).x, torch.tensor([True, True]))
    Step(model, Finetune(), 0.1, [Attached(own)], Policy(update="sequential"))(data, (pool,))
    Step(base, Finetune(), 0.1)(data)
    after_first = base.theta.clone()
    pseudo = own.gradient(base, pool, 0)[0]
    torch.testing.assert_close(model.theta, after_first - 0.1 * pseudo.flat, rtol=1e-12, atol=1e-14)
    joint = replicas(2)
    Step(joint, Finetune(), 0.1, signal(2))(data, (pool,))
    assert not torch.allclose(model.theta, joint.theta, rtol=1e-9)


def past_task(model: Replicas) -> Gem:
    gem = Gem(TaskMemory(2, 8), margin=0.5)
    gem.memory.write(batch(model, task=0, size=8, seed=50))
    return gem


@pytest.mark.parametrize("project", [True, False])
def test_projection_of_the_whole_or_of_the_labelled_part(project: bool) -> None:
    data, pool = (
        batch(replicas(2), task=1),
        Unlabelled(batch(replicas(2), size=3, seed=9).x, torch.tensor([True, True])),
    )
    model, other = replicas(2), replicas(2)
    own = predicting(2, alpha=5.0)
    Step(model, past_task(model), 0.1, [Attached(own)], Policy(project=project))(data, (pool,))
    gem = past_task(other)
    gem.prepare(other, data)
    gem.begin(other, data)
    _, labelled, _, _ = Step(other, gem, 0.1)._labelled(data, [])
    pseudo = own.gradient(other, pool, 1)[0]
    expected = gem.constrain(labelled + pseudo)[0] if project else gem.constrain(labelled)[0] + pseudo.flat
    torch.testing.assert_close(model.theta, other.theta - 0.1 * expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("norm", ["none", "batch"])
def test_replicas_together_equal_replicas_one_by_one(name: str, norm: str) -> None:
    used = [[True, False, False], [False, False, False], [True, True, False], [False, True, True]]
    together = replicas(3, norm=norm)  # type: ignore[arg-type]
    stacked = predicting(3)
    found = train(together, Step(together, learner(name), 0.1, [Attached(stacked)]), used, steps=20 // 4 * 3)
    initial = [p.clone() for p in predicting(3).learner.parameters()]
    for replica in range(3):
        model = replicas(1, norm=norm, first_seed=replica)  # type: ignore[arg-type]
        own = predicting(1)
        for weight, all_weights in zip(own.learner.parameters(), initial, strict=True):
            weight.data = all_weights.data[replica : replica + 1].clone()
        step = Step(model, learner(name), 0.1, [Attached(own)])
        for number in range(15):
            data, pool = batch(together, task=number // 5, seed=number), batch(together, size=3, seed=1000 + number)
            one = type(data)(data.x[replica : replica + 1], data.y[replica : replica + 1], data.task)
            flag = used[number % 4][replica]
            step(one, (Unlabelled(pool.x[replica : replica + 1], torch.tensor([True])),) if flag else ())
        torch.testing.assert_close(found[replica : replica + 1], model.theta, rtol=1e-9, atol=1e-12)


def resnets(seeds: range) -> Replicas:
    modules: list[nn.Module] = []
    for seed in seeds:
        with seeded(seed, "model"):
            modules.append(SlimResNet18(2, 9))
    return Replicas(modules, Heads.even(3, 3, masked=True), device=CPU, dtype=torch.float64)


@pytest.mark.parametrize("name", LEARNERS)
def test_residual_networks_together_equal_one_by_one(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(12, 3, 8, 3, 16, 16, generator=generator, dtype=torch.float64)
    labels = torch.randint(3, (12, 3, 8), generator=generator)

    def trained(seeds: range) -> tuple[Tensor, int]:
        model, own = resnets(seeds), slice(seeds.start, seeds.stop)
        step = Step(model, learner(name), 0.01)
        projected = [step(Batch(images[i, own], labels[i, own], i // 4))["projected"].sum() for i in range(12)]
        statistics = [b.flatten(1) for key, b in model.buffers.items() if "running" in key]
        return torch.cat([model.theta, *statistics], dim=1), int(torch.stack(projected).sum())

    together, projected = trained(range(3))
    alone = [trained(range(seed, seed + 1)) for seed in range(3)]
    torch.testing.assert_close(together, torch.cat([found for found, _ in alone]), rtol=1e-6, atol=1e-9)
    assert projected == sum(count for _, count in alone)
    assert (projected > 0) == (name != "finetune")


def test_metrics() -> None:
    model = replicas(2)
    step = Step(model, Finetune(), 0.1, signal(2))
    metrics = step(batch(model), (Unlabelled(batch(model, size=3, seed=9).x, torch.tensor([True, False])),))
    assert metrics["unlabelled"].tolist() == [3, 0]
    assert metrics["pseudo_ratio"][0] > 0
    assert metrics["pseudo_ratio"][1].isnan()
    assert "pseudo_ratio" not in step(batch(model))
    assert set(Step(model, Finetune(), 0.1)(batch(model))) == {"loss", "projected", "finite"}


def test_the_policy_decides_about_batchnorm() -> None:
    for statistics, moves in (("update", True), ("separate", False)):
        model, base = replicas(2, norm="batch"), replicas(2, norm="batch")
        pool = Unlabelled(batch(model, size=3, seed=9).x, torch.tensor([True, True]))
        Step(model, Finetune(), 0.1, signal(2), Policy(batchnorm=statistics))(batch(model), (pool,))  # type: ignore[arg-type]
        Step(base, Finetune(), 0.1)(batch(base))
        name = "layers.1.running_mean"
        assert torch.equal(model.buffers[name], base.buffers[name]) != moves


def test_a_teacher_that_diverges_is_noticed() -> None:
    model, teacher = replicas(2), replicas(2, first_seed=5)
    step = Step(model, Finetune(), 0.1, [Attached(PseudoLabels(teacher, soft=False))])
    assert step(batch(model))["finite"].all()
    teacher.theta[1] = torch.nan
    assert step(batch(model))["finite"].tolist() == [True, False]


COURSE = StepsSpec(name="steps", steps=100, warm_up=3, milestones=[4], ramp=5, test_every=100)
SEEDS = [0, 1]
BOTH = torch.tensor([True, True])


def small_model(first_seed: int = 0) -> Replicas:
    """BatchNorm, three classes, six numbers an image."""
    return replicas(2, norm="batch", first_seed=first_seed)


def images(model: Replicas, size: int = 4, *, views: int = 1, seed: int = 0) -> tuple[Batch, Unlabelled]:
    """A labelled batch and as many other images."""
    pool = batch(model, size=size * views, seed=100 + seed).x
    return batch(model, size=size, seed=seed), Unlabelled(pool, BOTH, views)


def learned(alpha: float = 0.05) -> GradientLearner:
    with seeded(0, "h"):
        return GradientLearner(3, (8, 5), alpha=alpha, loss_scale=2.0, replicas=(2,)).double()


class Course:
    """Steps by a schedule whose learning rate is 0.2 where it is whole."""

    def __init__(self, model: Replicas, signals: list[Signal], sgd: Sgd) -> None:
        self.step, self.number = Step(model, Finetune(), 0.0, [Attached(own) for own in signals], sgd=sgd), 0

    def __call__(self, labelled: Batch, unlabelled: Feeds = ()) -> Metrics:
        self.number += 1
        rates = torch.full((2,), 0.2 * COURSE.rate(self.number), dtype=torch.float64)
        self.step.at(None, rates, COURSE.weight(self.number))
        return self.step(labelled, unlabelled)


def course(model: Replicas, *, mixed: bool = True, predicted: bool = False) -> Course:
    labels = MetaGradient(shares=Shares(0.7, SEEDS) if mixed else None)
    signals: list[Signal] = [labels, *([MetaFitness(learned())] if predicted else [])]
    return Course(model, signals, Sgd(momentum=0.9, decay=1e-2))


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
    step, rates, weights = course(model, mixed=mixed), [1 / 15, 2 / 15, 0.2, 0.2, 0.02], [0.2, 0.4, 0.6, 0.8, 1.0]
    for number, (lr, weight) in enumerate(zip(rates, weights, strict=True)):
        labelled, unlabelled = images(model, seed=number)
        told = step(labelled, (unlabelled,))
        for replica, own in enumerate(plain):
            given = labelled.x[replica], labelled.y[replica], unlabelled.x[replica]
            first, second = own.step(*given, lr=lr, weight=weight, mixed=mixed)
            assert float(told["loss"][replica]) == pytest.approx(first, rel=1e-9)
            assert float(told["signal_loss"][replica]) == pytest.approx(second, rel=1e-9)
            torch.testing.assert_close(model.theta[replica], flat(own.module), rtol=1e-9, atol=1e-11)
            statistics = dict(own.module.named_buffers())["layers.1.running_var"]
            torch.testing.assert_close(model.buffers["layers.1.running_var"][replica], statistics)


def test_predictions_join_the_same_training_pass() -> None:
    """Two steps that differ by h alone differ by ``lr * sum_j (dz_j/dtheta)' gbar_j``, and in no statistics."""
    with_h, without = small_model(), small_model()
    start, (labelled, unlabelled) = with_h.theta.clone(), images(with_h)
    step = course(with_h, predicted=True)
    step(labelled, (unlabelled,))
    course(without)(labelled, (unlabelled,))
    h = step.step.signals[1].signal
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
        torch.testing.assert_close((without.theta - with_h.theta)[replica], 0.2 * COURSE.rate(1) * pulled)
    assert all(torch.equal(with_h.buffers[name], without.buffers[name]) for name in with_h.buffers)


def test_the_truth_of_unlabelled_images_judges_their_labels_and_nothing_else() -> None:
    """Whatever it says, every signal learns the same; labels of the first signal that has any are judged."""
    weights, told = [], []
    for shift in (0, 1):
        model = small_model()
        teacher, labels = PseudoLabels(small_model(5), soft=True), MetaGradient()
        step, (labelled, unlabelled) = Course(model, [labels, teacher], Sgd()), images(model)
        truth = torch.tensor([[0, 1, 2, 0], [2, 1, 1, 1]])
        told.append(step(labelled, (replace(unlabelled, truth=(truth + shift) % 3),))["pseudo_accuracy"])
        assert labels.label is not None
        right = (labels.label.argmax(-1) == (truth + shift) % 3).double().mean(1)
        assert torch.equal(told[-1], right)
        assert teacher.label is not None
        assert teacher.label.shape == labels.label.shape
        weights.append(model.theta)
    assert torch.equal(*weights)
    assert not torch.equal(*told)
    assert "pseudo_accuracy" not in step(labelled, (unlabelled,))


def test_without_signals_it_is_sgd_on_labels() -> None:
    model = small_model()
    modules = [own_module(model, replica).train() for replica in range(2)]
    step = Course(model, [], Sgd(momentum=0.9, decay=1e-2))
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.0, momentum=0.9, weight_decay=1e-2) for m in modules]
    for number in range(4):
        labelled, _ = images(model, seed=number)
        told = step(labelled)
        for replica, (module, optimizer) in enumerate(zip(modules, optimizers, strict=True)):
            optimizer.param_groups[0]["lr"] = 0.2 * COURSE.rate(number + 1)
            optimizer.zero_grad()
            loss = cross_entropy(module(labelled.x[replica]), labelled.y[replica])
            loss.backward()
            optimizer.step()
            torch.testing.assert_close(model.theta[replica], flat(module), rtol=1e-9, atol=1e-12)
            assert float(told["loss"][replica]) == pytest.approx(float(loss.detach()))
    assert set(told) == {"loss", "projected", "finite"}


def test_a_step_that_is_not_finite_says_so_and_is_undone_where_that_is_asked_for() -> None:
    model = small_model()
    own, (labelled, unlabelled) = course(model, predicted=True), images(model)
    own.step.skips = True
    own(labelled, (unlabelled,))
    assert own.step.sgd is not None
    before, velocity = model.theta.clone(), own.step.sgd.velocity[0].clone()
    x = labelled.x.clone()
    x[1] = float("inf")
    told = own(Batch(x, labelled.y, 0), (unlabelled,))
    assert told["finite"].tolist() == [True, False]
    assert told["skipped"].tolist() == [0.0, 1.0]
    assert torch.equal(model.theta[1], before[1])
    assert torch.equal(own.step.sgd.velocity[0][1], velocity[1])
    assert not torch.equal(model.theta[0], before[0])
    own.step.skips = False
    assert own(Batch(x, labelled.y, 0), (unlabelled,))["finite"].tolist() == [True, False]


def test_the_ramp_weighs_ramped_signals_alone() -> None:
    """A soft label counts by the ramp, noise does not; the first term is the labelled gradient's."""
    moves = []
    for ramp in (0.0, 0.25, 1.0):
        for ramped in (True, False):
            model = replicas(2)
            noise = Noise(3, [torch_generator(seed, "directions") for seed in range(2)])
            signal = PseudoLabels(replicas(2, first_seed=5), soft=True) if ramped else noise
            step, (labelled, unlabelled) = Step(model, Finetune(), 0.1, [Attached(signal)]), images(model)
            start = model.theta.clone()
            step.at(None, 0.1, ramp)
            step(labelled, (unlabelled,))
            moves.append(start - model.theta)
    none, quarter, whole = moves[0::2]
    torch.testing.assert_close(quarter - none, 0.25 * (whole - none))
    assert torch.equal(moves[1], moves[5])
    assert not torch.allclose(none, whole)


def test_under_mix_up_a_replica_without_unlabelled_images_trains_as_alone() -> None:
    """Its mixtures are its labelled images, and h learns from its own training pass."""
    labelled, unlabelled = images(small_model())
    used = replace(unlabelled, used=torch.tensor([True, False]), drawing=(0,))
    mixed, alone = small_model(), small_model()
    hs = [learned(), learned()]
    for model, h, shown in ((mixed, hs[0], (used,)), (alone, hs[1], ())):
        shares = MetaGradient(shares=Shares(0.7, SEEDS))
        told = Step(model, Finetune(), 0.1, [Attached(shares), Attached(Predicted(h))])(labelled, shown)
        assert told["finite"].all()
    torch.testing.assert_close(mixed.theta[1], alone.theta[1], rtol=1e-10, atol=1e-12)
    for now, then in zip(hs[0].weights, hs[1].weights, strict=True):
        torch.testing.assert_close(now[1], then[1], rtol=1e-8, atol=1e-12)


def test_signals_see_the_labelled_images_themselves_where_mixtures_take_their_place() -> None:
    model = small_model()
    (labelled, unlabelled), h, same = images(model), learned(), learned()
    made = small_model().forward(labelled.x, 0, statistics="frozen")
    shares = MetaGradient(shares=Shares(0.7, SEEDS))
    told = Step(model, Finetune(), 0.1, [Attached(shares), Attached(Predicted(h))])(labelled, (unlabelled,))
    dz = (made.z.softmax(-1) - one_hot(labelled.y, 3)) / 4
    seen = same.learn(made.z, dz, labelled.y, eta=0.1)
    torch.testing.assert_close(told["tau"], seen.tau)
    torch.testing.assert_close(h.weights[0], same.weights[0])


def test_signals_on_one_feed_share_one_training_pass() -> None:
    """Running statistics move as for one signal, and gradients add up."""
    found: dict[tuple[bool, bool], Tensor] = {}
    for soft, noisy in ((True, False), (False, True), (True, True), (False, False)):
        model = small_model()
        signals: list[Attached] = []
        if soft:
            signals.append(Attached(PseudoLabels(small_model(5), soft=True), 0, "soft"))
        if noisy:
            generators = [torch_generator(seed, "directions") for seed in range(2)]
            signals.append(Attached(Noise(3, generators), 0, "noise"))
        labelled, unlabelled = images(model)
        Step(model, Finetune(), 0.1, signals)(labelled, (unlabelled,) if signals else ())
        found[soft, noisy] = model.theta
        counted = model.buffers["layers.1.num_batches_tracked"].tolist()
        assert counted == ([2, 2] if signals else [1, 1])
    plain = found[False, False]
    torch.testing.assert_close(found[True, True] - plain, found[True, False] + found[False, True] - 2 * plain)


def test_signals_on_different_feeds_have_passes_of_their_own_and_all_images_count() -> None:
    model = small_model()
    labelled, first = images(model)
    second = Unlabelled(batch(model, size=12, seed=7).x, BOTH, 2)
    signals = [
        Attached(PseudoLabels(small_model(5), soft=True), 0, "soft"),
        Attached(PseudoLabels(small_model(6), soft=True), 1, "other"),
        Attached(ForwardOnly(), 1, "forward-only"),
    ]
    told = Step(model, Finetune(), 0.1, signals)(labelled, (first, second))
    assert told["unlabelled"].tolist() == [4 + 6] * 2
    assert model.buffers["layers.1.num_batches_tracked"].tolist() == [4, 4]  # forward-only has its own
    assert {"label_accuracy", "other_label_accuracy"} <= told.keys()
    state = Step(model, Finetune(), 0.1, signals).state()
    assert {"signal.teacher.layers.0.weight", "signal.other_teacher.layers.0.weight"} <= state.keys()


class Told(Learner):
    """Says of its terms what a test wants."""

    wants_features: ClassVar[bool] = True

    def __init__(self, terms: Terms | None = None, replayed: Replay | None = None) -> None:
        self.told, self.replayed = terms, replayed
        self.seen: Labelled | None = None

    def replay(self) -> Replay | None:
        return self.replayed

    def terms(self, model: Replicas, labelled: Labelled) -> Terms | None:
        self.seen = labelled
        return self.told


def test_terms_at_outputs_and_features_are_pulled_with_the_loss() -> None:
    """The gradient is autograd's of loss plus inner products with outputs and features, replayed images included."""
    heads, generator = Heads.even(3, 2, masked=True), torch.Generator().manual_seed(3)

    def make() -> Replicas:
        return replicas(2, sizes=(6, 5, 3), heads=heads)

    own, old = batch(make(), task=1, seed=1), batch(make(), size=2, seed=2)
    replay = Replay(old.x, old.y, torch.zeros_like(old.y))
    outputs = torch.randn(2, 6, 6, dtype=torch.float64, generator=generator)
    features = torch.randn(2, 6, 5, dtype=torch.float64, generator=generator)
    model, start = make(), make()
    learner = Told(Terms(outputs=outputs, features=features, metrics={"mine": torch.ones(2)}), replay)
    told = Step(model, learner, 0.1)(own)
    assert told["mine"].tolist() == [1, 1]
    assert learner.seen is not None
    assert learner.seen.features is not None
    for replica in range(2):
        module = own_module(start, replica)
        x = torch.cat([own.x[replica], old.x[replica]])
        hidden = next(iter(module.children()))[:-1](x)
        said = next(iter(module.children()))[-1](hidden)
        torch.testing.assert_close(learner.seen.outputs[replica], said.detach())
        torch.testing.assert_close(learner.seen.features[replica], hidden.detach())
        z = torch.cat([said[:4, 3:], said[4:, :3]])
        loss = cross_entropy(z, torch.cat([own.y[replica], old.y[replica]]))
        whole = loss + (said * outputs[replica]).sum() + (hidden * features[replica]).sum()
        gradients = torch.autograd.grad(whole, list(module.parameters()))
        pulled = torch.cat([gradient.flatten() for gradient in gradients])
        torch.testing.assert_close((start.theta - model.theta)[replica], 0.1 * pulled)


def test_a_learner_without_terms_is_told_features_all_the_same() -> None:
    model, learner = replicas(2), Told()
    plain = replicas(2)
    Step(model, learner, 0.1)(batch(model))
    Step(plain, Finetune(), 0.1)(batch(plain))
    torch.testing.assert_close(model.theta, plain.theta)
    assert learner.seen is not None
    assert learner.seen.features is not None
    assert learner.seen.features.shape == (2, 4, 5)


@needs_gpu
@pytest.mark.parametrize("method", ["supervised", "mg", "mean-teacher"])
def test_graphs_train_as_steps_do(method: str) -> None:
    def network() -> Replicas:
        modules: list[nn.Module] = []
        for seed in SEEDS:
            with seeded(seed, "model"):
                modules.append(SlimResNet18(2, 3))
        return Replicas(modules, Heads.even(3), device=torch.device("cuda"), dtype=torch.float64)

    def trained(*, graphs: bool) -> tuple[Tensor, Metrics]:
        model, signals, views = network(), list[Signal](), 1
        if method == "mg":
            signals = [MetaGradient(shares=Shares(1.0, SEEDS)), MetaFitness(learned().to("cuda"))]
        if method == "mean-teacher":
            signals, views = [MeanTeacher(network(), model)], 2
        short = StepsSpec(name="steps", steps=100, warm_up=4, milestones=[8], test_every=100)
        step = Step(model, Finetune(), 0.0, [Attached(own) for own in signals], sgd=Sgd(momentum=0.9))
        advance, drawn = Captured(step) if graphs else step, np.random.default_rng(0)
        used = torch.tensor([True, True]).cuda()
        for number in range(1, 13):
            step.at(None, torch.full((2,), 0.001 * short.rate(number)).double().cuda(), short.weight(number))
            x = torch.from_numpy(drawn.random((2, 6 + 6 * views, 3, 16, 16))).cuda()
            y, truth = (torch.from_numpy(drawn.integers(3, size=(2, 6))).cuda() for _ in range(2))
            unlabelled = (Unlabelled(x[:, 6:], used, views, truth=truth),) if signals else ()
            told = advance(Batch(x[:, :6], y, 0), unlabelled)
        return step.networks()[-1].theta, told

    (found, told), (expected, plain) = trained(graphs=True), trained(graphs=False)
    torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-10)
    assert told.keys() == plain.keys()
    assert ("pseudo_accuracy" in told) == (method != "supervised")
    for name in ("loss", *({"pseudo_accuracy"} & told.keys())):
        torch.testing.assert_close(told[name], plain[name].double(), rtol=1e-7, atol=1e-10)
