"""Tensors of replicas as they once were, each replica at its own time."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from jaxtyping import Bool
from torch import Tensor


class Snapshot:
    """Copies of named tensors whose first axis is replicas; nothing at first."""

    remembers: ClassVar[tuple[str, ...]] = ("kept",)

    def __init__(self) -> None:
        self.kept: dict[str, Tensor] = {}

    @torch.no_grad()
    def keep(self, tensors: Mapping[str, Tensor], which: Bool[Tensor, " r"]) -> None:
        """These replicas as they are now; the first time, all."""
        if not self.kept:
            self.kept = {name: tensor.clone() for name, tensor in tensors.items()}
            return
        _copy(tensors, self.kept, which)

    @torch.no_grad()
    def put_back(self, tensors: Mapping[str, Tensor], which: Bool[Tensor, " r"]) -> None:
        """These replicas as they were, in place; unchanged where nothing was kept."""
        if not self.kept:
            return
        _copy(self.kept, tensors, which)

    def forget(self) -> None:
        """As if nothing had been kept."""
        self.kept = {}


def _copy(source: Mapping[str, Tensor], target: Mapping[str, Tensor], which: Bool[Tensor, " r"]) -> None:
    for name, tensor in target.items():
        chosen = which.to(tensor.device)
        tensor[chosen] = source[name][chosen]
