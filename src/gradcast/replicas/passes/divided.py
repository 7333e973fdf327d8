"""The images of a pass divided over ranks: each computes its share, and all see all outputs.

Outputs, gradients and running statistics are those of one process, up to rounding. A pass of fewer images than there
are ranks is computed whole by each of them.
"""

import copy

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gradcast.cluster.ranks import Ranks
from gradcast.errors import warn
from gradcast.replicas.passes import folded, vmapped
from gradcast.replicas.passes.chance import Noise
from gradcast.replicas.passes.choice import called
from gradcast.replicas.passes.folded import Stacked
from gradcast.replicas.passes.part import Part
from gradcast.replicas.passes.trial import Outputs


class Divided:
    """One of the ways to compute passes, by all ranks together."""

    def __init__(self, way: Outputs, ranks: Ranks) -> None:
        self.way, self.ranks = way, ranks

    def divides(self, images: int) -> bool:
        """Whether passes of so many images are divided."""
        return images >= self.ranks.size

    def __call__(
        self, module: nn.Module, weights: Stacked, buffers: Stacked, x: Tensor, noise: Noise | None = None
    ) -> Float[Tensor, "n c"]:
        """As ``folded.outputs``; gradients at weights are those of this rank's share: see ``summed``."""
        replicas, passes = next(iter(weights.values())).shape[:2]
        part = Part(self.ranks, replicas, passes, len(x) // (replicas * passes))
        if not self.divides(part.count):
            return self.way(module, dict(weights), dict(buffers), x, noise)
        own = part.own(x)
        if self.way is folded.outputs:
            return part.gathered(folded.outputs(module, weights, buffers, own, noise, part))
        return part.gathered(self.way(module, dict(weights), dict(buffers), own, noise))

    def summed(self, gradient: Float[Tensor, "r *any"], images: int) -> Float[Tensor, "r *any"]:
        """The gradient of passes of so many images, from that of every rank's share."""
        return self.ranks.summed(gradient) if self.divides(images) else gradient

    def evaluated(self, modules: list[nn.Module], x: Float[Tensor, "n *shape"]) -> Float[Tensor, "r n c"]:
        """What modules in evaluation mode say of images that they share."""
        own = x[self.ranks.share(len(x))] if self.divides(len(x)) else x
        found = torch.stack([module(own) for module in modules])
        return self.ranks.gathered(found.movedim(1, 0), len(x)).movedim(0, 1) if len(own) < len(x) else found


def divided(way: Outputs, ranks: Ranks, module: nn.Module, x: Float[Tensor, "n *shape"]) -> Outputs:
    """The way by all ranks together, where the network allows that.

    Folded networks mix images in BatchNorm and nowhere else. Others are divided where images do not mix at all.
    """
    if way is folded.outputs or (way is vmapped.outputs and _independent(module, x)):
        return Divided(way, ranks)
    warn(
        f"the passes of the network {called(module)} cannot be divided: every process computes all of them, "
        "which is correct and no faster than one process"
    )
    return way


@torch.no_grad()
def _independent(module: nn.Module, x: Float[Tensor, "n *shape"]) -> bool:
    """Whether a training pass gives an image the same outputs whoever is beside it, and leaves buffers alone."""
    own = copy.deepcopy(module).train()
    before = copy.deepcopy(dict(own.named_buffers()))
    dtype = next(own.parameters()).dtype
    images = torch.rand(4, *x.shape[1:], generator=torch.Generator().manual_seed(0)).to(x.device, dtype)
    whole, halves = own(images), torch.cat([own(half) for half in images.chunk(2)])
    still = all(torch.equal(buffer, before[name]) for name, buffer in own.named_buffers())
    return still and torch.allclose(whole, halves, rtol=1e-4, atol=1e-5 * float(whole.abs().amax()))
