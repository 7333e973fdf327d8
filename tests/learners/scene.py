"""What a loop hands to learners at the end of a task, and plain passes and descent for spellings of their losses."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.func import functional_call

from gradcast.core import Batch
from gradcast.replicas.replicas import Replicas, Statistics
from gradcast.training.step import Step


@dataclass(frozen=True)
class Seen:
    """The batches of a task, as a loop would hand them to a learner."""

    task: int
    seen: list[Batch]

    def batches(self, size: int) -> Iterator[Batch]:
        x, y = torch.cat([each.x for each in self.seen], 1), torch.cat([each.y for each in self.seen], 1)
        for start in range(0, y.shape[1], size):
            yield Batch(x[:, start : start + size], y[:, start : start + size], self.task)


def train(step: Step, tasks: Iterable[list[Batch]], replicas: slice) -> None:
    """Task after task, on the batches of these replicas."""
    for task, batches in enumerate(tasks):
        seen = [replace(each, x=each.x[replicas], y=each.y[replicas]) for each in batches]
        step.learner.task_begins(step.model, Seen(task, seen))
        for data in seen:
            step(data)
        step.learner.task_ends(step.model, Seen(task, seen))


def descend(weights: Sequence[Tensor], loss: Tensor, lr: float) -> Tensor:
    """One plain step; all weights in one row."""
    gradients = torch.autograd.grad(loss, list(weights), allow_unused=True)
    with torch.no_grad():
        for weight, gradient in zip(weights, gradients, strict=True):
            if gradient is not None:
                weight -= lr * gradient
    return torch.cat([weight.detach().flatten() for weight in weights])


def outputs(
    module: nn.Module, x: Tensor, statistics: Statistics, weights: Mapping[str, Tensor] | None = None
) -> Tensor:
    """What an ordinary network says of a batch, with its own weights or with these.

    ``update``: training mode. ``separate``: training mode, and running statistics are put back. ``frozen``: evaluation
    mode.
    """
    kept = {} if statistics == "update" else {name: buffer.clone() for name, buffer in module.named_buffers()}
    module.train(statistics != "frozen")
    return functional_call(module, kept | dict(weights or {}), (x,))  # type: ignore[no-any-return]


def same_state(model: Replicas, module: nn.Module) -> None:
    """Weights of the first replica, and what BatchNorm counted and averaged, are those of an ordinary network."""
    expected = dict(module.named_parameters()) | dict(module.named_buffers())
    found = model.parameters(model.theta) | model.buffers
    assert found.keys() == expected.keys()
    assert len([name for name in found if name.endswith("num_batches_tracked")]) > 0
    for name, value in found.items():
        torch.testing.assert_close(value[0], expected[name].detach(), rtol=1e-9, atol=1e-12)
