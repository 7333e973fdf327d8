"""Dark experience replay: replayed images keep the logits that they had when they were stored."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gradcast.core import Batch, Labelled, Learner, Replay, Terms
from gradcast.gradients.cross_entropy import cross_entropy
from gradcast.learners.learner_entry import learner_entry
from gradcast.learners.learner_table import ReservoirTable
from gradcast.memories.reservoir import Reservoir
from gradcast.replicas.replicas import Replicas
from gradcast.specs.context import Context
from gradcast.specs.table import Rate, Weight
from gradcast.streams.reaugment import Reaugment

LOGITS = "logits"  # the field of the memory


class DarkTable(ReservoirTable):
    """Learners that store logits."""

    lr: Rate = 0.03
    alpha: Weight = 0.3  # weight of the distance
    store: Literal["first", "every"] = "every"  # epochs that offer images; logits of the first are hardly trained
    omitted_defaults: ClassVar[tuple[str, ...]] = ("capacity",)


class DerSpec(DarkTable):
    """Dark experience replay: the squared distance from stored logits joins the loss."""

    name: Literal["der"]


@dataclass
class Der(Learner):
    """Adds ``alpha`` times the squared distance, a mean over replayed images and all columns of the output layer.

    A batch is stored with the logits of its own training pass, before the step. The replayed images have a pass of
    their own. DER++ adds ``beta`` times the cross entropy of as many other replayed images, which have a third pass,
    made side by side with the second.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("memory",)
    memory: Reservoir
    count: int = 10
    alpha: float = 0.3
    beta: float = 0.0  # 0: DER
    augment: Reaugment | None = None
    every: bool = False  # whether every epoch offers its images to the memory, or the first alone
    drawn: Replay | None = field(default=None, init=False)
    labelled: Replay | None = field(default=None, init=False)  # replayed for their labels
    slots: dict[int, Int[Tensor, "r b"]] = field(default_factory=dict, init=False)  # of the batch, by its size

    def prepare(self, model: Replicas, batch: Batch) -> None:
        """Draw from the past, then give the batch's images slots; their logits follow."""
        self.drawn = self.memory.draw(self.count)
        self.labelled = self.memory.draw(self.count, turn=1) if self.beta else None
        slots = torch.full_like(batch.y, self.memory.size)  # the slot of what is not kept
        if (new := batch.to_store(every=self.every)) is not None:
            empty = batch.x.new_zeros(*new.y.shape, model.heads.outputs)
            slots[:, : new.y.shape[1]] = self.memory.write(new, {LOGITS: empty})
        size = batch.y.shape[1]
        self.slots[size] = self.slots[size].copy_(slots) if size in self.slots else slots

    def kind(self) -> Hashable:
        """Whether there is anything to replay."""
        return self.drawn is None

    def shown(self, model: Replicas, x: Float[Tensor, "r n *shape"]) -> Float[Tensor, "r n *shape"]:
        """Augmented anew in every update; the memory has the images as they came."""
        return x if self.augment is None else self.augment(x, model.chance.labelled)

    def terms(self, model: Replicas, labelled: Labelled) -> Terms | None:
        """Store the batch's logits, and hold the replayed images to theirs."""
        size = labelled.batch.y.shape[1]
        finite = torch.nan_to_num(labelled.outputs[:, :size])  # a step that is undone leaves nothing that spreads
        self.memory.update(self.slots[size], {LOGITS: finite})
        if self.drawn is None:
            return None
        drawn = [self.drawn] if self.labelled is None else [self.drawn, self.labelled]
        made = model.side_by_side(torch.stack([self.shown(model, each.x) for each in drawn], 1))
        away = made.z[:, : self.count] - self.drawn.fields[LOGITS]
        metrics = {"distance": away.square().mean((1, 2))}
        slopes = [2 * self.alpha / away[0].numel() * away]
        if self.labelled is not None:
            task, tasks = labelled.batch.task, self.labelled.tasks
            outputs = made.z[:, self.count :]
            replayed, dz = cross_entropy(model.heads.columns_at(outputs, tasks, task), self.labelled.y)
            metrics["replay_loss"] = replayed
            slopes.append(model.heads.at_outputs(self.beta * dz, outputs, tasks, task))
        return Terms(made.pull(torch.cat(slopes, 1)), metrics=metrics)


def _build(table: DerSpec, context: Context) -> Der:
    memory = Reservoir(table.places(context.tasks), context.seeds)
    augment, every = table.reaugment(context.scale), table.store == "every"
    return Der(memory, table.replay, table.alpha, augment=augment, every=every)


ENTRY = learner_entry(
    DerSpec,
    _build,
    lambda table: "DER" + table.manner,
    "one pass of the replayed images in each step; memory images a task with their logits",
    recalled=lambda table, past, batch: (table.replay, 0),
)
