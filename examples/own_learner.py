"""A learner of your own: weights are drawn back to where the last task left them.

Run it in this folder, beside plain fine-tuning:

    gradcast run own_learner.toml

``learner.name = "python"`` and ``learner.path = "own_learner:Anchored"`` name the class; further keys of the table are
its keyword arguments. A learner sees R seeds at once: weights are ``model.theta`` of shape ``[R, P]``.
"""

from typing import ClassVar

from torch import Tensor

from gradcast import Gradient, Labelled, Learner, Replicas, TaskImages, Terms


class Anchored(Learner):
    """Adds ``strength * |w - w*|^2`` to the loss, where ``w*`` are the weights at the end of the last task."""

    checkpointed: ClassVar[tuple[str, ...]] = ("anchor",)  # attributes that a checkpoint has to hold

    def __init__(self, strength: float = 0.1) -> None:
        self.strength = strength
        self.anchor: Tensor | None = None

    def task_ends(self, model: Replicas, images: TaskImages) -> None:
        """Remember the weights. ``images.batches(size)`` would give the task's labelled images."""
        self.anchor = model.theta.clone()

    def terms(self, model: Replicas, labelled: Labelled) -> Terms | None:
        """The gradient of the penalty, and its size for the log; nothing in the first task."""
        if self.anchor is None:
            return None
        away = model.theta - self.anchor
        return Terms(Gradient(2 * self.strength * away), metrics={"penalty": self.strength * away.square().sum(1)})
