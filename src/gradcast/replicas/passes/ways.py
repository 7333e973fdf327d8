"""The ways that are in use: a network's own is chosen when its first images come, and kept."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gradcast.cluster.ranks import Ranks
from gradcast.errors import GradcastError
from gradcast.networks.featured import Featured
from gradcast.replicas.passes import folded, one_by_one
from gradcast.replicas.passes.choice import called, choose, only_linear
from gradcast.replicas.passes.divided import divided
from gradcast.replicas.passes.trial import Outputs


class Ways:
    """How the passes of replicas are computed, to the outputs of their network and to its features.

    ``dtype`` and ``inner`` are the types of weights and of the arithmetic between images and logits; ``whole`` says
    that all weights are trained.
    """

    def __init__(self, ranks: Ranks | None, dtype: torch.dtype, inner: torch.dtype, *, whole: bool) -> None:
        self.ranks, self.mixed, self.whole = ranks, inner != dtype, whole
        self.chosen: dict[nn.Module, Outputs] = {}  # the network, and the network with its features
        self.linear: set[nn.Module] = set()  # only linear layers have weights, and the device is the host

    @property
    def capturable(self) -> bool:
        """Whether none of them keeps a step from becoming a CUDA graph."""
        return self.ranks is None and one_by_one.outputs not in self.chosen.values()

    def of(self, module: nn.Module, images: Float[Tensor, "n *shape"]) -> Outputs:
        """The network's way, after a trial where there was none; every part of it stays in its mode."""
        if module not in self.chosen:
            modes = [(part, part.training) for part in module.modules()]  # a network's may not be its wrapper's
            self.chosen[module] = self._choose(module, images)
            for part, training in modes:
                part.training = training
        return self.chosen[module]

    def _choose(self, module: nn.Module, images: Tensor) -> Outputs:
        way = choose(module, images)
        if self.mixed and way is not folded.outputs:
            raise GradcastError(
                f"dtype = 'bf16' is for networks that can be folded, {called(module)} cannot; set dtype=tf32"
            )
        if self.ranks is not None:
            return divided(way, self.ranks, module, images)
        fits = self.whole and not images.is_cuda and not isinstance(module, Featured) and way is folded.outputs
        if fits and only_linear(module, images):
            self.linear.add(module)
        return way
