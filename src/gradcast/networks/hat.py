"""Hard attention to the task: gates that a task learns for every unit, and weights that earlier tasks' gates protect.

Between backward pass and step come ``protect`` for the layers and ``compensate`` for the embeddings; other gradients,
such as a signal's, are added before that. After the step comes ``clip_embeddings``. When a task is over, its gates at
the steepest slope join the ``cumulative`` ones.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gradcast.networks.alexnet import CHANNELS, WIDTHS, Shape, stages

Gates = list[Tensor]  # one row a layer, one number between 0 and 1 a unit (a channel of a convolution)

STEEPEST = 400.0  # the slope s at the end of an epoch
REACH = 6.0  # embeddings stay within
EXPONENT = 50.0  # cosh of more than that is as good as infinite
FACTOR = 0.75  # of the regulariser


def slope(batch: int, batches: int, steepest: float = STEEPEST) -> float:
    """``s``, which rises from ``1 / steepest`` at an epoch's first batch to ``steepest`` at its last."""
    share = 1.0 if batches == 1 else batch / (batches - 1)
    return 1 / steepest + (steepest - 1 / steepest) * share


def cumulative(before: Gates | None, now: Gates) -> Gates:
    """The larger of earlier tasks' gates and this one's, unit by unit, without a graph."""
    own = [gate.detach() for gate in now]
    return own if before is None else [torch.maximum(old, new) for old, new in zip(before, own, strict=True)]


def regulariser(now: Gates, before: Gates | None, factor: float = FACTOR) -> Float[Tensor, ""]:
    """``factor * sum a (1 - a') / sum (1 - a')``: the share of unused units that a task takes; using others is free."""
    unused = [torch.ones_like(gate) for gate in now] if before is None else [1 - old for old in before]
    taken = torch.stack([(gate * left).sum() for gate, left in zip(now, unused, strict=True)]).sum()
    whole = torch.stack([left.sum() for left in unused]).sum()
    return factor * taken / whole.clamp_min(torch.finfo(whole.dtype).tiny)


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
    gradient: Float[Tensor, "*any"], embedding: Float[Tensor, "*any"], s: float, steepest: float = STEEPEST
) -> Float[Tensor, "*any"]:
    """``(s_max / s) (cosh(s e) + 1) / (cosh(e) + 1)`` times the gradient: that of a gate of slope one, times s_max."""
    steep = torch.cosh((s * embedding).clamp(-EXPONENT, EXPONENT)) + 1
    return gradient * (steepest / s) * steep / (torch.cosh(embedding) + 1)


class HatNetwork(nn.Module):
    """The AlexNet-like body with a gate behind every layer, and a linear layer of its own for each task."""

    def __init__(
        self,
        tasks: int,
        outputs: int,
        *,
        shape: Shape,
        channels: Sequence[int] = CHANNELS,
        widths: Sequence[int] = WIDTHS,
    ) -> None:
        super().__init__()
        made = stages(shape, channels, widths)
        self.layers = nn.ModuleList([layer for layer, _ in made])
        self.rest = nn.ModuleList([rest for _, rest in made])
        self.embeddings = nn.ParameterList([torch.randn(tasks, units) for units in (*channels, *widths)])
        self.heads = nn.ModuleList([nn.Linear(widths[-1], outputs) for _ in range(tasks)])

    def gates(self, task: int, s: float = STEEPEST) -> Gates:
        """``sigmoid(s e)`` of every layer."""
        return [torch.sigmoid(s * embedding[task]) for embedding in self.embeddings]

    def forward(
        self, x: Float[Tensor, "b c h w"], task: int, s: float = STEEPEST
    ) -> tuple[Float[Tensor, "b k"], Gates]:
        """Logits of the task, and the gates they passed."""
        gates, h = self.gates(task, s), x
        for layer, rest, gate in zip(self.layers, self.rest, gates, strict=True):
            h = rest(layer(h.flatten(1) if isinstance(layer, nn.Linear) else h))
            h = h * gate.view(-1, *[1] * (h.dim() - 2))
        return self.heads[task](h), gates

    @torch.no_grad()
    def protect(self, before: Gates | None) -> None:
        """Take from the gradients of all layers what would change units that earlier tasks use."""
        if before is None:
            return
        inputs: Tensor | None = None
        for layer, gate in zip(self.layers, before, strict=True):
            assert isinstance(layer, nn.Conv2d | nn.Linear)
            assert layer.bias is not None
            if layer.weight.grad is not None and layer.bias.grad is not None:
                layer.weight.grad *= free_share(gate, inputs, layer.weight)
                layer.bias.grad *= 1 - gate
            inputs = gate

    @torch.no_grad()
    def compensate(self, s: float, steepest: float = STEEPEST) -> None:
        """Bring the gradients of all embeddings to what they would be at slope one, times s_max."""
        for embedding in self.embeddings:
            if embedding.grad is not None:
                embedding.grad.copy_(compensated(embedding.grad, embedding, s, steepest))

    @torch.no_grad()
    def clip_embeddings(self) -> None:
        """After a step: beyond their reach gates hardly move."""
        for embedding in self.embeddings:
            embedding.clamp_(-REACH, REACH)
