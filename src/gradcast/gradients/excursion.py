"""A small step to either side along the labelled gradient, and what the model says of unlabelled images there.

Where a step on the unlabelled images would lead the labelled loss is, to first order, a matter of how their outputs
change along the labelled gradient: two passes tell that, whatever the images are to be trained on.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gradcast.gradients.cross_entropy import cross_entropy
from gradcast.gradients.sgd import LearningRate, along
from gradcast.replicas.replicas import Pass, Replicas

LENGTH = 0.01  # of the step to either side


@dataclass(frozen=True)
class Excursion:
    """Logits of the unlabelled images at the weights, and at ``size`` times a direction to either side."""

    here: Float[Tensor, "r u c"]
    ahead: Float[Tensor, "r u c"]
    behind: Float[Tensor, "r u c"]
    size: Float[Tensor, " r"]

    def derivative(self) -> Float[Tensor, "r u c"]:
        """Of the logits along the direction."""
        return (self.ahead - self.behind) / (2 * self.size.view(-1, 1, 1))

    def labels(self, lr: LearningRate) -> Float[Tensor, "r u c"]:
        """What the model says, one step on towards labels that are good for the labelled loss.

        The derivative of that loss after a step on labels is twice that of the probabilities along the direction,
        times the learning rate over the number of images; the latter two are the step size here.
        """
        slope = (self.ahead.softmax(-1) - self.behind.softmax(-1)) / self.size.view(-1, 1, 1)
        return on_simplex(self.here.softmax(-1) - along(lr, slope) * slope)


def labelled_pass(
    model: Replicas,
    x: Float[Tensor, "r b *shape"],
    y: Int[Tensor, "r b"],
    task: int,
    theta: Float[Tensor, "r p"] | None = None,
) -> tuple[Pass, Float[Tensor, "r b c"]]:
    """Labelled images in evaluation mode, and the loss's gradient at their logits.

    ``theta`` are other weights than the model's.
    """
    made = model.forward(x, task, statistics="frozen", theta=theta)
    return made, cross_entropy(made.z, y)[1]


def explore(
    model: Replicas,
    x: Float[Tensor, "r u *shape"],
    direction: Float[Tensor, "r p"],
    task: int,
    *,
    length: float = LENGTH,
) -> Excursion:
    """Three passes by running statistics; the model's weights are not touched.

    Those to either side differ by little, so they are made in the weights' own arithmetic; a direction may be coarser.
    """
    size = length / direction.norm(dim=1).clamp_min(torch.finfo(direction.dtype).tiny)

    def there(shift: Tensor) -> Tensor:
        return model.forward(x, task, statistics="frozen", theta=model.theta + shift * direction, exact=True).z

    shift = size.unsqueeze(1)
    with torch.no_grad():
        here = model.forward(x, task, statistics="frozen").z
        return Excursion(here, there(shift), there(-shift), size)


def on_simplex(rows: Float[Tensor, "*r c"]) -> Float[Tensor, "*r c"]:
    """Negative entries become zero, rows are divided by their sum; a zero row stays zero."""
    rows = rows.clamp_min(0)
    total = rows.sum(-1, keepdim=True)
    return rows / torch.where(total > 0, total, 1.0)
