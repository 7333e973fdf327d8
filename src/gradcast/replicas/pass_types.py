"""How a pass is made, and what it leaves behind."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypedDict

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.gradients.gradient import Gradient, PastGradients

# What BatchNorm does in a pass. update: batch statistics, folded into the running ones (the reference, everywhere).
# separate: batch statistics, running ones untouched. frozen: normalise with the running statistics, untouched.
Statistics = Literal["update", "separate", "frozen"]


class How(TypedDict, total=False):
    """How a pass is made."""

    statistics: Statistics
    used: Bool[Tensor, " r"] | None  # a pass of unlabelled images; the other replicas keep their statistics
    theta: Float[Tensor, "r p"] | None  # other weights than the model's own
    exact: bool  # in the weights' own arithmetic, where the model's is coarser


Backward = Callable[[Sequence[Tensor], Sequence[Tensor]], PastGradients]


@dataclass(frozen=True)
class Pass:
    """Logits (or what else was asked for) and all that the network gave, without a graph, and the way back.

    ``pull`` leads from a gradient at ``z``, and one at ``whole`` where there is any, to the weights' gradient.
    Where the images themselves ask for a gradient (``x.requires_grad``), the way back leads to them and not to the
    weights: ``at_images`` takes a gradient at ``z`` to theirs.
    """

    z: Float[Tensor, "r b c"]
    whole: Float[Tensor, "r b columns"]
    pull: Callable[..., Gradient]
    at_images: Callable[[Tensor], Tensor]


def updating_replicas(statistics: Statistics, used: Tensor | None, theta: Tensor) -> Bool[Tensor, " r"] | None:
    """Which replicas' running statistics a pass may change; None where that needs no looking after."""
    if statistics == "separate":
        return torch.zeros(len(theta), dtype=torch.bool, device=theta.device)
    return used if statistics == "update" else None


@contextmanager
def buffers_for(buffers: dict[str, Tensor], updating: Bool[Tensor, " r"] | None) -> Iterator[dict[str, Tensor]]:
    """Buffers for a pass; those of replicas that are not ``updating`` end as they were.

    The pass has copies then: what it still needs for its way back is not overwritten.
    """
    if updating is None:
        yield buffers
        return
    copies = {name: buffer.clone() for name, buffer in buffers.items()}
    yield copies
    for name, buffer in buffers.items():
        buffer.copy_(torch.where(updating.view(-1, *[1] * (buffer.dim() - 1)), copies[name], buffer))
