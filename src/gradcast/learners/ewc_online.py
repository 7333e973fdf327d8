"""Online elastic weight consolidation: one importance, from the gradients of training itself, and one anchor."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.core import Batch, Labelled, Learner, TaskImages, Terms
from gradcast.gradients.gradient import Gradient
from gradcast.learners.anchor import Anchor
from gradcast.replicas.replicas import Replicas

NEW_SHARE = 0.9  # of the latest gradients in the importance


@dataclass
class OnlineEwc(Learner):
    """Adds ``strength * sum_i F_i (w_i - w*_i)^2`` to the loss, with ``w*`` from the end of the last task.

    Every ``interval`` steps ``F <- 0.1 F + 0.9 S / interval``, before the step; S is the sum of the squared gradients
    of the batches' losses since then, and begins anew with every task. F itself goes on through all tasks. The penalty
    takes it scaled to [0, 1], over the whole network, as it is at the end of a task.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("anchor", "fisher", "squares", "steps")
    interval: int = 50
    strength: float = 10.0
    anchor: Anchor = field(init=False)
    fisher: Float[Tensor, "r p"] | None = field(default=None, init=False)  # F
    squares: Float[Tensor, "r p"] | None = field(default=None, init=False)  # S
    steps: int = field(default=0, init=False)  # of the task
    going: Bool[Tensor, "r 1"] | None = field(default=None, init=False)  # replicas that train in this step; None: all

    def __post_init__(self) -> None:
        self.anchor = Anchor(self.strength)

    def task_begins(self, model: Replicas, images: TaskImages) -> None:
        """Count and sum from zero."""
        self.steps = 0
        if self.squares is not None:
            self.squares.zero_()

    def prepare(self, model: Replicas, batch: Batch) -> None:
        """Count the step; make room for the importance before the first one."""
        if self.fisher is None or self.squares is None:
            self.fisher, self.squares = torch.zeros_like(model.theta), torch.zeros_like(model.theta)
        self.steps += 1

    def kind(self) -> Hashable:
        """Whether the importance is renewed."""
        return self.steps % self.interval == 0

    def terms(self, model: Replicas, labelled: Labelled) -> Terms | None:
        """The penalty; there is none in the first task. At the end of an interval the importance is renewed first."""
        self.going = labelled.lr.unsqueeze(1) > 0 if isinstance(labelled.lr, Tensor) else None
        if self.kind():
            self._renew()
        return self.anchor.terms(model)

    def watch(self, gradient: Gradient) -> None:
        """Add the square of the batch's gradient."""
        assert self.squares is not None
        square = gradient.flat.square()
        self.squares.add_(square if self.going is None else torch.where(self.going, square, 0))

    def _renew(self) -> None:
        """What replicas at rest have stays: they may rest because others train longer."""
        assert self.fisher is not None
        assert self.squares is not None
        renewed = (1 - NEW_SHARE) * self.fisher + NEW_SHARE / self.interval * self.squares
        self.fisher.copy_(renewed if self.going is None else torch.where(self.going, renewed, self.fisher))
        self.squares.zero_()

    def penalty(self, model: Replicas) -> Float[Tensor, " r"] | None:
        """How large the penalty is."""
        return self.anchor.penalty(model)

    def task_ends(self, model: Replicas, images: TaskImages) -> None:
        """Hold the weights by the importance of this moment."""
        assert self.fisher is not None
        least, most = self.fisher.amin(1, keepdim=True), self.fisher.amax(1, keepdim=True)
        spread = (most - least).clamp_min(torch.finfo(self.fisher.dtype).tiny)
        self.anchor.drop(model, (self.fisher - least) / spread)
