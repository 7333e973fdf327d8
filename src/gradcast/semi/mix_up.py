"""Mix-up: labelled image i and unlabelled image i make one."""

from collections.abc import Sequence
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from gradcast.core import Batch
from gradcast.semi.core import Moment
from gradcast.semi.meta_labels import MetaLabels
from gradcast.signals.mixtures import Shares, mix, mix_labels


class MixUp:
    """In a proportion from Beta(``beta``, ``beta``), a pair at a time; ``partner`` says what the unlabelled are."""

    checkpointed: ClassVar[tuple[str, ...]] = ("shares",)

    def __init__(self, partner: MetaLabels, beta: float, seeds: Sequence[int]) -> None:
        self.partner, self.shares = partner, Shares(beta, seeds)

    def prepare(self, batch: Batch) -> None:
        """Draw the proportions."""
        self.shares.draw(range(len(batch.y)), batch.y.shape[1], batch.x)

    def mixtures(self, moment: Moment) -> tuple[Float[Tensor, "r b *shape"], Float[Tensor, "r b c"]]:
        """Images and labels."""
        shares, label = self.shares.values, self.partner.label
        assert shares is not None
        assert label is not None
        return mix(moment.batch.x, moment.x, shares), mix_labels(moment.batch.y, label, shares)
