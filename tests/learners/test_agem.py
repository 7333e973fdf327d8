"""A-GEM against one network at a time, autograd and the published formula."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode

from gradcast.core import Replay
from gradcast.gradients.gradient import Gradient
from gradcast.learners.agem import Agem
from gradcast.memories.by_class import ClassMemory
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.training.step import Step
from tests.helpers import batch, flat, replicas
from tests.replicas.test_replicas import own_module

HEADS = Heads.even(3, tasks=4, masked=True)


def agem(tasks: int = 4, size: int = 6, count: int = 8, seeds: tuple[int, ...] = (0, 1)) -> Agem:
    return Agem(ClassMemory(Heads.even(3, tasks), size, seeds=seeds), count)


def mean_gradient(module: nn.Module, x: Tensor, y: Tensor, tasks: Tensor) -> Tensor:
    outputs = module(x)
    losses = [
        cross_entropy(z[3 * task : 3 * task + 3].unsqueeze(0), label.unsqueeze(0))
        for z, label, task in zip(outputs, y, tasks.tolist(), strict=True)
    ]
    found = torch.autograd.grad(torch.stack(losses).mean(), list(module.parameters()))
    return torch.cat([each.flatten() for each in found])


def classical_step(module: nn.Module, drawn: Replay | None, now: tuple[Tensor, Tensor, Tensor], r: int) -> bool:
    """The memories' pass first: BatchNorm's statistics see it."""
    reference = None if drawn is None else mean_gradient(module, drawn.x[r], drawn.y[r], drawn.tasks[r])
    g = mean_gradient(module, *now)
    opposed = reference is not None and bool(g @ reference < 0)
    if reference is not None and opposed:
        g = g - (g @ reference) / (reference @ reference) * reference
    start = 0
    for parameter in module.parameters():
        parameter.data -= 0.3 * g[start : start + parameter.numel()].view(parameter.shape)
        start += parameter.numel()
    return opposed


def test_a_stream_ends_at_the_weights_of_the_classical_formulation() -> None:
    model, learner = replicas(2, heads=HEADS, norm="batch"), agem()
    alone, step = [own_module(model, r).train() for r in range(2)], Step(model, learner, 0.3)
    projections = 0
    for number in range(24):
        data = batch(model, task=number // 6, seed=number)
        metrics = step(data)
        for r, module in enumerate(alone):
            tasks = torch.full_like(data.y[r], data.task)
            opposed = classical_step(module, learner.drawn, (data.x[r], data.y[r], tasks), r)
            assert opposed == bool(metrics["projected"][r])
            projections += opposed
    assert 5 < projections < 36  # both kinds of steps happened
    for r, module in enumerate(alone):
        torch.testing.assert_close(model.theta[r], flat(module), rtol=1e-9, atol=1e-11)
        for name, buffer in module.named_buffers():
            torch.testing.assert_close(model.buffers[name][r], buffer, rtol=1e-9, atol=1e-11)


def begun(learner: Agem, model: Replicas, tasks: list[int]) -> None:
    """Up to the constraint of the last of these steps."""
    for number, task in enumerate(tasks):
        data = batch(model, task=task, seed=number)
        learner.prepare(model, data)
    learner.begin(model, data)


def test_the_first_task_is_never_constrained() -> None:
    model, learner = replicas(2, heads=HEADS), agem()
    begun(learner, model, [0, 0])
    g = torch.randn_like(model.theta)
    found, projected = learner.constrain(Gradient(g))
    assert found is g
    assert not projected.any()
    assert learner.protected() == []


def test_the_reference_is_of_earlier_tasks_alone_and_is_what_signals_must_not_oppose() -> None:
    model, learner = replicas(2, heads=HEADS), agem()
    begun(learner, model, [0, 0, 1, 1, 2])
    assert learner.drawn is not None
    assert learner.drawn.y.shape == (2, 8)
    assert set(learner.drawn.tasks.flatten().tolist()) == {0, 1}
    (past,) = learner.protected()
    expected = [
        mean_gradient(own_module(model, r), learner.drawn.x[r], learner.drawn.y[r], learner.drawn.tasks[r])
        for r in range(2)
    ]
    torch.testing.assert_close(past.rows().squeeze(1), torch.stack(expected))
    learner.end(model)
    assert learner.protected() == []


@pytest.mark.parametrize(("batchnorm", "moves"), [("update", True), ("separate", False), ("frozen", False)])
def test_what_the_memories_do_to_running_statistics(batchnorm: str, moves: bool) -> None:
    model, learner = replicas(2, heads=HEADS, norm="batch"), agem()
    learner.batchnorm = batchnorm  # type: ignore[assignment]
    begun(learner, model, [0, 0])
    before = {name: buffer.clone() for name, buffer in model.buffers.items() if "running" in name}
    begun(learner, model, [1])
    assert len(before) == 2
    assert all(torch.equal(model.buffers[name], old) != moves for name, old in before.items())


class Unasked(TorchDispatchMode):
    """A device that the host may not ask for a number."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func not in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default)
        return func(*args, **(kwargs or {}))


def test_after_the_preparations_the_host_asks_for_nothing() -> None:
    model, learner = replicas(2, heads=HEADS, norm="batch"), agem()
    begun(learner, model, [0, 1])
    data = batch(model, task=1, seed=9)
    learner.prepare(model, data)
    with Unasked():
        learner.begin(model, data)
        found, projected = learner.constrain(Gradient(torch.ones_like(model.theta)))
    assert found.shape == model.theta.shape
    with pytest.raises(AssertionError), Unasked():
        bool(projected.any())


def test_what_is_drawn_keeps_its_place_while_a_task_lasts() -> None:
    model, learner, places = replicas(2, heads=HEADS), agem(), []
    for number in range(12):
        learner.prepare(model, batch(model, task=number // 4, seed=number))
        places.append(None if learner.drawn is None else learner.drawn.x.data_ptr())
    assert places[:4] == [None] * 4
    assert len(set(places[4:8])) == len(set(places[8:])) == 1


def test_replicas_together_equal_replicas_alone() -> None:
    together, alone = replicas(2, heads=HEADS), replicas(1, heads=HEADS, first_seed=1)
    step, single = Step(together, agem(), 0.1), Step(alone, agem(seeds=(1,)), 0.1)
    for number in range(16):
        data = batch(together, task=number // 4, seed=number)
        step(data)
        single(type(data)(data.x[1:], data.y[1:], data.task))
    torch.testing.assert_close(together.theta[1:], alone.theta)
