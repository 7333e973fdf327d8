"""Layers of small networks that are stacked along leading axes: how weights begin, and what follows a layer."""

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import tanh

Activation = Literal["relu", "tanh", "none"]


def uniform(shape: tuple[int, ...], *, fan_in: int) -> nn.Parameter:
    """Weights drawn as torch's linear layers draw theirs."""
    bound = 1 / math.sqrt(fan_in)
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))


def activate(z: Tensor, name: Activation) -> Tensor:
    """The activation of this name."""
    match name:
        case "relu":
            return z.relu()
        case "tanh":
            return tanh(z)
        case "none":
            return z
