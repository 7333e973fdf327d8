"""Hindsight anchors: images of a class that the network would forget first, found by gradient ascent on pixels."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from gradcast.gradients.optimizer import Optimizer
from gradcast.networks.featured import PREFIX, Featured
from gradcast.replicas.replicas import Replicas

STEPS = 100  # of gradient ascent
Distance = Callable[[Tensor, Tensor], Tensor]  # of each row from another


@dataclass
class RunningMeans:
    """``decay`` times the mean so far plus the rest of a batch's mean, for several groups; a first mean is taken whole.

    Values keep their place in memory.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("value", "known")
    decay: float
    value: Float[Tensor, "r g n"] | None = field(default=None, init=False)
    known: Bool[Tensor, "r g"] | None = field(default=None, init=False)  # groups that have a mean

    def follow(
        self, rows: Float[Tensor, "r b n"], member: Float[Tensor, "r b g"], going: Bool[Tensor, "r 1"] | None
    ) -> None:
        """Rows of a batch, and 1 in the group of each; replicas that are not ``going`` keep what they have."""
        count = member.sum(1)
        if self.value is None or self.known is None:
            self.value = rows.new_zeros(*count.shape, rows.shape[2])
            self.known = torch.zeros_like(count, dtype=torch.bool)
        mean = member.mT @ rows / count.clamp_min(1).unsqueeze(-1)
        moved = torch.where(self.known.unsqueeze(-1), self.decay * self.value + (1 - self.decay) * mean, mean)
        here = count > 0 if going is None else (count > 0) & going
        self.value.copy_(torch.where(here.unsqueeze(-1), moved, self.value))
        self.known.logical_or_(here)

    def forget(self) -> None:
        """The next mean of every group is a first one."""
        if self.value is not None and self.known is not None:
            self.value.zero_()
            self.known.zero_()


@dataclass(frozen=True)
class Ascent:
    """Raises ``CE(e; w_M) - CE(e; w) - gamma * distance(phi(e), phi)`` for every image e, in evaluation mode.

    ``w`` are the model's weights and ``w_M`` those of ``proxy``. The loss is over the classes that ``task`` sees.
    """

    model: Replicas
    proxy: Float[Tensor, "r p"]  # w_M
    task: int
    gamma: float
    distance: Distance

    def __call__(
        self,
        start: Float[Tensor, "r k *shape"],
        y: Int[Tensor, "r k"],
        phi: Float[Tensor, "r k f"],
        optimizer: Optimizer,
        rate: float,
    ) -> Float[Tensor, "r k *shape"]:
        """The images after ``STEPS`` steps from these."""
        e = start.clone()
        networks = [Featured(module, self.model.heads.outputs) for module in self.model.modules]
        views = self.model.parameters(self.proxy)
        for _ in range(STEPS):
            slopes = []
            for replica, network in enumerate(networks):
                proxy = {PREFIX + name: value[replica] for name, value in views.items()}
                slopes.append(self._slope(network, proxy, e[replica], y[replica], phi[replica]))
            optimizer.step([e], [torch.stack(slopes)], rate)
        return e

    def _slope(
        self, network: Featured, proxy: dict[str, Tensor], e: Tensor, y: Tensor, phi: Tensor
    ) -> Float[Tensor, "k *shape"]:
        """Of what descent lowers, for the images of one replica."""
        with torch.enable_grad():
            e = e.detach().requires_grad_()
            now, later = network(e), functional_call(network, proxy, (e,))
            away = self.distance(now[:, : network.width], phi).sum()
            worse = self._loss(now[:, network.width :], y) - self._loss(later[:, network.width :], y)
            (slope,) = torch.autograd.grad(worse + self.gamma * away, e)
        return slope

    def _loss(self, outputs: Float[Tensor, "k columns"], y: Int[Tensor, " k"]) -> Float[Tensor, ""]:
        return cross_entropy(self.model.heads.columns(outputs, self.task), y, reduction="sum")


def stretched(e: Float[Tensor, "r k *shape"]) -> Float[Tensor, "r k *shape"]:
    """Every image scaled so that its numbers reach from 0 to 1."""
    flat = e.flatten(2)
    least, most = flat.amin(-1, keepdim=True), flat.amax(-1, keepdim=True)
    return ((flat - least) / (most - least).clamp_min(torch.finfo(e.dtype).tiny)).view_as(e)
