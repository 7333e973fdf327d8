"""The guard: takes from a signal's gradient what opposes the labelled gradient or a memory's."""

import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.gradients.cone import project
from gradcast.gradients.gradient import Gradient, PastGradients


def guarded(pseudo: Gradient, gradient: Gradient, past: list[PastGradients]) -> Gradient:
    """The nearest gradient whose inner product with none of the others is negative."""
    rows: list[Float[Tensor, "r k p"]] = [gradient.flat.unsqueeze(1), *(each.rows() for each in past)]
    found, changed = project(rows[0] if len(rows) == 1 else torch.cat(rows, dim=1), pseudo.flat, margin=0.0)
    return Gradient(found, None if pseudo.factors is None or changed.is_cuda or changed.any() else pseudo.factors)
