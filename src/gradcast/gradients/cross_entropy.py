"""Cross entropy and its gradient with respect to the logits, in closed form."""

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
