"""How alike shared and private features are, and what it takes to make them less so."""

import torch
from jaxtyping import Float
from torch import Tensor

SMALLEST = 1e-6  # added to every norm


def orthogonality(
    zs: Float[Tensor, "*r b f"], zp: Float[Tensor, "*r b f"]
) -> tuple[Float[Tensor, "*r"], Float[Tensor, "*r b f"], Float[Tensor, "*r b f"]]:
    """Mean over all pairs (i, j) of ``<zs_i/|zs_i|, zp_j/|zp_j|>^2``, and its gradients; norms count as constants.

    With rows ``s_i``, ``p_j`` of length one and ``C = s p'``, the gradient for ``zs_i`` is
    ``2 / b^2 * sum_j C_ij p_j / |zs_i|``, and likewise for ``zp_j``.
    """
    lengths = [torch.linalg.vector_norm(z, dim=-1, keepdim=True) + SMALLEST for z in (zs, zp)]
    s, p = zs / lengths[0], zp / lengths[1]
    cosines = s @ p.mT
    factor = 2 / (zs.shape[-2] * zp.shape[-2])
    return (
        cosines.square().mean((-2, -1)),
        factor * (cosines @ p) / lengths[0],
        factor * (cosines.mT @ s) / lengths[1],
    )
