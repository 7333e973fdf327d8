"""Named random streams: every use of chance has its own generator, derived from the seed and a name.

A variant and its base therefore share initial weights, sample order and pool draws, however many numbers one of them
takes from another stream.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch


def derive(seed: int, *names: str | int) -> int:
    """A 63-bit seed for the stream called ``names`` under ``seed``; the same on every machine."""
    said = "/".join(map(str, (seed, *names))).encode(errors="surrogateescape")  # a folder's name may be no UTF-8
    digest = hashlib.blake2b(said, digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def numpy_generator(seed: int, *names: str | int) -> np.random.Generator:
    """Generator for indices and coins; its state is a few integers, easy to store."""
    return np.random.Generator(np.random.PCG64(derive(seed, *names)))


def torch_generator(seed: int, *names: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    """A torch generator whose seed depends on ``seed`` and all names."""
    return torch.Generator(device=device).manual_seed(derive(seed, *names))


@contextmanager
def resting(generators: Sequence[np.random.Generator]) -> Iterator[None]:
    """Run code that draws for everybody; these generators end as they were, as if nothing had been drawn from them."""
    before = [generator.bit_generator.state for generator in generators]
    yield
    for generator, state in zip(generators, before, strict=True):
        generator.bit_generator.state = state


@contextmanager
def seeded(seed: int, *names: str | int) -> Iterator[None]:
    """Run code that only knows torch's global generator (any ``nn.Module``'s initialisation) under a named stream."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, *names))
        yield
