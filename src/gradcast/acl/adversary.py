"""The terms of adversarial continual learning: features that a discriminator cannot tell apart, unlike private ones."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gradcast.acl.discriminator import Discriminator
from gradcast.acl.losses import orthogonality
from gradcast.acl.settings import AclSettings
from gradcast.core import Batch, Learner, Metrics
from gradcast.gradients.gradient import Gradient
from gradcast.replicas import Replicas


@dataclass
class Adversary(Learner):
    """Adds the discriminator's loss, turned round, and orthogonality to the loss of a step.

    Logits come from one pass and features from another, with other dropout masks, as in the published code.
    """

    remembers: ClassVar[tuple[str, ...]] = ("discriminator",)
    discriminator: Discriminator
    settings: AclSettings

    def terms(self, model: Replicas, batch: Batch) -> tuple[Gradient, Metrics]:
        """Of the batch's features."""
        seen = model.everything(batch.x)
        slopes, told = self.losses(model, seen.z, batch)
        return seen.pull(slopes), told

    def losses(
        self, model: Replicas, outputs: Float[Tensor, "r b columns"], batch: Batch, parts: int = 1
    ) -> tuple[Tensor, Metrics]:
        """Gradient of the weighed losses of features with respect to all columns, and the losses.

        Of several ``parts`` that pass together only features of the same part are held against each other.
        """
        zs, zp = features(model, outputs)
        told, turned = self.discriminator.judge(zs, answers(batch), reversal=self.settings.reversal)
        found = orthogonality(*(z.unflatten(1, (parts, -1)) for z in (zs, zp)))
        alike, ds, dp = found[0].mean(1), *(slope.flatten(1, 2) / parts for slope in found[1:])
        slopes = torch.cat(
            [
                torch.zeros_like(outputs[..., : model.heads.width]),
                self.settings.adversarial * turned + self.settings.orthogonal * ds,
                self.settings.orthogonal * dp,
            ],
            dim=-1,
        )
        return slopes, {"adversarial": told, "orthogonality": alike}


def features(model: Replicas, outputs: Float[Tensor, "r b columns"]) -> tuple[Tensor, Tensor]:
    """Shared and private ones."""
    zs, zp = outputs[..., model.heads.width :].chunk(2, dim=-1)
    return zs, zp


def answers(batch: Batch) -> Int[Tensor, "r b"]:
    """What the discriminator should say: the task, where 0 is for noise."""
    return torch.full_like(batch.y, batch.task + 1)
