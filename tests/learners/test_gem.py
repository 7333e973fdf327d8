"""GEM against the classical formulation: one forward and backward per past task, a library's solver."""

import numpy as np
import quadprog
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from gradcast.gradients.gradient import Gradient
from gradcast.learners.gem import Gem
from gradcast.memories.ring import TaskMemory
from gradcast.replicas.heads import Heads
from gradcast.training.step import Step
from tests.helpers import batch, replicas
from tests.replicas.test_replicas import own_module


def gradient(module: nn.Module, x: Tensor, y: Tensor, columns: slice) -> np.ndarray:
    module.zero_grad()
    cross_entropy(module(x)[:, columns], y).backward()
    return np.concatenate([p.grad.numpy().ravel() for p in module.parameters() if p.grad is not None])


def classical_step(
    module: nn.Module, seen: list[tuple[Tensor, Tensor, int]], now: int, margin: float, lr: float
) -> bool:
    """Memory 4 a task and batches of 4: the memory of a task is its last batch."""
    last = {task: (x, y) for x, y, task in seen}
    columns = {task: slice(3 * task, 3 * task + 3) for task in last}
    past = [gradient(module, *last[task], columns[task]) for task in last if task != now]
    g = gradient(module, *last[now], columns[now])
    violated = any(p @ g < 0 for p in past)
    if violated:
        rows = np.stack(past)
        gram = rows @ rows.T
        v = quadprog.solve_qp((gram + gram.T) / 2, -rows @ g, np.eye(len(rows)), np.full(len(rows), margin))[0]
        g = g + v @ rows
    start = 0
    for parameter in module.parameters():
        piece = g[start : start + parameter.numel()].reshape(parameter.shape)
        parameter.data -= lr * torch.from_numpy(piece)
        start += parameter.numel()
    return violated


def test_gem_ends_at_the_weights_of_the_classical_formulation() -> None:
    heads = Heads.even(3, tasks=4, masked=True)
    model = replicas(3, heads=heads, norm="batch")
    alone = [own_module(model, r).train() for r in range(3)]
    seen: list[list[tuple[Tensor, Tensor, int]]] = [[], [], []]
    step = Step(model, Gem(TaskMemory(4, 4), margin=0.5), 0.1)
    projections = 0
    for number in range(24):
        data = batch(model, task=number // 6, seed=number)
        metrics = step(data)
        for replica, module in enumerate(alone):
            seen[replica].append((data.x[replica], data.y[replica], data.task))
            violated = classical_step(module, seen[replica], data.task, 0.5, 0.1)
            assert violated == bool(metrics["projected"][replica])
            projections += violated
    assert 5 < projections < 54  # both kinds of steps happened
    for replica, module in enumerate(alone):
        expected = torch.cat([p.detach().flatten() for p in module.parameters()])
        torch.testing.assert_close(model.theta[replica], expected, rtol=1e-9, atol=1e-11)
        for name, buffer in module.named_buffers():
            torch.testing.assert_close(model.buffers[name][replica], buffer, rtol=1e-9, atol=1e-11)


def test_the_first_task_is_never_constrained() -> None:
    model = replicas(2)
    learner = Gem(TaskMemory(2, 8))
    learner.prepare(model, batch(model))
    learner.begin(model, batch(model))
    g = torch.randn_like(model.theta)
    found, projected = learner.constrain(Gradient(g))
    assert found is g
    assert not projected.any()
