"""Mixtures of labelled and unlabelled images, and of their labels."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gradcast.devices import to_device
from gradcast.randomness import numpy_generator


class Shares:
    """Proportions from Beta(``beta``, ``beta``), one a pair and step, from each seed's own numbers of this ``name``."""

    checkpointed: ClassVar[tuple[str, ...]] = ("generators",)

    def __init__(self, beta: float, seeds: Sequence[int], name: str = "mix-up") -> None:
        self.beta = beta
        self.generators = [numpy_generator(seed, name) for seed in seeds]
        self.values: dict[int, Float[Tensor, "r b"]] = {}  # by number of pairs; each keeps its place in memory

    def draw(self, replicas: Iterable[int], pairs: int, like: Tensor) -> None:
        """On the host, for these replicas; the others take no random number, as if they were alone."""
        drawn = torch.zeros(len(self.generators), pairs, dtype=like.dtype)
        for replica in replicas:
            drawn[replica] = torch.from_numpy(self.generators[replica].beta(self.beta, self.beta, pairs))
        shares = to_device(drawn, like.device)
        self.values[pairs] = self.values[pairs].copy_(shares) if pairs in self.values else shares

    def of(self, pairs: int) -> Float[Tensor, "r b"]:
        """Those of the step under way, which has so many pairs."""
        return self.values[pairs]


def mix(
    one: Float[Tensor, "r b *shape"], other: Float[Tensor, "r b *shape"], shares: Float[Tensor, "r b"]
) -> Float[Tensor, "r b *shape"]:
    """``share`` of one and the rest of the other, pair by pair."""
    shares = shares.view(*shares.shape, *[1] * (one.dim() - 2))
    return shares * one + (1 - shares) * other


def mix_labels(
    y: Int[Tensor, "r b"], label: Float[Tensor, "r b c"], shares: Float[Tensor, "r b"]
) -> Float[Tensor, "r b c"]:
    """Labels of mixtures, where the first image's label is a class and the other's is soft."""
    return mix(torch.zeros_like(label).scatter_(-1, y.unsqueeze(-1), 1.0), label, shares)
