"""A moving average of the weights: at a constant learning rate weights keep moving, their mean converges."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.replicas.replicas import Replicas


class Average:
    """Weights and running statistics, averaged over about the latest ``steps`` steps; nothing trains on it.

    The first ``steps`` steps count alike, so that the initial weights are soon forgotten; afterwards each new step has
    the weight ``1 / steps``.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("count", "theta", "buffers")

    def __init__(self, model: Replicas, steps: int) -> None:
        self.steps, self.count = steps, 0
        self.theta: Float[Tensor, "r p"] = model.theta.clone()
        self.buffers = {name: buffer.clone() for name, buffer in model.buffers.items()}

    def follow(self, model: Replicas) -> None:
        """One more step is done."""
        self.count += 1
        move(self.theta, self.buffers, model, 1 / min(self.count, self.steps))

    @torch.no_grad()
    def restart(self, model: Replicas, which: Bool[Tensor, " r"]) -> None:
        """These replicas' weights have been exchanged: their average is what they are now."""
        chosen = which.to(model.theta.device)
        self.theta[chosen] = model.theta[chosen]
        for name, mean in self.buffers.items():
            mean[chosen] = model.buffers[name][chosen]

    @contextmanager
    def shown(self, model: Replicas) -> Iterator[None]:
        """Within this context the model has the averaged weights; afterwards its own again."""
        places = [model.theta, *model.buffers.values()]
        own = [place.clone() for place in places]
        try:
            _put(places, [self.theta, *self.buffers.values()])
            yield
        finally:
            _put(places, own)


def shown(average: Average | None, model: Replicas) -> AbstractContextManager[None]:
    """Within this context the model has the weights that are evaluated."""
    return nullcontext() if average is None else average.shown(model)


@torch.no_grad()
def move(
    theta: Float[Tensor, "r p"], buffers: Mapping[str, Tensor], model: Replicas, share: float | Float[Tensor, ""]
) -> None:
    """Averages go a ``share`` of the way to the model's weights and statistics; counters are taken over."""
    theta.lerp_(model.theta, share)
    for name, mean in buffers.items():
        if mean.is_floating_point():
            mean.lerp_(model.buffers[name], share)
        else:
            mean.copy_(model.buffers[name])


@torch.no_grad()
def _put(places: list[Tensor], values: list[Tensor]) -> None:
    for place, value in zip(places, values, strict=True):
        place.copy_(value)
