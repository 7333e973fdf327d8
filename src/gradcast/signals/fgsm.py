"""Adversarial images by the fast gradient sign method (FGSM)."""

from jaxtyping import Float, Int
from torch import Tensor

from gradcast.gradients.cross_entropy import class_slope
from gradcast.replicas.replicas import Replicas


def fgsm(
    model: Replicas,
    x: Float[Tensor, "r n *shape"],
    y: Int[Tensor, "r n"],
    tasks: Int[Tensor, "r n"],
    task: int,
    size: float | Tensor,
) -> Float[Tensor, "r n *shape"]:
    """Every number of an image one step of this ``size`` up the loss of label y, in evaluation mode; not clamped."""
    made = model.forward(x.detach().requires_grad_(), task, tasks=tasks, statistics="frozen")
    return x + size * made.at_images(class_slope(made.z, y)).sign()
