"""Mix-up: mixtures of labelled and unlabelled images, and of their labels."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from gradcast.core import Batch
from gradcast.environment import sent
from gradcast.randomness import numpy_generator
from gradcast.semi.core import Moment
from gradcast.semi.meta_labels import MetaLabels


class MixUp:
    """Labelled image i and unlabelled image i, in a proportion from Beta(``beta``, ``beta``), a pair at a time.

    ``partner`` says what the unlabelled images are.
    """

    remembers: ClassVar[tuple[str, ...]] = ("generators",)

    def __init__(self, partner: MetaLabels, beta: float, seeds: Sequence[int]) -> None:
        self.partner, self.beta = partner, beta
        self.generators = [numpy_generator(seed, "mix-up") for seed in seeds]
        self.shares: Float[Tensor, "r b"] | None = None  # of the labelled images; keeps its place in memory

    def prepare(self, batch: Batch) -> None:
        """Draw the proportions."""
        drawn = np.stack([own.beta(self.beta, self.beta, batch.y.shape[1]) for own in self.generators])
        shares = sent(torch.from_numpy(drawn).to(batch.x.dtype), batch.x.device)
        self.shares = shares if self.shares is None else self.shares.copy_(shares)

    def mixtures(self, moment: Moment) -> tuple[Float[Tensor, "r b *shape"], Float[Tensor, "r b c"]]:
        """Images and labels."""
        assert self.shares is not None
        assert self.partner.label is not None
        return mix(moment.batch.x, moment.x, self.shares), mix_labels(moment.batch.y, self.partner.label, self.shares)


def mix(
    one: Float[Tensor, "r b *shape"], other: Float[Tensor, "r b *shape"], shares: Float[Tensor, "r b"]
) -> Float[Tensor, "r b *shape"]:
    """``share`` of one and the rest of the other, pair by pair."""
    shares = shares.view(*shares.shape, *[1] * (one.dim() - 2))
    return shares * one + (1 - shares) * other


def mix_labels(
    y: Int[Tensor, "r b"], label: Float[Tensor, "r b c"], shares: Float[Tensor, "r b"]
) -> Float[Tensor, "r b c"]:
    """The same of labels, one of which is a class."""
    return mix(torch.zeros_like(label).scatter_(-1, y.unsqueeze(-1), 1.0), label, shares)


def divergence(
    z: Float[Tensor, "*r b c"], label: Float[Tensor, "*r b c"]
) -> tuple[Float[Tensor, "*r"], Float[Tensor, "*r b c"]]:
    """``KL(label || softmax(z))``, mean over images, and its gradient; 0 log 0 is 0."""
    logs = z.log_softmax(-1)
    loss = (torch.xlogy(label, label) - label * logs).sum(-1).mean(-1)
    return loss, (logs.exp() * label.sum(-1, keepdim=True) - label) / z.shape[-2]
