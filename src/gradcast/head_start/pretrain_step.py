"""One step of a head start: unlabelled images, signals, an optimizer."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.core import Batch, Feeds, Metrics
from gradcast.gradients.gradient import Gradient
from gradcast.gradients.optimizer import Optimizer
from gradcast.replicas.replicas import Replicas
from gradcast.signals.pseudo import Attached, join


@dataclass
class PretrainStep:
    """The sum of the signals' gradients, one step of the optimizer; BatchNorm's running statistics follow the pool.

    Dropout drops nothing: it would make two views of an image unlike each other in ways that nobody chose.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("count", "model", "signals", "optimizer")
    model: Replicas
    signals: Sequence[Attached]
    optimizer: Optimizer
    rate: Float[Tensor, " r"]  # keeps its place in memory: signals have it too
    count: int = field(default=0, init=False)  # steps begun

    def __call__(self, batch: Batch, unlabelled: Feeds = ()) -> Metrics:
        """``batch`` has no images: there are no labels."""
        self.prepare(batch, unlabelled)
        return self.advance(batch, unlabelled)

    def networks(self) -> list[Replicas]:
        """Whose random numbers it takes."""
        return [self.model]

    def kind(self, batch: Batch) -> Hashable:
        """All steps are alike."""
        return None

    def prepare(self, batch: Batch, unlabelled: Feeds) -> None:
        """What the host decides before a step."""
        self.model.chance.begin(f"head start {self.count}")
        self.count += 1
        for own in self.signals:
            own.signal.prepare(batch, own.of(unlabelled))

    def advance(self, batch: Batch, unlabelled: Feeds) -> Metrics:
        """The part of the step that the device computes alone."""
        total: Gradient | None = None
        metrics: Metrics = {}
        with self.model.chance.silent():
            for own in self.signals:
                images = own.of(unlabelled)
                assert images is not None
                found, told = own.signal.gradient(self.model, images, 0, statistics="update")
                total = found if total is None else total + found
                join(metrics, told, own.name)
        assert total is not None
        self._move(total.flat)
        loss = torch.stack([value for name, value in metrics.items() if name.endswith("signal_loss")]).sum(0)
        finite = torch.isfinite(loss + self.model.theta.sum(1))
        return {"loss": loss, **metrics, "finite": finite}

    @torch.no_grad()
    def _move(self, gradient: Float[Tensor, "r p"]) -> None:
        """Weights that ask for no gradient are not decayed either."""
        theta, trained = self.model.theta, self.model.trained
        before = None if trained is None else theta.clone()
        self.optimizer.step([theta], [gradient], self.rate)
        if before is not None and trained is not None:
            theta.copy_(torch.where(trained > 0, theta, before))
