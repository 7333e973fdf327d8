"""Small models and batches for tests."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from gradcast.core import Batch
from gradcast.networks.mlp import MLP, Norm
from gradcast.randomness import seeded
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas

CPU = torch.device("cpu")
needs_gpu = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a GPU (and CUBLAS_WORKSPACE_CONFIG=:4096:8)"
)
EITHER_DEVICE = ("cpu", pytest.param("cuda", marks=needs_gpu))


OPTIONS = (
    "contrastive,signal.labelled=true",
    "meta-gradient,signal.mix_up=1.0",
    "predicted,signal.tau=previous",
)  # of signals, which change what they do


FURTHER = {  # settings that signals need, or that make them small
    "true-labels": ["pool.name=held-out"],
    "tnar": ["signal.latent=4", "signal.widths=[5]"],
}


def signal_and_pool(name: str) -> list[str]:
    """Settings for a signal, with further ones behind commas; the bound needs images whose labels are known."""
    return [*f"signal.name={name}".split(","), *FURTHER.get(name, [])]


def replicas(
    count: int = 2,
    *,
    sizes: Sequence[int] = (6, 5, 3),
    heads: Heads | None = None,
    norm: Norm = "none",
    dtype: torch.dtype = torch.float64,
    first_seed: int = 0,
) -> Replicas:
    """Stacked MLPs, each from its own seed."""
    heads = heads or Heads.even(sizes[-1])
    modules = []
    for seed in range(first_seed, first_seed + count):
        with seeded(seed, "model"):
            modules.append(MLP([*sizes[:-1], heads.outputs], norm=norm))
    return Replicas(modules, heads, device=CPU, dtype=dtype)


def batch(model: Replicas, task: int = 0, size: int = 4, seed: int = 0) -> Batch:
    """Random images and labels for every replica."""
    generator = torch.Generator().manual_seed(seed)
    inputs = model.shapes[0][1]
    x = torch.randn(model.count, size, inputs, generator=generator, dtype=model.theta.dtype)
    return Batch(x, torch.randint(model.heads.width, (model.count, size), generator=generator), task)


def flat(module: torch.nn.Module) -> Tensor:
    """All weights in one row."""
    return torch.cat([p.detach().flatten() for p in module.parameters()])
