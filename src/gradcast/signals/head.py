"""A small network on top of the features, one a replica, trained beside the model and thrown away with the run."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from gradcast.core import Metrics, Unlabelled
from gradcast.gradients.gradient import Gradient
from gradcast.gradients.optimizer import Optimizer
from gradcast.gradients.sgd import LearningRate, Sgd
from gradcast.randomness import seeded
from gradcast.replicas.replicas import Pass, Replicas, Statistics

EPS = 1e-5  # of BatchNorm


class Head:
    """Linear layers with ReLU between them, and their optimizer; plain SGD where none is given.

    ``normed``: BatchNorm before every ReLU, always with statistics of the rows at hand, as it never evaluates.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("weights", "norms", "optimizer")

    def __init__(
        self,
        sizes: Sequence[int],
        seeds: Sequence[int],
        name: str,
        like: Tensor,
        *,
        lr: LearningRate,
        optimizer: Optimizer | None = None,
        normed: bool = False,
    ) -> None:
        self.lr, self.optimizer = lr, optimizer or Sgd()
        self.weights = [
            stacked_layer(shape, seeds, f"{name} {index}", like) for index, shape in enumerate(pairwise(sizes))
        ]
        self.norms = [_norm(weight) for weight in self.weights[:-1]] if normed else []
        self.collected: list[Tensor] | None = None  # its gradient of the update under way, where it steps at the end

    def __call__(self, x: Float[Tensor, "r n f"]) -> Float[Tensor, "r n o"]:
        """Bias is the last column of each weight; before BatchNorm it changes nothing."""
        for index, weight in enumerate(self.weights):
            x = torch.baddbmm(weight[..., -1:].mT, x.relu() if index else x, weight[..., :-1].mT)
            if index < len(self.norms):
                x = _normalised(x, self.norms[index])
        return x

    @property
    def trained(self) -> list[Tensor]:
        """All that its optimizer moves."""
        return [*self.weights, *self.norms]

    def descend(
        self,
        model: Replicas,
        unlabelled: Unlabelled,
        loss: Callable[[Tensor], Float[Tensor, " r"]],
        *,
        weight: float,
        statistics: Statistics,
    ) -> tuple[Gradient, Metrics]:
        """The model's gradient of ``weight`` times a loss of the head's outputs; the head takes its own step."""
        made = model.embed(unlabelled.x, statistics=statistics, used=unlabelled.used)
        with torch.enable_grad():
            features = made.z.requires_grad_()
            found = loss(self(features))
            slope, *own = torch.autograd.grad(weight * found.sum(), [features, *self.trained])
        self.step(own, unlabelled.used)
        return made.pull(slope), {"signal_loss": found.detach()}

    def descend_with_logits(
        self,
        model: Replicas,
        unlabelled: Unlabelled,
        task: int,
        loss: Callable[[Tensor, Tensor], Float[Tensor, " r"]],
        *,
        statistics: Statistics,
    ) -> tuple[Gradient, Metrics]:
        """The same for a loss of the task's logits and of the features, of one pass; the loss calls the head itself."""
        made = self.watch(model, unlabelled, task, statistics=statistics)
        with torch.enable_grad():
            found = loss(made.z, made.features)
        return made.descend(found), {"signal_loss": found.detach()}

    def watch(
        self,
        model: Replicas,
        unlabelled: Unlabelled,
        task: int,
        *,
        statistics: Statistics,
        tasks: Int[Tensor, "r n"] | None = None,
    ) -> "Watched":
        """A pass whose loss is found later; ``tasks`` where images are of several."""
        made = model.forward(
            unlabelled.x, task, tasks=tasks, featured=True, statistics=statistics, used=unlabelled.used
        )
        features = made.whole[..., : model.featured.width]
        return Watched(self, made, made.z.requires_grad_(), features.requires_grad_(), unlabelled.used)

    def step(self, gradients: Sequence[Tensor], used: Bool[Tensor, " r"]) -> None:
        """Take a step of the head at once, for these replicas."""
        self.collect(gradients, used)
        self.update()

    @torch.no_grad()
    def collect(self, gradients: Sequence[Tensor], used: Bool[Tensor, " r"]) -> None:
        """The gradient of these replicas, for ``update``."""
        self.collected = [torch.where(used.view(-1, 1, 1), gradient, 0.0) for gradient in gradients]

    @torch.no_grad()
    def update(self) -> None:
        """A step along what was collected, or as the model's optimizer steps where nothing was: momentum, decay."""
        none = [torch.zeros_like(weight) for weight in self.trained]
        self.optimizer.step(self.trained, none if self.collected is None else self.collected, self.lr)
        self.collected = None

    def renew(self, which: Bool[Tensor, " r"]) -> None:
        """A new optimizer for these replicas."""
        if isinstance(self.optimizer, Sgd):
            self.optimizer.renew(which)

    def state(self) -> dict[str, Tensor]:
        """Its weights by name."""
        layers = {f"head.{index}": weight.detach() for index, weight in enumerate(self.weights)}
        return layers | {f"head.norm.{index}": norm.detach() for index, norm in enumerate(self.norms)}


@dataclass(frozen=True)
class Watched:
    """Logits and features of a pass, at which a loss has a gradient."""

    head: Head
    made: Pass
    z: Float[Tensor, "r n c"]
    features: Float[Tensor, "r n f"]
    used: Bool[Tensor, " r"]

    def descend(self, loss: Float[Tensor, " r"]) -> Gradient:
        """The model's gradient of a loss of both and of what the head says; the head takes its own step."""
        gradient = self.collect(loss)
        self.head.update()
        return gradient

    def collect(self, loss: Float[Tensor, " r"]) -> Gradient:
        """The same; the head waits for its ``update``."""
        dz, slope, *own = torch.autograd.grad(loss.sum(), [self.z, self.features, *self.head.trained])
        self.head.collect(own, self.used)
        return self.made.pull(dz, pad(slope, (0, self.made.whole.shape[-1] - slope.shape[-1])))


def stacked_layer(shape: tuple[int, int], seeds: Sequence[int], name: str, like: Tensor) -> Float[Tensor, "r o i"]:
    """One linear layer a seed, bias in the last column; uniform, as linear layers usually start."""
    fan_in, fan_out = shape
    rows = []
    for seed in seeds:
        with seeded(seed, name):
            rows.append((2 * torch.rand(fan_out, fan_in + 1) - 1) / math.sqrt(fan_in))
    return torch.stack(rows).to(device=like.device, dtype=like.dtype).requires_grad_()


def _norm(weight: Float[Tensor, "r o i"]) -> Float[Tensor, "r 2 o"]:
    """Gain 1 and shift 0 for the outputs of a layer."""
    start = weight.new_tensor([1.0, 0.0]).view(1, 2, 1)
    return start.expand(len(weight), 2, weight.shape[1]).clone().requires_grad_()


def _normalised(x: Float[Tensor, "r n o"], norm: Float[Tensor, "r 2 o"]) -> Float[Tensor, "r n o"]:
    """Mean 0 and variance 1 over the rows of each replica, then gain and shift."""
    gain, shift = norm.unsqueeze(2).unbind(1)
    variance, mean = torch.var_mean(x, dim=1, correction=0, keepdim=True)
    return (x - mean) * (variance + EPS).rsqrt() * gain + shift
