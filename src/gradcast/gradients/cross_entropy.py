"""Losses of logits and their gradients with respect to them, in closed form."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional


def mean_cross_entropy(z: Float[Tensor, "*r b c"], y: Int[Tensor, "*r b"]) -> Float[Tensor, "*r"]:
    """Mean loss of each batch by torch's own function, which autograd can differentiate."""
    losses = functional.cross_entropy(z.flatten(0, -2), y.flatten(), reduction="none")
    return losses.view(y.shape).mean(-1)


def cross_entropy(
    z: Float[Tensor, "*r b c"], y: Int[Tensor, "*r b"]
) -> tuple[Float[Tensor, "*r"], Float[Tensor, "*r b c"]]:
    """Mean loss of each batch, and its gradient ``(softmax(z) - onehot(y)) / b``."""
    logs = torch.log_softmax(z, dim=-1)
    labels = y.unsqueeze(-1)
    right = logs.gather(-1, labels)
    loss = -right.squeeze(-1).mean(-1)
    dz = logs.exp().scatter_(-1, labels, right.expm1())  # exact where the label is all but certain
    return loss, dz.div_(y.shape[-1])


def soft_cross_entropy(z: Float[Tensor, "*r b c"], label: Float[Tensor, "*r b c"]) -> Float[Tensor, "*r b"]:
    """Loss of each image by soft labels, which autograd can differentiate by both."""
    return -(label * z.log_softmax(-1)).sum(-1)


def class_slope(z: Float[Tensor, "*r b c"], y: Int[Tensor, "*r b"]) -> Float[Tensor, "*r b c"]:
    """The gradient of that mean loss alone."""
    return cross_entropy(z, y)[1]


def divergence(
    z: Float[Tensor, "*r b c"], label: Float[Tensor, "*r b c"]
) -> tuple[Float[Tensor, "*r"], Float[Tensor, "*r b c"]]:
    """``KL(label || softmax(z))``, mean over images, and its gradient; 0 log 0 is 0."""
    logs = z.log_softmax(-1)
    loss = (torch.xlogy(label, label) - label * logs).sum(-1).mean(-1)
    return loss, (logs.exp() * label.sum(-1, keepdim=True) - label) / z.shape[-2]


def squared_distance(
    z: Float[Tensor, "*r u c"], label: Float[Tensor, "*r u c"]
) -> tuple[Float[Tensor, "*r"], Float[Tensor, "*r u c"]]:
    """``|softmax(z) - label|^2``, mean over images, and its gradient."""
    p = z.softmax(-1)
    away = p - label
    loss = away.square().sum(-1).mean(-1)
    return loss, 2 * p * (away - (p * away).sum(-1, keepdim=True)) / z.shape[-2]


def entropy(z: Float[Tensor, "*r b c"]) -> tuple[Float[Tensor, "*r"], Float[Tensor, "*r b c"]]:
    """``-sum p log p`` of the probabilities p, mean over images, and its gradient."""
    logs = z.log_softmax(-1)
    p = logs.exp()
    own = -(p * logs).sum(-1)
    return own.mean(-1), -p * (logs + own.unsqueeze(-1)) / z.shape[-2]
