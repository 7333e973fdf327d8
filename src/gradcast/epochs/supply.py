"""Unlabelled batches for learners that train many epochs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from jaxtyping import Bool
from torch import Tensor

from gradcast.core import Unlabelled
from gradcast.signals.policy import Draws, Policy, Views
from gradcast.streams.pool import Pool


class Supply:
    """The pool, walked through anew in every task; the policy's ``start`` counts the labelled batches of an epoch.

    Every update draws, and what it draws before ``start`` is thrown away, as the published code does.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("draws",)

    def __init__(self, pool: Pool, policy: Policy, seeds: Sequence[int], views: Views | None = None) -> None:
        self.pool, self.policy, self.seeds, self.views = pool, policy, list(seeds), views
        self.begin(0)

    def begin(self, task: int) -> None:
        """Coins and shuffles of a task: they do not depend on how many numbers an earlier task took."""
        policy = self.policy.model_copy(update={"start": 0})
        self.draws = Draws(self.pool, policy, self.seeds, self.views, part=f"task {task}")

    def next(self, batch: int, going: Bool[Tensor, " r"]) -> Unlabelled | None:
        """For an update of the epoch's labelled batch of this number; only replicas that are ``going`` have any."""
        drawn = self.draws.next()
        if drawn is None or batch < self.policy.start:
            return None
        drawing = tuple(replica for replica in drawn.drawn_by() if going[replica])
        if not drawing:
            return None
        return replace(drawn, used=drawn.used & going.to(drawn.used.device), drawing=drawing)
