"""The unlabelled batches of every step: which replicas have one, and which images are in it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Shaped
from torch import Tensor

from gradcast.core import Unlabelled
from gradcast.devices import to_device
from gradcast.randomness import numpy_generator, torch_generator
from gradcast.replicas.heads import Heads
from gradcast.signals.policy import Policy
from gradcast.streams.augment import Augmentation
from gradcast.streams.choose_labels import of_task
from gradcast.streams.own_pool import OwnImages
from gradcast.streams.pool import Pool
from gradcast.streams.walk import Walk


@dataclass(frozen=True)
class Views:
    """How often each image is shown in a batch, and what happens to it every time: the same, or to ``each`` its own."""

    count: int = 1
    steps: tuple[Augmentation, ...] = ()
    each: tuple[tuple[Augmentation, ...], ...] = ()

    @classmethod
    def different(cls, *each: tuple[Augmentation, ...]) -> "Views":
        """A view for each of these lists of augmentations."""
        return cls(len(each), each=each)

    @property
    def lists(self) -> tuple[tuple[Augmentation, ...], ...]:
        """What happens to an image, view by view."""
        return self.each or (self.steps,) * self.count


class Feed:
    """Batches of one pool for the signals that want the same views of its images.

    Each replica has its own walk through the pool; every batch is full, so that replicas stay together. ``number``
    tells feeds of one row apart. What images show, where it is known, is a label as a loss of these ``heads`` asks for.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("walks", "generators", "last")

    def __init__(
        self,
        pool: Pool | OwnImages,
        seeds: Sequence[int],
        size: int,
        views: Views | None = None,
        *,
        number: int = 0,
        heads: Heads | None = None,
    ) -> None:
        self.pool, self.seeds, self.size, self.views, self.heads = pool, list(seeds), size, views or Views(), heads
        self.names: tuple[str, ...] = (f"feed {number}",) if number else ()
        self.last = np.zeros((len(seeds), size), dtype=np.int64)
        self._begin(0, ())

    def begin(self, task: int, part: tuple[str, ...]) -> None:
        """A task begins; ``part`` names random numbers of its own, where it has any."""
        if part or (self.pool.by_task and task):
            self._begin(task, part)

    def _begin(self, task: int, part: tuple[str, ...]) -> None:
        kind, names = ("unlabelled", part or of_task(task)) if self.pool.by_task else ("pool", part)
        names = (*names, *self.names)
        self.walks = [Walk(self.pool.size(task), numpy_generator(seed, kind, *names)) for seed in self.seeds]
        self.generators = [torch_generator(seed, kind, "augment", *names) for seed in self.seeds]

    def batch(self, task: int, used: Bool[np.ndarray, " r"]) -> Unlabelled:
        """The next images of these replicas; the others take no random number, as if they were alone."""
        drawing = np.flatnonzero(used)
        for replica in drawing:
            self.last[replica] = self.walks[replica].take(self.size)
        seeds, generators = [self.seeds[r] for r in drawing], [self.generators[r] for r in drawing]
        made = [self.pool.images(task, seeds, self.last[drawing], generators, steps) for steps in self.views.lists]
        images, truth = torch.cat([x for x, _ in made], dim=1) if len(made) > 1 else made[0][0], made[0][1]
        if truth is not None and self.heads is not None:
            truth = self.heads.labels(truth, task)
        return Unlabelled(
            self._spread(images, drawing),
            to_device(used, self.pool.device),
            self.views.count,
            tuple(drawing.tolist()),
            None if truth is None else self._spread(truth, drawing),
        )

    def _spread(self, rows: Shaped[Tensor, "drawing *rest"], drawing: np.ndarray) -> Shaped[Tensor, "r *rest"]:
        """A row for every replica, zeros for those that draw nothing."""
        if len(drawing) == len(self.seeds):
            return rows
        spread = rows.new_zeros(len(self.seeds), *rows.shape[1:])
        spread[to_device(drawing, rows.device)] = rows
        return spread


class Draws:
    """Each replica's own coin decides whether a step has unlabelled images; all feeds obey it.

    ``policy.start`` counts the steps of the run. With ``by_epoch`` it counts those of an epoch, coins and walks begin
    anew with every task, and what is drawn before the start is thrown away, as the published code of ACL does.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("coins", "feeds", "step")

    def __init__(self, feeds: Sequence[Feed], policy: Policy, seeds: Sequence[int], *, by_epoch: bool = False) -> None:
        self.feeds, self.policy, self.seeds, self.by_epoch = list(feeds), policy, list(seeds), by_epoch
        self.coins = [numpy_generator(seed, "policy") for seed in seeds]
        self.step = 0

    def begin(self, task: int) -> None:
        """Before the task's first step."""
        part = (f"task {task}",) if self.by_epoch else ()
        if part:
            self.coins = [numpy_generator(seed, "policy", *part) for seed in self.seeds]
        for feed in self.feeds:
            feed.begin(task, part)

    def next(self, task: int, place: int = 0, going: Bool[Tensor, " r"] | None = None) -> tuple[Unlabelled, ...]:
        """The batch of every feed for the coming update, nothing where no replica has one.

        ``place`` is that of the labelled batch in its epoch; replicas that are not ``going`` have none.
        """
        early, policy = (place if self.by_epoch else self.step) < self.policy.start, self.policy
        self.step += 1
        if policy.p == 0 or (early and not self.by_epoch):  # no random number is taken before the start
            return ()
        used = np.array([coin.random() < policy.p for coin in self.coins])
        if not used.any():
            return ()
        drawn = tuple(feed.batch(task, used) for feed in self.feeds)
        if early:
            return ()
        return drawn if going is None else _only(drawn, going)


def _only(drawn: tuple[Unlabelled, ...], going: Bool[Tensor, " r"]) -> tuple[Unlabelled, ...]:
    kept = tuple(each.only(going) for each in drawn)
    return kept if kept[0].drawn_by() else ()
