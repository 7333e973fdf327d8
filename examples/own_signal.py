"""A signal of your own: the network shall be sure of what it says about unlabelled images (entropy minimisation).

Run it in this folder, beside the learner without it:

    gradcast run own_signal.toml

A ``LogitSignal`` says what the gradient at the logits of unlabelled images is; the rest is done for it. A ``Signal``
gives the gradient of the weights itself, from passes of its own. Both see R seeds at once.
"""

from jaxtyping import Float
from torch import Tensor

from gradcast import LogitSignal, Metrics, Replicas, Unlabelled


class Entropy(LogitSignal):
    """Gradient of ``weight`` times the mean entropy of the predicted probabilities."""

    def __init__(self, weight: float = 0.1) -> None:
        self.weight = weight

    def slopes(
        self, model: Replicas, z: Float[Tensor, "r u c"], unlabelled: Unlabelled, task: int
    ) -> tuple[Float[Tensor, "r u c"], Metrics]:
        """``-p (log p + H)`` for every image, divided by their number."""
        logs = z.log_softmax(-1)
        entropy = -(logs.exp() * logs).sum(-1, keepdim=True)
        dz = -logs.exp() * (logs + entropy) * (self.weight / z.shape[1])
        return dz, {"signal_loss": entropy.squeeze(-1).mean(-1)}
