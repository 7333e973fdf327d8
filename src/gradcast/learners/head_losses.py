"""What X-DER asks of past, present and later heads, and how stored logits of later heads are replaced."""

from itertools import groupby

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gradcast.core import Replay
from gradcast.gradients.cross_entropy import mean_cross_entropy
from gradcast.replicas.heads import Heads
from gradcast.signals.contrastive import contrast


def past_loss(heads: Heads, outputs: Float[Tensor, "r m columns"], drawn: Replay, task: int) -> Float[Tensor, " r"]:
    """Mean cross entropy over all heads before this task's; with ``masked`` heads, over each image's own."""
    z = heads.own(outputs, drawn.tasks) if heads.masked else outputs[..., : heads.seen_by[task - 1]]
    return mean_cross_entropy(z, drawn.y)


def later_margin(
    heads: Heads,
    outputs: Float[Tensor, "r n columns"],
    tasks: Int[Tensor, "r n"],
    weight: Float[Tensor, "r n"],
    *,
    task: int,
    margin: float,
) -> Float[Tensor, " r"]:
    """``max(0, max_later + margin - max_own)``, a weighed mean over images.

    ``own`` is the head of an image's task, ``later`` are those of tasks after this one.
    """
    later = outputs[..., heads.seen_by[task] : heads.logits].amax(-1)
    short = (later + margin - heads.own(outputs, tasks).amax(-1)).relu()
    return (weight * short).sum(1) / weight.sum(1)


def unused_contrast(
    heads: Heads, outputs: Float[Tensor, "r n columns"], who: Int[Tensor, "r n"], task: int, temperature: float
) -> Float[Tensor, " r"]:
    """The supervised contrastive loss of every head that no task has used yet, a mean over them and over images.

    Only columns of classes that are new with a later task are unused. Heads of equal width are compared at once.
    """
    unused = [heads.new_columns(later) for later in range(task + 1, heads.tasks)]
    unused = [own for own in unused if own.stop > own.start]
    losses = []
    for width, group in groupby(unused, key=lambda own: own.stop - own.start):
        run = list(group)
        split = outputs[..., run[0].start : run[-1].stop].unflatten(-1, (len(run), width)).movedim(2, 1)
        found = contrast(split.flatten(0, 1), who.unsqueeze(1).expand(-1, len(run), -1).flatten(0, 1), temperature)
        losses.append(found.unflatten(0, (-1, len(run))))
    return torch.cat(losses, 1).mean(1)


def transplanted(
    old: Float[Tensor, "r n c"],
    new: Float[Tensor, "r n c"],
    label: Int[Tensor, "r n"],
    columns: Bool[Tensor, " c"],
    gamma: float,
) -> Float[Tensor, "r n c"]:
    """``old`` with these columns of ``new``, lowered where the largest exceeds the label's logit u in ``old``.

    They are multiplied by ``gamma * u / largest``. Where u is not positive that would turn signs and has no bound;
    there they are moved down until the largest is u.
    """
    u = old.gather(-1, label.unsqueeze(-1))
    largest = new.masked_fill(~columns, -torch.inf).amax(-1, keepdim=True)
    lowered = torch.where(u > 0, gamma * u / largest * new, new + (u - largest))
    return torch.where(columns, torch.where(largest > u, lowered, new), old)
