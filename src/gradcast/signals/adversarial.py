"""Adversarial images by the fast gradient sign method (FGSM)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

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
    slopes = []
    for module, images, labels, own in zip(model.modules, x, y, tasks, strict=True):
        with torch.enable_grad():
            shown = images.detach().requires_grad_()
            z = model.heads.columns_at(module(shown), own, task)
            (slope,) = torch.autograd.grad(cross_entropy(z, labels, reduction="sum"), shown)
        slopes.append(slope)
    return x + size * torch.stack(slopes).sign()
