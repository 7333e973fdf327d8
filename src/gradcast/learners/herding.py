"""Herding: images of a class, chosen one by one, whose mean output stays as near as can be to the class's own."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from gradcast.core import Batch, TaskImages
from gradcast.networks.cosine import direction
from gradcast.replicas.heads import Heads
from gradcast.replicas.pass_types import Statistics
from gradcast.replicas.replicas import Replicas

CHUNK = 256  # images a pass, where features of a whole task are taken
ALL = 2**62  # images: more than a task has
TIE = 1e-4  # share by which distances from a mean may differ and count as equal
Outputs = Callable[[Tensor], Tensor]
Choose = Callable[[Float[Tensor, "n f"], int], Int[Tensor, " chosen"]]


def herd(
    outputs: Outputs, x: Shaped[Tensor, "n *shape"], count: int, *, slack: float = 0.0
) -> Shaped[Tensor, "chosen *shape"]:
    """At most ``count`` of these images, in the order in which they are chosen.

    Every choice brings the mean output of the chosen ones nearest to the mean of all. The chosen ones pass anew before
    each further choice: with BatchNorm their outputs depend on one another. Of images that are farther by no more than
    a share ``slack`` of the distance the first is chosen: two images are equally far from their own mean.
    """
    if not len(x):
        return x
    mean, each = outputs(x).mean(0), outputs(x)
    chosen: list[int] = []
    for number in range(min(count, len(x))):
        before = outputs(x[chosen]).sum(0) if chosen else torch.zeros_like(mean)
        away = (mean - (each + before) / (number + 1)).norm(dim=1)
        away[chosen] = torch.inf
        chosen.append(int((away <= (1 + slack) * away.min()).int().argmax()) if slack else int(away.argmin()))
    return x[chosen]


def rows_by_class(
    heads: Heads, batch: Batch, counts: Sequence[int], features: Float[Tensor, "r n f"], choose: Choose
) -> Int[Tensor, "r m"]:
    """Rows of the batch that ``choose`` takes by their features, so many of each class of its task.

    Every replica has as many in all; some come twice where a class has too few.
    """
    places = torch.where(batch.each_task == batch.task, heads.places(batch.y, batch.task), -1)
    found = []
    for own, of in zip(features, places, strict=True):
        members = ((of == place).nonzero().flatten() for place in range(len(counts)))
        chosen = torch.cat([rows[choose(own[rows], count)] for rows, count in zip(members, counts, strict=True)])
        found.append(chosen[torch.arange(sum(counts), device=chosen.device) % len(chosen)])
    return torch.stack(found)


@torch.no_grad()
def directions(model: Replicas, x: Float[Tensor, "r n *shape"]) -> Float[Tensor, "r n f"]:
    """Features of length one, in evaluation mode."""
    parts = [model.embed(part, statistics="frozen").z for part in x.split(CHUNK, 1)]
    return direction(torch.cat(parts, 1))


@torch.no_grad()
def exemplars(model: Replicas, images: TaskImages, counts: Sequence[int]) -> Batch:
    """So many images of each class of a task, chosen by directions of features; some come twice where there are few."""

    def choose(own: Tensor, count: int) -> Tensor:
        return herd(own.__getitem__, torch.arange(len(own), device=own.device), count, slack=TIE)

    batch = next(images.batches(ALL))
    rows = rows_by_class(model.heads, batch, counts, directions(model, batch.x), choose)
    every = torch.arange(model.count, device=rows.device).unsqueeze(1)
    return Batch(batch.x[every, rows], batch.y[every, rows], batch.task)


@contextmanager
def batch_statistics(module: nn.Module, statistics: Statistics) -> Iterator[nn.Module]:
    """A network whose BatchNorm does this meanwhile; all else, such as dropout, is as in evaluation."""
    before = [buffer.clone() for buffer in module.buffers()]
    for layer in module.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            layer.train(statistics != "frozen")
    try:
        with torch.no_grad():
            yield module
    finally:
        module.eval()
        for buffer, old in zip(module.buffers(), before, strict=True) if statistics == "separate" else ():
            buffer.copy_(old)
