"""How long a signal's logit gradients are, beside those that labels give."""

from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

Tau = Literal["batch", "previous", "per_sample"]

SMALLEST_NORM = (
    1e-12  # a bias-free ReLU network returns exactly zero when a layer is off; the row then contributes nothing
)


class Length:
    """``alpha`` times tau, the length of the rows of the last labelled batch's logit gradient.

    ``of="batch"`` takes their mean, ``"per_sample"`` each row's own. With ``"previous"``, unlabelled rows take the mean
    of the labelled batch before the last; the first batch has none before it, so they are zero there.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("tau",)

    def __init__(self, alpha: float, of: Tau = "batch") -> None:
        self.alpha, self.of = alpha, of
        self.tau: Tensor | None = None  # [*replicas, 1 or batch]; "previous" keeps it in place for the next step
        self.before: Tensor | None = None  # of the labelled batch before, where it is asked for

    def observe(self, dz: Float[Tensor, "*r b c"]) -> Float[Tensor, "*r"]:
        """Take the length of a labelled gradient, and say its mean."""
        norms = torch.linalg.vector_norm(dz.detach(), dim=-1)
        tau: Tensor = norms if self.of == "per_sample" else norms.mean(-1, keepdim=True)
        if self.of == "previous":
            kept = torch.zeros_like(tau) if self.tau is None else self.tau
            self.before = kept.clone()
            self.tau = kept.copy_(tau)
        else:
            self.tau = tau
        mean: Tensor = tau.mean(-1)
        return mean

    def rescale(self, rows: Float[Tensor, "*r b c"]) -> Float[Tensor, "*r b c"]:
        """Rows of any length brought to this one; zero rows stay zero."""
        return self._scaled(rows, self.tau)

    def rescale_unlabelled(self, rows: Float[Tensor, "*r u c"]) -> Float[Tensor, "*r u c"]:
        """The same for rows of unlabelled images, which may take the length of the batch before."""
        return self._scaled(rows, self.before if self.of == "previous" else self.tau)

    def _scaled(self, rows: Tensor, tau: Tensor | None) -> Tensor:
        if tau is None:
            raise RuntimeError("call learn() on a labelled batch first: it sets the length of a predicted gradient")
        if tau.shape[-1] not in (1, rows.shape[-2]):
            raise ValueError(
                f"tau per sample needs as many unlabelled as labelled images, got {rows.shape[-2]} and {tau.shape[-1]}"
            )
        rescaled: Tensor = self.alpha * tau.unsqueeze(-1) * unit(rows)
        return rescaled


def unit(rows: Float[Tensor, "*r b c"]) -> Float[Tensor, "*r b c"]:
    """Rows of length one; a zero row stays zero, and its gradient stays finite."""
    norms = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    return rows / torch.where(norms > SMALLEST_NORM, norms, 1.0)
