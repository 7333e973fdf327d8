"""What signals have in common that look for the small change of an image which changes the model's answer most."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from gradcast.core import Unlabelled
from gradcast.gradients.cross_entropy import divergence
from gradcast.gradients.gradient import Gradient
from gradcast.replicas.replicas import Pass, Replicas, Statistics

LARGEST_EPS, LENGTH_EPS = 1e-12, 1e-6  # added to largest entries and squared lengths before they divide


@dataclass(frozen=True)
class LocalDivergence:
    """``KL(p(x) || p(x + r))``, mean over the images x, as a function of r; no gradient flows through p(x).

    Passes of ``x + r`` never change running statistics.
    """

    model: Replicas
    images: Unlabelled  # x, one view of each
    label: Float[Tensor, "r u c"]  # p(x)
    task: int
    statistics: Statistics

    @classmethod
    def around(
        cls, model: Replicas, images: Unlabelled, task: int, statistics: Statistics
    ) -> tuple["LocalDivergence", Pass]:
        """The divergence from what the model says of the images, and the pass that told it.

        That pass is in the weights' own arithmetic: the ones that it is compared with differ from it by little.
        """
        made = model.forward(images.x, task, statistics=statistics, used=images.used, exact=True)
        still: Statistics = "frozen" if statistics == "frozen" else "separate"
        return cls(model, images, made.z.softmax(-1), task, still), made

    def slope(self, r: Float[Tensor, "r u *shape"]) -> Float[Tensor, "r u *shape"]:
        """The gradient with respect to r, in the weights' own arithmetic."""
        x = (self.images.x + r).requires_grad_()
        made = self.model.forward(x, self.task, statistics=self.statistics, used=self.images.used, exact=True)
        return made.at_images(divergence(made.z, self.label)[1])

    def curvature(self, d: Float[Tensor, "r u *shape"], xi: float) -> Float[Tensor, "r u *shape"]:
        """The Hessian at zero times d: the gradient there is zero, so it is the one at ``xi * d`` divided by xi."""
        return self.slope(xi * d) / xi

    def gradient(self, r: Float[Tensor, "r u *shape"], weight: float) -> tuple[Float[Tensor, " r"], Gradient]:
        """``weight`` times the divergence, and its gradient with respect to the model's weights; r is fixed."""
        x, used = self.images.x + r, self.images.used
        made = self.model.forward(x, self.task, statistics=self.statistics, used=used)
        loss, dz = divergence(made.z, self.label)
        return weight * loss, made.pull(weight * dz)


def by_largest(r: Float[Tensor, "r u *shape"]) -> Float[Tensor, "r u *shape"]:
    """Each image's numbers divided by the largest of them."""
    return r / (r.abs().amax(_inside(r), keepdim=True) + LARGEST_EPS)


def by_length(r: Float[Tensor, "r u *shape"]) -> Float[Tensor, "r u *shape"]:
    """Each image's numbers divided by their length, after the largest: squares of tiny numbers would vanish."""
    r = by_largest(r)
    return r / (r.square().sum(_inside(r), keepdim=True) + LENGTH_EPS).sqrt()


def inner(a: Float[Tensor, "r u *shape"], b: Float[Tensor, "r u *shape"]) -> Float[Tensor, "r u *ones"]:
    """Inner products, image by image, as something that multiplies images."""
    return (a * b).sum(_inside(a), keepdim=True)


def _inside(r: Tensor) -> list[int]:
    """The axes of an image."""
    return list(range(2, r.dim()))
