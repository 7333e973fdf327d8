"""Which way a network's passes are computed: folded where a trial shows that it gives what ``vmap`` gives."""

import copy
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gradcast.passes import folded, vmapped

# What a network may throw when its weights have two axes more than it expects.
FAILED = (folded.UnfoldableError, RuntimeError, ValueError, IndexError, TypeError)


@runtime_checkable
class Outputs(Protocol):
    """Outputs of all passes; see ``folded.outputs``."""

    def __call__(
        self,
        module: nn.Module,
        weights: dict[str, Tensor],
        buffers: dict[str, Tensor],
        x: Tensor,
    ) -> Tensor:
        """Buffers are updated in place."""
        ...


def only_linear(module: nn.Module, x: Float[Tensor, "n *shape"]) -> bool:
    """Whether every weight belongs to a linear layer that a pass goes through once; nothing random, no state."""
    weights = {name: p.detach()[None] for name, p in module.named_parameters()}
    random = any(isinstance(layer, nn.modules.dropout._DropoutNd) for layer in module.modules())
    if random or any(True for _ in module.buffers()):
        return False
    try:
        _, seen = folded.linear_layers(module, weights, x[:1])
    except FAILED:
        return False
    used = [name for layer in seen for name in (layer.weight, layer.bias) if name is not None]
    return sorted(used) == sorted(weights)


def choose(module: nn.Module, x: Float[Tensor, "n *shape"]) -> Outputs:
    """Try both in float64 on a few images: two replicas, two passes each, batch and running statistics.

    A network whose ``forward`` mixes images, or uses weights outside of layers that can be folded, shows here.
    """
    trial = copy.deepcopy(module).double()
    for layer in trial.modules():
        if isinstance(layer, nn.modules.dropout._DropoutNd):
            layer.p = 0.0  # its random numbers are the only thing that may differ
    images = torch.randn(12, *x.shape[1:], dtype=torch.float64, device=x.device, generator=_generator(x.device))
    try:
        found = _trial(folded.outputs, trial, images)
    except FAILED:
        return vmapped.outputs
    expected = _trial(vmapped.outputs, trial, images)
    same = all(torch.allclose(a, b, rtol=1e-7, atol=1e-9) for a, b in zip(found, expected, strict=True))
    return folded.outputs if same else vmapped.outputs


def _trial(outputs: Outputs, module: nn.Module, images: Tensor) -> list[Tensor]:
    """Outputs, weight gradients and buffers, with batch statistics and then with running ones."""
    shares = torch.tensor([1.0, 0.9], dtype=torch.float64, device=images.device)  # two replicas that differ
    weights = {
        name: (shares.view(2, 1, *[1] * p.dim()) * p.detach()).expand(2, 2, *p.shape).requires_grad_()
        for name, p in module.named_parameters()
    }
    buffers = {name: torch.stack([b, b]) for name, b in module.named_buffers()}
    found: list[Tensor] = []
    for training in (True, False):
        module.train(training)
        y = outputs(module, weights, buffers, images)
        factors = torch.linspace(-1, 1, y.numel(), dtype=y.dtype, device=y.device).view(y.shape)
        gradients = torch.autograd.grad((y * factors).sum(), list(weights.values()), allow_unused=True)
        found += [y.detach(), *(torch.zeros_like(y[0]) if g is None else g for g in gradients)]
        found += [b.double() for b in buffers.values()]
    return found


def _generator(device: torch.device) -> torch.Generator:
    """The trial takes no number from anybody's stream."""
    return torch.Generator(device).manual_seed(0)
