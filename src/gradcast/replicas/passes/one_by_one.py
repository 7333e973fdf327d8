"""All passes one after another through the network itself: the slow way that any network takes."""

from itertools import product

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call

from gradcast.replicas.passes.chance import Noise
from gradcast.replicas.passes.folded import Stacked


def outputs(
    module: nn.Module, weights: Stacked, buffers: Stacked, x: Tensor, noise: Noise | None = None
) -> Float[Tensor, "n c"]:
    """As ``folded.outputs``; buffers are views, which the network's layers update in place and in order."""
    replicas, passes = next(iter(weights.values())).shape[:2]
    images = x.contiguous().unflatten(0, (replicas, passes, -1))  # random numbers fill tensors in their own order
    found: list[Tensor] = []
    for replica, index in product(range(replicas), range(passes)):
        own = {name: weight[replica, index] for name, weight in weights.items()}
        state = {name: buffer[replica] for name, buffer in buffers.items()}
        if noise is None:
            found.append(functional_call(module, (own, state), (images[replica, index],)))
        else:
            with noise.alone(replica):
                found.append(functional_call(module, (own, state), (images[replica, index],)))
    return torch.cat(found)
