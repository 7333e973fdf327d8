"""The signal *rotation*: by how many quarter turns was the image turned?"""

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from gradcast.core import Batch, Labelled, Metrics, Signal, Unlabelled
from gradcast.devices import to_device
from gradcast.gradients.gradient import Gradient
from gradcast.randomness import torch_generator
from gradcast.replicas.replicas import Replicas, Statistics
from gradcast.signals.head import Head
from gradcast.signals.signal_entry import signal_entry
from gradcast.signals.signal_table import SignalTable
from gradcast.specs.context import Context
from gradcast.specs.table import Weight
from gradcast.streams.augment import quarter_turns


class RotationSpec(SignalTable):
    """Predicts by how many quarter turns an image was rotated."""

    name: Literal["rotation"]
    weight: Weight = 0.3  # of the cross entropy of the four directions


class Rotation(Signal):
    """Gradient of ``weight`` times the cross entropy of four answers."""

    checkpointed: ClassVar[tuple[str, ...]] = ("head", "generators")

    def __init__(self, head: Head, *, weight: float, generators: Sequence[torch.Generator]) -> None:
        self.head, self.weight, self.generators = head, weight, list(generators)
        self.turns: Int[Tensor, "r u"] | None = None  # keeps its place in memory

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint holds: the head that predicts rotations."""
        return self.head.state()

    def prepare(self, batch: Batch, unlabelled: Unlabelled | None) -> None:
        """Draw the turns; a replica that uses no unlabelled batch takes no random number, as if it were alone."""
        if unlabelled is None:
            return
        unlabelled = unlabelled.first_view()
        shape = unlabelled.x.shape[:2]
        drawn = torch.zeros(shape, dtype=torch.long)
        for replica in unlabelled.drawn_by():
            drawn[replica] = torch.randint(4, shape[1:], generator=self.generators[replica])
        if self.turns is None:
            self.turns = torch.zeros_like(drawn, device=unlabelled.x.device)
        self.turns.copy_(to_device(drawn, unlabelled.x.device))

    def learn(self, model: Replicas, labelled: Labelled) -> Metrics:
        """The head has the model's rate, which a schedule may change."""
        self.head.lr = labelled.lr
        return {}

    def gradient(
        self, model: Replicas, unlabelled: Unlabelled, task: int, *, statistics: Statistics = "separate"
    ) -> tuple[Gradient, Metrics]:
        """Turned images pass, each once."""
        assert self.turns is not None
        turns, unlabelled = self.turns, unlabelled.first_view()
        turned = quarter_turns(unlabelled.x.flatten(0, 1), turns.flatten()).view_as(unlabelled.x)

        def loss(answers: Tensor) -> Tensor:
            return cross_entropy(answers.flatten(0, 1), turns.flatten(), reduction="none").view_as(turns).mean(1)

        shown = Unlabelled(turned, unlabelled.used)
        return self.head.descend(model, shown, loss, weight=self.weight, statistics=statistics)


def _build(table: RotationSpec, context: Context) -> Rotation:
    head = context.head("rotation", [4])
    drawn = [torch_generator(seed, "turns") for seed in context.seeds]
    return Rotation(head, weight=table.weight, generators=drawn)


ENTRY = signal_entry(
    RotationSpec,
    _build,
    "rotation",
    "one unlabelled pass to the features",
    "features",
    "square",
    "label-free",
)
