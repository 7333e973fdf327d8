"""A model, a labelled batch and unlabelled images, for tests of signals."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gradcast.core import Batch, Labelled, Preview, Signal, Unlabelled
from gradcast.gradients.cross_entropy import cross_entropy
from gradcast.gradients.sgd import LearningRate
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from tests.helpers import batch, replicas

ALL = torch.tensor([True, True])


@dataclass(frozen=True)
class Scene:
    """Two replicas before a step."""

    model: Replicas
    batch: Batch
    unlabelled: Unlabelled
    lr: LearningRate = 0.1

    @property
    def preview(self) -> Preview:
        """Both kinds of images before the training passes."""
        return Preview(self.model, self.batch, self.unlabelled, self.lr)

    def learn(self, signal: Signal) -> dict[str, Tensor]:
        """Show the signal both kinds of images, then what the labelled pass leaves behind."""
        told = signal.look(self.preview)
        made = self.model.forward(self.batch.x, self.batch.task, statistics="separate")
        _, dz = cross_entropy(made.z, self.batch.y)
        return told | signal.learn(self.model, Labelled(self.batch, made.z, dz, self.lr, made.whole))

    def gradient(self, signal: Signal, **how: object) -> Tensor:
        """Parameter gradient of the unlabelled batch."""
        signal.prepare(self.batch, self.unlabelled)
        found, _ = signal.gradient(
            self.model,
            self.unlabelled,
            self.batch.task,
            **{"statistics": "separate", **how},  # type: ignore[arg-type]
        )
        return found.flat


def scene(*, task: int = 1, norm: str = "none", images: int = 6, views: int = 1, linear: bool = False) -> Scene:
    """Two masked heads of three classes; a network of one hidden layer, or none."""
    sizes = (6, 3) if linear else (6, 5, 3)
    model = replicas(2, sizes=sizes, heads=Heads.even(3, 2, masked=True), norm=norm)  # type: ignore[arg-type]
    pool = batch(model, size=images * views, seed=9).x
    return Scene(model, batch(model, task=task, seed=4), Unlabelled(pool, ALL, views))
