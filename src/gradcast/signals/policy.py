"""When unlabelled images are used, and which."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from gradcast.core import Unlabelled
from gradcast.devices import to_device
from gradcast.randomness import numpy_generator, torch_generator
from gradcast.replicas.replicas import Statistics
from gradcast.specs.table import Natural, Positive, Probability, Table
from gradcast.streams.augment import Augmentation
from gradcast.streams.held_out import HeldOut
from gradcast.streams.pool import Pool
from gradcast.streams.walk import Walk

Update = Literal["joint", "sequential"]


class Policy(Table):
    """Every signal obeys the same one."""

    p: Probability = 0.15  # that a step uses an unlabelled batch
    start: Natural = 0  # first step that may
    batch: Positive = 4  # images in it
    update: Update = (
        "joint"  # joint: added to the labelled gradient before a single step; sequential: a step of its own
    )
    project: bool = True  # whether the learner's constraints apply to the signal's gradient too
    batchnorm: Statistics = "update"  # what the unlabelled pass does to BatchNorm statistics
    guard: bool = False  # whether what opposes labelled and memory gradients is taken from the signal's


@dataclass(frozen=True)
class Views:
    """How often each image is shown in a batch, and what happens to it every time."""

    count: int = 1
    steps: tuple[Augmentation, ...] = ()


class Draws:
    """Each replica's own coin and its own walk through the pool; every batch is full, so replicas stay together."""

    checkpointed: ClassVar[tuple[str, ...]] = ("coins", "walks", "generators", "step")

    def __init__(
        self,
        pool: Pool | HeldOut,
        policy: Policy,
        seeds: Sequence[int],
        views: Views | None = None,
        *,
        part: str = "",
    ) -> None:
        self.pool, self.policy, self.seeds, self.views = pool, policy, list(seeds), views or Views()
        names = [part] if part else []  # parts of a run that draw independently of each other
        self.coins = [numpy_generator(seed, "policy", *names) for seed in seeds]
        self.walks = [Walk(len(pool), numpy_generator(seed, "pool", *names)) for seed in seeds]
        self.generators = [torch_generator(seed, "pool", "augment", *names) for seed in seeds]
        self.last = np.zeros((len(seeds), policy.batch), dtype=np.int64)
        self.step = 0

    def next(self, task: int = 0) -> Unlabelled | None:
        """The unlabelled batches of the coming step, or None when no replica draws one."""
        step, policy = self.step, self.policy
        self.step += 1
        if step < policy.start or policy.p == 0:  # no random number is taken before the start
            return None
        used = np.array([coin.random() < policy.p for coin in self.coins])
        for replica in np.flatnonzero(used):
            self.last[replica] = self.walks[replica].take(policy.batch)
        if not used.any():
            return None
        drawing = np.flatnonzero(used)
        pool, index = self.pool.of(task, [self.seeds[replica] for replica in drawing], self.last[drawing])
        shown, truth = self._images(pool, index, drawing), pool.truth(index)
        return Unlabelled(
            self._spread(shown, drawing),
            to_device(used, self.pool.device),
            self.views.count,
            tuple(drawing.tolist()),
            None if truth is None else self._spread(truth, drawing),
        )

    def _images(self, pool: Pool, index: np.ndarray, drawing: np.ndarray) -> Float[Tensor, "drawing u c h w"]:
        """Only replicas that use their images take random numbers for them, as if each were alone."""
        generators = [self.generators[replica] for replica in drawing]
        views = [pool.images(index, generators, self.views.steps) for _ in range(self.views.count)]
        return views[0] if len(views) == 1 else torch.cat(views, dim=1)

    def _spread(self, rows: Shaped[Tensor, "drawing *rest"], drawing: np.ndarray) -> Shaped[Tensor, "r *rest"]:
        """A row for every replica, zeros for those that draw nothing."""
        if len(drawing) == len(self.seeds):
            return rows
        spread = rows.new_zeros(len(self.seeds), *rows.shape[1:])
        spread[to_device(drawing, rows.device)] = rows
        return spread
