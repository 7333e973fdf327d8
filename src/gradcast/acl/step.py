"""What one labelled batch does: several updates of the model, each with its own unlabelled batch, then one of D."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gradcast.acl.discriminator import Discriminator
from gradcast.acl.losses import orthogonality
from gradcast.acl.settings import AclSettings
from gradcast.core import Batch, Labelled, Metrics, Signal, Unlabelled
from gradcast.environment import sent
from gradcast.epochs.core import Draw, Moment
from gradcast.epochs.signalled import add_signal, begin_update, mean_over
from gradcast.gradients.entropy import cross_entropy
from gradcast.gradients.sgd import Sgd
from gradcast.randomness import torch_generator
from gradcast.replicas import Replicas
from gradcast.signals.policy import Policy


@dataclass
class AclStep:
    """Cross entropy of the logits, plus the discriminator's loss turned round, plus orthogonality.

    Logits come from one pass and features from another, with other dropout masks, as in the published code. The
    unlabelled pass shows the shared module unlabelled images and the private module the labelled ones beside them.
    """

    remembers: ClassVar[tuple[str, ...]] = ("model", "discriminator", "signal", "sgd")
    model: Replicas
    discriminator: Discriminator
    settings: AclSettings
    sgd: Sgd
    signal: Signal | None
    policy: Policy

    def __call__(
        self, batch: Batch, draw: Draw, lr: Float[Tensor, " r"], judge_lr: Float[Tensor, " r"], moment: Moment
    ) -> Metrics:
        """Train on one labelled batch; ``draw`` gives the next unlabelled one or None."""
        updates = [self._update(batch, draw, lr, moment.named(update)) for update in range(self.settings.updates)]
        metrics = mean_over(updates)
        for judgement in range(self.settings.judgements):
            metrics["discriminator_loss"] = self._judge(batch, judge_lr, moment.named(f"judgement {judgement}"))
        sums = [self.model.theta.sum(1), *(weight.flatten(1).sum(1) for weight in self.discriminator.weights)]
        finite = torch.isfinite(torch.stack([*(update["loss"] for update in updates), *sums]).sum(0))
        return metrics | {"finite": finite}

    def _update(self, batch: Batch, draw: Draw, lr: Float[Tensor, " r"], name: str) -> Metrics:
        begin_update(self.model, self.signal, name)
        made = self.model.forward(batch.x, batch.task)
        loss, dz = cross_entropy(made.z, batch.y)
        seen = self.model.everything(batch.x)
        slopes, metrics = self.feature_losses(seen.z, batch)
        gradient = made.pull(dz) + seen.pull(slopes)
        if self.signal is not None:
            unlabelled = self._beside(batch, draw())
            gradient, told = add_signal(
                self.signal, self.model, Labelled(batch, made.z, dz, lr), gradient, unlabelled, self.policy
            )
            metrics |= told
        self.sgd.step([self.model.theta], [gradient.flat], lr)
        return metrics | {"loss": loss}

    def feature_losses(self, outputs: Float[Tensor, "r b columns"], batch: Batch) -> tuple[Tensor, Metrics]:
        """Gradient of the weighed losses of features with respect to all columns, and the losses."""
        zs, zp = self.features(outputs)
        told, turned = self.discriminator.judge(zs, _answers(batch), reversal=self.settings.reversal)
        alike, ds, dp = orthogonality(zs, zp)
        slopes = torch.cat(
            [
                torch.zeros_like(outputs[..., : self.model.heads.width]),
                self.settings.adversarial * turned + self.settings.orthogonal * ds,
                self.settings.orthogonal * dp,
            ],
            dim=-1,
        )
        return slopes, {"adversarial": told, "orthogonality": alike}

    def features(self, outputs: Float[Tensor, "r b columns"]) -> tuple[Tensor, Tensor]:
        """Shared and private ones."""
        zs, zp = outputs[..., self.model.heads.width :].chunk(2, dim=-1)
        return zs, zp

    def _beside(self, batch: Batch, unlabelled: Unlabelled | None) -> Unlabelled | None:
        """Unlabelled images with the labelled ones behind them, where there are equally many; else none."""
        if unlabelled is None or self.settings.private_input == "unlabelled":
            return unlabelled
        if unlabelled.x.shape[1] != batch.x.shape[1]:
            return None
        return replace(unlabelled, x=torch.cat([unlabelled.x, batch.x], dim=2))

    def _judge(self, batch: Batch, lr: Float[Tensor, " r"], name: str) -> Float[Tensor, " r"]:
        begin_update(self.model, None, name)
        with torch.no_grad():
            zs, _ = self.features(self.model.everything(batch.x).z)
        seeds, size = self.discriminator.seeds, zs.shape[1:]
        drawn = [torch.randn(size, generator=torch_generator(seed, "fake", name), dtype=zs.dtype) for seed in seeds]
        fake, scale = sent(torch.stack(drawn), zs.device), self.settings.discriminator_scale
        return self.discriminator.learn(zs, fake, _answers(batch), rate=lr, scale=scale)


def _answers(batch: Batch) -> Int[Tensor, "r b"]:
    """What the discriminator should say: the task, where 0 is for noise."""
    return torch.full_like(batch.y, batch.task + 1)
