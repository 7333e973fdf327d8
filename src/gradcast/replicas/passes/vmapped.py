"""All passes of all replicas by ``vmap``: the general way, for networks of any layers."""

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.func import functional_call, vmap

from gradcast.replicas.passes.chance import Noise
from gradcast.replicas.passes.folded import Stacked


def outputs(
    module: nn.Module, weights: Stacked, buffers: Stacked, x: Tensor, noise: Noise | None = None
) -> Float[Tensor, "n c"]:
    """As ``folded.outputs``, each pass with weights and buffers of its own; for networks that draw nothing."""
    replicas, passes = next(iter(weights.values())).shape[:2]
    aside = {name: buffer.repeat_interleave(passes, dim=0) for name, buffer in buffers.items()}

    def call(own: dict[str, Tensor], state: dict[str, Tensor], images: Tensor) -> Tensor:
        found: Tensor = functional_call(module, (own, state), (images,))
        return found

    every = {name: weight.flatten(0, 1) for name, weight in weights.items()}
    images = x.unflatten(0, (replicas * passes, -1))
    found: Tensor = vmap(call)(every, aside, images)
    if module.training:
        for name, buffer in buffers.items():
            buffer.copy_(_folded(buffer, aside[name].unflatten(0, (replicas, passes)), _momentum(module, name)))
    return found.flatten(0, 1)


def _folded(
    before: Shaped[Tensor, "r *any"], after: Shaped[Tensor, "r k *any"], momentum: float | None
) -> Shaped[Tensor, "r *any"]:
    """Running statistic after k passes in order, from k passes that each started at the present one.

    A pass maps ``s`` to ``(1 - m) s + m b``; from its result and ``s`` comes ``m b``, and the passes compose to a
    weighted sum.
    """
    if not before.is_floating_point():  # num_batches_tracked counts
        return before + (after - before.unsqueeze(1)).sum(1)
    if momentum is None:  # not a running statistic: a constant of the network
        return after[:, -1]
    keep, passes = 1 - momentum, after.shape[1]
    weights = keep ** torch.arange(passes - 1, -1, -1, dtype=before.dtype, device=before.device)
    added = after - keep * before.unsqueeze(1)
    return keep**passes * before + torch.einsum("k,rk...->r...", weights, added)


def _momentum(module: nn.Module, buffer: str) -> float | None:
    owner = module.get_submodule(buffer.rpartition(".")[0])
    momentum = getattr(owner, "momentum", None)
    return momentum if isinstance(momentum, float) else None
