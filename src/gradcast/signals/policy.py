"""When unlabelled images are used, and which."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from jaxtyping import Float
from torch import Tensor

from gradcast.core import Unlabelled
from gradcast.randomness import numpy_generator, torch_generator
from gradcast.replicas import Statistics
from gradcast.streams.pool import Pool, sent
from gradcast.tables import Natural, Positive, Probability, Table

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


class Draws:
    """Each replica's own coin and its own walk through the pool.

    The pool is shuffled without replacement and cycled. A batch that reaches the end of a pass goes on with the next
    shuffle, so that every batch is full and replicas stay together.
    """

    def __init__(self, pool: Pool, policy: Policy, seeds: Sequence[int]) -> None:
        self.pool, self.policy = pool, policy
        self.coins = [numpy_generator(seed, "policy") for seed in seeds]
        self.shuffles = [numpy_generator(seed, "pool") for seed in seeds]
        self.generators = [torch_generator(seed, "pool", "augment") for seed in seeds]
        self.queues = [np.empty(0, dtype=np.int64) for _ in seeds]
        self.last = np.zeros((len(seeds), policy.batch), dtype=np.int64)
        self.step = 0

    def next(self) -> Unlabelled | None:
        """The unlabelled batches of the coming step, or None when no replica draws one."""
        step, policy = self.step, self.policy
        self.step += 1
        if step < policy.start or policy.p == 0:  # no random number is taken before the start
            return None
        used = np.array([coin.random() < policy.p for coin in self.coins])
        for replica in np.flatnonzero(used):
            self.last[replica] = self._take(int(replica))
        if not used.any():
            return None
        return Unlabelled(self._images(used), sent(used, self.pool.device))

    def _images(self, used: np.ndarray) -> Float[Tensor, "r u c h w"]:
        """Only replicas that use their images take random numbers for them, as if each were alone."""
        drawing = np.flatnonzero(used)
        shown = self.pool.images(self.last[drawing], [self.generators[replica] for replica in drawing])
        if used.all():
            return shown
        images = shown.new_zeros(len(used), *shown.shape[1:])
        images[sent(drawing, shown.device)] = shown
        return images

    def _take(self, replica: int) -> np.ndarray:
        while len(self.queues[replica]) < self.policy.batch:
            again = self.shuffles[replica].permutation(len(self.pool))
            self.queues[replica] = np.concatenate([self.queues[replica], again])
        taken, self.queues[replica] = np.split(self.queues[replica], [self.policy.batch])
        return taken
