"""Numbers that multiply activations, as functions that a pass of many replicas may compute at once."""

import torch
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function


def scaled(x: Tensor, scale: Tensor) -> Tensor:
    """All activations times one learned number; open to overriding like torch's own functions."""
    if has_torch_function((x, scale)):
        taken: Tensor = handle_torch_function(scaled, (x, scale), x, scale)
        return taken
    return x * scale


def gated(x: Tensor, embedding: Tensor, slope: Tensor) -> Tensor:
    """Units (channels of maps) times their gates ``sigmoid(slope * embedding)``; open to overriding as well."""
    if has_torch_function((x, embedding)):
        taken: Tensor = handle_torch_function(gated, (x, embedding), x, embedding, slope)
        return taken
    return x * torch.sigmoid(slope * embedding).view(-1, *[1] * (x.dim() - 2))
