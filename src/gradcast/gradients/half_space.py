"""A-GEM's projection: the gradient nearest to g among those that do not oppose one reference gradient."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def project_one(
    reference: Float[Tensor, "r p"], gradient: Float[Tensor, "r p"]
) -> tuple[Float[Tensor, "r p"], Bool[Tensor, " r"]]:
    """``g - (<g, ref> / <ref, ref>) ref`` where ``<g, ref> < 0``, and which replicas that was.

    The others keep their gradient bit for bit. Products are float64: of what is added up most cancels.
    """
    wide = reference.double()
    inner, square = ((wide * other.double()).sum(1) for other in (gradient, reference))
    opposed = inner < 0
    share = torch.where(opposed, inner / square, 0.0).to(gradient.dtype)
    return torch.where(opposed.unsqueeze(1), gradient - share.unsqueeze(1) * reference, gradient), opposed
