"""Augmentation of images that are on the device already, as the network sees them."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from gradcast.replicas.passes.chance import Noise
from gradcast.streams.augment import Augmentation, changed
from gradcast.streams.scale import Scale


@dataclass(frozen=True)
class Reaugment:
    """Undoes the scale, augments, and scales again; every replica's random numbers are drawn on the device."""

    steps: tuple[Augmentation, ...]
    scale: Scale

    def __call__(self, x: Float[Tensor, "r n *shape"], noise: Noise) -> Float[Tensor, "r n *shape"]:
        """Every image, each in its own way."""
        plain = self.scale.undone(x)

        def draw(count: int, numbers: int) -> Tensor:
            return noise.uniform(count, numbers, plain)

        return self.scale(changed(plain, self.steps, draw), plain.dtype)
