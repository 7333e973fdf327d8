"""The terms of adversarial continual learning: features that a discriminator cannot tell apart, unlike private ones."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gradcast.core import Batch, Labelled, Learner, Metrics, Terms
from gradcast.gradients.cross_entropy import cross_entropy
from gradcast.gradients.gradient import Gradient
from gradcast.learners.acl.discriminator import Discriminator
from gradcast.learners.acl.losses import orthogonality
from gradcast.learners.acl.rehearsal import Rehearsal
from gradcast.learners.acl.settings import AclSettings
from gradcast.replicas.replicas import Replicas


@dataclass
class Adversary(Learner):
    """Adds the discriminator's loss, turned round, and orthogonality to the loss of a step.

    Logits come from one pass and features from another, with other dropout masks, as in the published code. Images that
    are rehearsed have one pass for both, and each weighs as much as an image of the batch.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("discriminator", "rehearsal")
    discriminator: Discriminator
    settings: AclSettings
    rehearsal: Rehearsal | None = None

    def prepare(self, model: Replicas, batch: Batch) -> None:
        """Combine the modules of an earlier task with the present shared module."""
        if self.rehearsal is not None:
            self.rehearsal.prepare()

    def terms(self, model: Replicas, labelled: Labelled) -> Terms:
        """Of the batch's features, and of stored images."""
        batch = labelled.batch
        seen = model.everything(batch.x)
        slopes, told = self.losses(model, seen.z, batch.each_task)
        if self.rehearsal is None or self.rehearsal.stored is None:
            return Terms(seen.pull(slopes), metrics=told)
        rehearsed, loss = self._rehearse(self.rehearsal, model)
        weight = self.rehearsal.stored.y.shape[1] / batch.y.shape[1]
        return Terms(seen.pull(slopes) + Gradient(weight * rehearsed), metrics=told | {"rehearsal": loss})

    def _rehearse(self, rehearsal: Rehearsal, model: Replicas) -> tuple[Float[Tensor, "r p"], Float[Tensor, " r"]]:
        """Gradient of all losses of the stored images for the shared module, and how well they are classified."""
        assert rehearsal.stored is not None
        seen = model.everything(rehearsal.stored.x, theta=rehearsal.theta)
        slopes, _ = self.losses(model, seen.z, rehearsal.stored.tasks)
        loss, dz = cross_entropy(seen.z[..., : model.heads.logits], rehearsal.stored.y)
        slopes[..., : model.heads.logits] = dz
        return rehearsal.shared_part(seen.pull(slopes).flat), loss

    def losses(
        self, model: Replicas, outputs: Float[Tensor, "r b columns"], tasks: Int[Tensor, "r b"], parts: int = 1
    ) -> tuple[Tensor, Metrics]:
        """Gradient of the weighed losses of features with respect to all columns, and the losses.

        Of several ``parts`` that pass together only features of the same part are held against each other.
        """
        zs, zp = features(model, outputs)
        reversal = self.settings.reversal if self.settings.difference else -1.0
        told, turned = self.discriminator.judge(zs, tasks + 1, reversal=reversal)
        alike, ds, dp = self._difference(zs, zp, parts)
        slopes = torch.cat(
            [
                torch.zeros_like(outputs[..., : model.heads.logits]),
                self.settings.adversarial * turned + self.settings.orthogonal * ds,
                self.settings.orthogonal * dp,
            ],
            dim=-1,
        )
        return slopes, {"adversarial": told, "orthogonality": alike}

    def _difference(
        self, zs: Float[Tensor, "r b f"], zp: Float[Tensor, "r b f"], parts: int
    ) -> tuple[Float[Tensor, " r"], Float[Tensor, "r b f"], Float[Tensor, "r b f"]]:
        """How alike shared and private features are, and the gradients; zeros where it does not count."""
        if not self.settings.difference:
            return zs.new_zeros(len(zs)), torch.zeros_like(zs), torch.zeros_like(zp)
        alike, *slopes = orthogonality(*(z.unflatten(1, (parts, -1)) for z in (zs, zp)))
        ds, dp = (slope.flatten(1, 2) / parts for slope in slopes)
        return alike.mean(1), ds, dp


def features(model: Replicas, outputs: Float[Tensor, "r b columns"]) -> tuple[Tensor, Tensor]:
    """Shared and private ones."""
    zs, zp = outputs[..., model.heads.logits :].chunk(2, dim=-1)
    return zs, zp
