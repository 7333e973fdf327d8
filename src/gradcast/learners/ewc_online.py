"""Online elastic weight consolidation: one importance, from the gradients of training itself, and one anchor."""

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

    checkpointed: ClassVar[tuple[str, ...]] = ("anchor", "fisher", "squares", "going", "steps")
    interval: int = 50
    strength: float = 10.0
    anchor: Anchor = field(init=False)
    fisher: Float[Tensor, "r p"] | None = field(default=None, init=False)  # F
    squares: Float[Tensor, "r p"] | None = field(default=None, init=False)  # S
    going: Bool[Tensor, "r 1"] | None = field(default=None, init=False)  # replicas that trained in the last step
    steps: int = field(default=0, init=False)  # of the task

    def __post_init__(self) -> None:
        self.anchor = Anchor(self.strength)

    def task_begins(self, model: Replicas, images: TaskImages) -> None:
        """Count and sum from zero."""
        self.steps = 0
        if self.squares is not None:
            self.squares.zero_()

    def prepare(self, model: Replicas, batch: Batch) -> None:
        """Renew the importance at the end of an interval; that of replicas at rest stays."""
        if self.fisher is None or self.squares is None or self.going is None:
            self.fisher, self.squares = torch.zeros_like(model.theta), torch.zeros_like(model.theta)
            self.going = torch.ones(model.count, 1, dtype=torch.bool, device=model.theta.device)
        self.steps += 1
        if self.steps % self.interval == 0:
            renewed = (1 - NEW_SHARE) * self.fisher + NEW_SHARE / self.interval * self.squares
            self.fisher.copy_(torch.where(self.going, renewed, self.fisher))
            self.squares.zero_()

    def terms(self, model: Replicas, labelled: Labelled) -> Terms | None:
        """The penalty; there is none in the first task."""
        assert self.going is not None
        if isinstance(labelled.lr, Tensor):
            self.going.copy_(labelled.lr.unsqueeze(1) > 0)
        return self.anchor.terms(model)

    def watch(self, gradient: Gradient) -> None:
        """Add the square of the batch's gradient."""
        assert self.squares is not None
        assert self.going is not None
        self.squares.add_(gradient.flat.square() * self.going)

    def penalty(self, model: Replicas) -> Float[Tensor, " r"] | None:
        """How large the penalty is."""
        return self.anchor.penalty(model)

    def task_ends(self, model: Replicas, images: TaskImages) -> None:
        """Hold the weights by the importance of this moment."""
        assert self.fisher is not None
        least, most = self.fisher.amin(1, keepdim=True), self.fisher.amax(1, keepdim=True)
        spread = (most - least).clamp_min(torch.finfo(self.fisher.dtype).tiny)
        self.anchor.drop(model, (self.fisher - least) / spread)
