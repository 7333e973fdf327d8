"""Cross entropy and its gradient with respect to the logits, in closed form."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def cross_entropy(
    z: Float[Tensor, "*r b c"], y: Int[Tensor, "*r b"]
) -> tuple[Float[Tensor, "*r"], Float[Tensor, "*r b c"]]:
    """Mean loss of each batch, and its gradient ``(softmax(z) - onehot(y)) / b``."""
    logs = torch.log_softmax(z, dim=-1)
    labels = y.unsqueeze(-1)
    loss = -logs.gather(-1, labels).squeeze(-1).mean(-1)
    dz = logs.exp()
    dz.scatter_add_(-1, labels, torch.full_like(labels, -1, dtype=dz.dtype))
    return loss, dz / y.shape[-1]
