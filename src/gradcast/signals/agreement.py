"""How a signal's gradient stands to the gradients that labels give."""

import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.core import Metrics, Unlabelled
from gradcast.gradients.gradient import Gradient, PastGradients


def compare(pseudo: Gradient, gradient: Gradient, past: list[PastGradients], unlabelled: Unlabelled) -> Metrics:
    """Not a number where a replica used no unlabelled batch.

    ``pseudo_ratio`` is its length beside the labelled gradient's, ``agreement`` the cosine of the two, and
    ``memory_agreement`` the share of past tasks whose memory gradient it does not oppose.
    """
    size = torch.finfo(gradient.flat.dtype).tiny
    lengths = [each.flat.norm(dim=1).clamp_min(size) for each in (pseudo, gradient)]
    found = {
        "pseudo_ratio": pseudo.flat.norm(dim=1) / lengths[1],
        "agreement": ((pseudo.flat / lengths[0].unsqueeze(1)) * (gradient.flat / lengths[1].unsqueeze(1))).sum(1),
    }
    if past:
        found["memory_agreement"] = _agreeing(pseudo, past)
    return {name: torch.where(unlabelled.used, value, torch.nan) for name, value in found.items()}


def _agreeing(pseudo: Gradient, past: list[PastGradients]) -> Float[Tensor, " r"]:
    products = torch.cat([each.inner(pseudo) for each in past], dim=1)
    return (products >= 0).to(pseudo.flat.dtype).mean(1)
