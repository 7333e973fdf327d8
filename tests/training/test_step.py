"""The order of a step and what it promises."""

import pytest
import torch
from torch import Tensor, nn

from gradcast.core import Batch, Learner, Unlabelled
from gradcast.gradients.gradient_learner import GradientLearner
from gradcast.learners.dcl import dcl
from gradcast.learners.finetune import Finetune
from gradcast.learners.gem import Gem
from gradcast.memories.ring import TaskMemory
from gradcast.networks import SlimResNet18
from gradcast.randomness import seeded
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.signals.policy import Policy
from gradcast.signals.predicted import Predicted
from gradcast.signals.pseudo import Attached
from gradcast.signals.pseudo_labels import PseudoLabels
from gradcast.training.step import Step
from tests.helpers import CPU, batch, replicas
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
    return Replicas(modules, Heads(3, 3, masked=True), device=CPU, dtype=torch.float64)


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
