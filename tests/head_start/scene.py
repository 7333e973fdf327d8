"""Small head starts for tests."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from gradcast.data.stored_images import StoredImages
from gradcast.devices import Place
from gradcast.head_start.course import Course
from gradcast.head_start.head_start_table import HeadStartSpec
from gradcast.head_start.probe import Probe
from gradcast.networks import SlimResNet18
from gradcast.networks.mlp import MLP
from gradcast.replicas.heads import Heads
from gradcast.streams.pool import Pool
from gradcast.streams.scale import Scale
from tests.helpers import CPU

SHAPE = (3, 8, 8)
HEADS = Heads.even(3)


def pixels(count: int = 20, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, *SHAPE), dtype=np.uint8)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), MLP([192, 6, HEADS.outputs]))


def resnet() -> nn.Module:
    return SlimResNet18(2, HEADS.outputs)


def course(
    network: object = mlp, *, images: np.ndarray | None = None, identity: str = "", **settings: object
) -> Course:
    """Random images, a small network."""
    chosen = {"steps": 6, "batch": 4, "signal": "contrastive", "lr": 0.2, "warm_up": 0.5} | settings
    place = Place(CPU, torch.float64)
    pool = Pool(StoredImages.of(pixels() if images is None else images), Scale(), place=place)
    return Course(
        HeadStartSpec.model_validate(chosen),
        network=network,  # type: ignore[arg-type]
        heads=HEADS,
        shape=SHAPE,
        scale=Scale(),
        pool=pool,
        place=place,
        identity=identity or pool.content,
    )


def no_probe(seeds: Sequence[int]) -> Probe | None:
    return None
