"""The signal *noise*: random numbers in place of the logit gradient, a control for every other signal."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.core import Batch, Labelled, LogitSignal, Metrics, Unlabelled
from gradcast.devices import to_device
from gradcast.gradients.length import Length
from gradcast.randomness import torch_generator
from gradcast.replicas.replicas import Replicas
from gradcast.signals.signal_entry import signal_entry
from gradcast.signals.signal_table import SignalTable
from gradcast.specs.context import Context
from gradcast.specs.table import Weight

Distribution = Literal["normal", "uniform"]  # of unit variance; from -1 to 1


class NoiseSpec(SignalTable):
    """Random logit gradients: a control without information."""

    name: Literal["noise"]
    distribution: Distribution = "normal"  # of each number of a logit gradient
    scaled: bool = False  # rows have length alpha * tau, as predicted ones have
    alpha: Weight = 0.001  # length of a row where ``scaled``, as a share of tau


class Noise(LogitSignal):
    """Fresh numbers for every image; with a length, rows are brought to it, without one they stay as drawn."""

    checkpointed: ClassVar[tuple[str, ...]] = ("generators", "length")

    def __init__(
        self,
        classes: int,
        generators: Sequence[torch.Generator],
        *,
        distribution: Distribution = "normal",
        length: Length | None = None,
    ) -> None:
        self.classes, self.generators, self.distribution, self.length = classes, list(generators), distribution, length
        self.drawn: Float[Tensor, "r u c"] | None = None  # keeps its place in memory

    def prepare(self, batch: Batch, unlabelled: Unlabelled | None) -> None:
        """A replica that uses no unlabelled batch takes no random number, as if it were alone."""
        if unlabelled is None:
            return
        images = unlabelled.first_view().x
        drawn = torch.zeros(*images.shape[:2], self.classes, dtype=images.dtype)
        for replica in unlabelled.drawn_by():
            drawn[replica] = self._draw(drawn.shape[1:], self.generators[replica], drawn.dtype)
        if self.drawn is None:
            self.drawn = torch.zeros_like(drawn, device=images.device)
        self.drawn.copy_(to_device(drawn, images.device))

    def _draw(self, shape: torch.Size, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
        if self.distribution == "normal":
            return torch.randn(shape, generator=generator, dtype=dtype)
        return 2 * torch.rand(shape, generator=generator, dtype=dtype) - 1

    def learn(self, model: Replicas, labelled: Labelled) -> Metrics:
        """Only the length of the labelled gradient is taken."""
        return {} if self.length is None else {"tau": self.length.observe(labelled.dz)}

    def slopes(
        self, model: Replicas, z: Float[Tensor, "r u c"], unlabelled: Unlabelled, task: int
    ) -> tuple[Float[Tensor, "r u c"], Metrics]:
        """The noise, whatever the logits are."""
        assert self.drawn is not None
        drawn, absent = self.drawn, model.heads.absent
        if absent is not None:
            drawn = drawn.where(z > absent, 0)
        return drawn if self.length is None else self.length.rescale(drawn), {}


def _build(table: NoiseSpec, context: Context) -> Noise:
    drawn = [torch_generator(seed, "directions") for seed in context.seeds]
    length = Length(table.alpha) if table.scaled else None
    return Noise(context.model.heads.width, drawn, distribution=table.distribution, length=length)


def _label(table: NoiseSpec) -> str:
    return "random directions" if table.scaled else f"{table.distribution} noise"


ENTRY = signal_entry(NoiseSpec, _build, _label, "one unlabelled pass", "control")
