"""Random numbers of the discriminator: its initial weights, and the noise it learns to tell from features."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.randomness import torch_generator
from gradcast.signals.head import stacked_layer


@runtime_checkable
class JudgeDraws(Protocol):
    """The source of these numbers; a recorded run brings its own."""

    def layers(self, task: int, sizes: Sequence[tuple[int, int]], *, again: bool) -> list[Tensor]:
        """Initial weights of linear layers, bias in the last column; ``again`` after the reset at chance."""
        ...

    def noise(self, name: str, size: tuple[int, int], like: Tensor) -> Float[Tensor, "r b f"]:
        """Standard normal numbers for the step of this name, on the host."""
        ...


@dataclass(frozen=True)
class SeededDraws:
    """From the seeds, each replica its own."""

    seeds: Sequence[int]
    like: Tensor

    def layers(self, task: int, sizes: Sequence[tuple[int, int]], *, again: bool) -> list[Tensor]:
        """Uniform, as linear layers usually start."""
        name = "another discriminator" if again else "discriminator"
        return [
            stacked_layer(size, self.seeds, f"{name} {task} {layer}", self.like).detach()
            for layer, size in enumerate(sizes)
        ]

    def noise(self, name: str, size: tuple[int, int], like: Tensor) -> Float[Tensor, "r b f"]:
        """A generator for every step: no number depends on how many were drawn before."""
        generators = [torch_generator(seed, "fake", name) for seed in self.seeds]
        return torch.stack([torch.randn(size, generator=own, dtype=like.dtype) for own in generators])
