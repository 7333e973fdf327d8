"""Passes one after another through ordinary modules: the independent spelling of what this folder tests."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gradcast.randomness import seeded, torch_generator
from gradcast.replicas.passes.trial import Outputs

REPLICAS, PASSES, IMAGES = 2, 3, 4


@dataclass(frozen=True)
class Found:
    """What passes give."""

    y: Tensor  # [R * K * M, ...]
    dx: Tensor  # [R * K * M, ...]
    gradients: dict[str, Tensor]  # [R, K, ...]
    buffers: dict[str, Tensor]  # [R, ...]


class Scaled(nn.Module):
    """Uses a weight outside of any layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.scale = nn.Parameter(torch.ones(6))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x * self.scale)
        return y


def numbers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Random numbers of their own stream."""
    return torch.randn(*shape, generator=torch_generator(seed, "numbers"), dtype=dtype)


def single(*shape: int, seed: int = 0) -> Tensor:
    """The same in the kernels' type."""
    return numbers(*shape, seed=seed, dtype=torch.float32)


def images(*shape: int) -> Tensor:
    """Images of all passes."""
    return numbers(REPLICAS * PASSES * IMAGES, *shape)


def modules(build: Callable[[], nn.Module]) -> list[nn.Module]:
    """One module a replica; no weight and no running statistic is zero or one."""
    found = []
    for replica in range(REPLICAS):
        with seeded(replica, "modules"):
            module = build().double()
            for name, value in module.state_dict().items():
                if value.is_floating_point() and not name.endswith("shift"):
                    value.add_(torch.rand_like(value), alpha=0.3)
        found.append(module)
    return found


def one_by_one(alone: Sequence[nn.Module], x: Tensor) -> Found:
    """Every pass by itself through a copy of its replica's module."""
    alone = [copy.deepcopy(module) for module in alone]
    x = x.clone().requires_grad_()
    owners = [module for module in alone for _ in range(PASSES)]
    outputs = [module(batch) for module, batch in zip(owners, x.chunk(len(owners)), strict=True)]
    y = torch.cat(outputs)
    slopes = numbers(*y.shape, seed=1)
    each = [
        torch.autograd.grad(z, list(module.parameters()), slope, retain_graph=True)
        for module, z, slope in zip(owners, outputs, slopes.chunk(len(owners)), strict=True)
    ]
    names = [name for name, _ in alone[0].named_parameters()]
    gradients = {
        name: torch.stack([row[index] for row in each]).unflatten(0, (REPLICAS, PASSES))
        for index, name in enumerate(names)
    }
    return Found(y.detach(), torch.autograd.grad(y, x, slopes)[0], gradients, _stacked_buffers(alone))


def together(outputs: Outputs, alone: Sequence[nn.Module], x: Tensor) -> Found:
    """All passes in one call."""
    x = x.clone().requires_grad_()
    stacked = [torch.stack(rows) for rows in zip(*(module.parameters() for module in alone), strict=True)]
    weights = {
        name: weight.detach().unsqueeze(1).expand(-1, PASSES, *weight.shape[1:]).requires_grad_()
        for (name, _), weight in zip(alone[0].named_parameters(), stacked, strict=True)
    }
    buffers = _stacked_buffers(alone)
    y = outputs(alone[0], weights, buffers, x)
    dx, *gradients = torch.autograd.grad(y, [x, *weights.values()], numbers(*y.shape, seed=1))
    return Found(y.detach(), dx, dict(zip(weights, gradients, strict=True)), buffers)


def _stacked_buffers(alone: Sequence[nn.Module]) -> dict[str, Tensor]:
    columns = zip(*(module.named_buffers() for module in alone), strict=True)
    return {column[0][0]: torch.stack([buffer for _, buffer in column]) for column in columns}
