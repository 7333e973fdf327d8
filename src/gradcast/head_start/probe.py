"""How good features are, without training anything: an image's nearest neighbour among others, is it of its class?"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from gradcast.replicas.replicas import Replicas
from gradcast.streams.task_data import NO_IMAGE, TaskData

IMAGES = 1_000  # of the first task that are looked at, at most
AT_ONCE = 250  # images that pass together


@dataclass(frozen=True)
class Probe:
    """Labelled training images of the first task, as the network sees them; labels serve this diagnosis alone."""

    x: Float[Tensor, "r n *shape"]
    y: Int[Tensor, "r n"]

    @classmethod
    def of(cls, data: TaskData) -> "Probe":
        """Of every seed's own first task."""
        portion = data.train(0)
        batch = data.batch(portion.cut(0, min(IMAGES, portion.y.shape[1])))
        return cls(batch.x, batch.y)

    @torch.no_grad()
    def accuracy(self, model: Replicas) -> Float[Tensor, " r"]:
        """The share of images whose nearest neighbour, by the cosine of features, has their label."""
        parts: Sequence[Tensor] = [model.embed(x, statistics="frozen").z for x in self.x.split(AT_ONCE, dim=1)]
        rows = normalize(torch.cat(list(parts), dim=1), dim=-1)
        similar = rows @ rows.mT
        similar.diagonal(dim1=-2, dim2=-1).fill_(-torch.inf)
        similar.masked_fill_((self.y == NO_IMAGE).unsqueeze(1), -torch.inf)
        found = self.y.gather(1, similar.argmax(-1)) == self.y
        there = self.y != NO_IMAGE
        return (found & there).sum(1).double() / there.sum(1)
