"""Hard attention to the task: gates that a task learns for every unit, and weights that earlier tasks' gates protect.

Formulas and the network; ``learners/hat.py`` trains it. The network knows one task at a time: its gates and its head.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gradcast.networks.alexnet import CHANNELS, WIDTHS, Shape, stages
from gradcast.networks.gates import gated

STEEPEST = 400.0  # the slope s at the end of an epoch
REACH = 6.0  # embeddings stay within
EXPONENT = 50.0  # cosh of more than that is as good as infinite
FACTOR = 0.75  # of the regulariser


def slope(batch: int, batches: int, steepest: float = STEEPEST) -> float:
    """``s``, which rises from ``1 / steepest`` at an epoch's first batch to ``steepest`` at its last."""
    share = 1.0 if batches == 1 else batch / (batches - 1)
    return 1 / steepest + (steepest - 1 / steepest) * share


def gates(embedding: Float[Tensor, "*r u"], s: float | Float[Tensor, "*ones"]) -> Float[Tensor, "*r u"]:
    """``sigmoid(s e)``, a number between 0 and 1 a unit (a channel of a convolution)."""
    return torch.sigmoid(s * embedding)


def regulariser(
    now: Float[Tensor, "*r u"], before: Float[Tensor, "*r u"], factor: float = FACTOR
) -> tuple[Float[Tensor, "*r"], Float[Tensor, "*r u"]]:
    """``factor * sum a (1 - a') / sum (1 - a')`` and its gradient for the gates a of all layers.

    That is the share of unused units that a task takes; using those of earlier tasks, whose gates are a', is free.
    """
    unused = 1 - before
    whole = unused.sum(-1, keepdim=True).clamp_min(torch.finfo(now.dtype).tiny)
    slope = factor * unused / whole
    return (now * slope).sum(-1), slope


def free_share(
    after: Float[Tensor, " o"], before: Float[Tensor, " i"] | None, weight: Float[Tensor, "o w *kernel"]
) -> Float[Tensor, "o w *ones"]:
    """``1 - min(a_i, a_j)`` for every weight from unit j to unit i, to multiply its gradient with.

    ``before`` None: the inputs are images, which all tasks use. Where maps were made rows, each unit j is followed by
    as many weights as its map has pixels.
    """
    if before is None:
        free = (1 - after).unsqueeze(1).expand(-1, weight.shape[1])
    else:
        columns = before.repeat_interleave(weight.shape[1] // len(before))
        free = 1 - torch.minimum(after.unsqueeze(1), columns)
    return free.reshape(*free.shape, *[1] * (weight.dim() - 2))


def compensated(
    gradient: Float[Tensor, "*any"],
    embedding: Float[Tensor, "*any"],
    s: float | Float[Tensor, "*ones"],
    steepest: float = STEEPEST,
) -> Float[Tensor, "*any"]:
    """``(s_max / s) (cosh(s e) + 1) / (cosh(e) + 1)`` times the gradient: that of a gate of slope one, times s_max."""
    steep = torch.cosh((s * embedding).clamp(-EXPONENT, EXPONENT)) + 1
    return gradient * (steepest / s) * steep / (torch.cosh(embedding) + 1)


class HatNetwork(nn.Module):
    """The AlexNet-like body with a gate behind every layer; embeddings and the last linear layer are one task's own.

    ``slope`` is the steepest but for training steps.
    """

    slope: Tensor

    def __init__(
        self,
        outputs: int,
        *,
        shape: Shape,
        channels: Sequence[int] = CHANNELS,
        widths: Sequence[int] = WIDTHS,
        steepest: float = STEEPEST,
    ) -> None:
        super().__init__()
        made = stages(shape, channels, widths)
        self.layers = nn.ModuleList([layer for layer, _ in made])
        self.rest = nn.ModuleList([rest for _, rest in made])
        self.embeddings = nn.ParameterList([torch.randn(units) for units in (*channels, *widths)])
        self.head = nn.Linear(widths[-1], outputs)
        self.register_buffer("slope", torch.tensor(steepest))

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b k"]:
        h = x
        for layer, rest, embedding in zip(self.layers, self.rest, self.embeddings, strict=True):
            h = gated(rest(layer(h.flatten(1) if isinstance(layer, nn.Linear) else h)), embedding, self.slope)
        logits: Tensor = self.head(h)
        return logits
