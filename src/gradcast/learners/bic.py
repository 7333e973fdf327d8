"""BiC: distillation and replay, and a correction of the new classes' logits, fitted on images set aside."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from gradcast.core import Batch, Labelled, Learner, Replay, Scorer, TaskImages, Terms
from gradcast.devices import to_device
from gradcast.gradients.cross_entropy import cross_entropy, mean_cross_entropy
from gradcast.gradients.optimizer import AdamW
from gradcast.learners.learner_entry import learner_entry
from gradcast.learners.learner_table import TaskMemoryTable
from gradcast.memories.by_class import ClassMemory
from gradcast.randomness import numpy_generator
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.signals.distil import divergence, past_heads
from gradcast.specs.context import Context
from gradcast.specs.table import Positive, Rate

HELD = 0.1  # share of a task's memory that is not trained on


class BicSpec(TaskMemoryTable):
    """Bias correction: distillation and replay, and two numbers that correct the logits of the newest classes."""

    name: Literal["bic"]
    lr: Rate = 0.03
    temperature: Rate = 2.0  # of both softmaxes
    bias_epochs: Positive = 250  # passes through the images set aside
    bias_lr: Rate = 1e-3  # of Adam

    def set_aside(self, width: int) -> int:
        """A tenth of the memory, and at least one image of every class."""
        return max(int(HELD * self.memory / width), 1)


@dataclass
class Bic(Learner):
    """``(1 - l) CE + l T^2 KL(softmax(old / T) || softmax(new / T))`` of batch and replay, ``l = old / (old + new)``.

    ``old`` are the logits of old classes before the task, bias-corrected. When the task ends, ``a z + b`` takes the
    place of the logits z of its new classes: a and b minimise the cross entropy over all classes so far, on images of
    every task that were set aside (``aside``) and never trained on.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("memory", "validation", "before", "past", "correction", "done")
    memory: ClassMemory
    validation: ClassMemory  # images set aside
    aside: Callable[[int], Batch]  # those of a task
    seeds: Sequence[int]
    count: int = 10  # replayed a step
    batch: int = 10  # images a step of the fit
    temperature: float = 2.0
    epochs: int = 250
    lr: float = 1e-3
    done: int = field(default=0, init=False)  # tasks
    before: Float[Tensor, "r p"] | None = field(default=None, init=False)  # weights before this task
    past: Float[Tensor, "r 2"] | None = field(default=None, init=False)  # a and b that belong to them
    correction: Float[Tensor, "r 2"] | None = field(default=None, init=False)  # a and b of the latest finished task
    drawn: Replay | None = field(default=None, init=False)

    def task_begins(self, model: Replicas, images: TaskImages) -> None:
        """The corrected outputs of now are the distillation target; new classes have no correction yet."""
        if self.correction is None:
            return
        self.before = model.theta.clone() if self.before is None else self.before.copy_(model.theta)
        self.past = self.correction.clone() if self.past is None else self.past.copy_(self.correction)
        self.correction.copy_(_plain(model))

    def prepare(self, model: Replicas, batch: Batch) -> None:
        """Draw from earlier tasks, and write the batch into memory."""
        self.drawn = self.memory.draw(batch.task, self.count)
        if (fresh := batch.fresh) is not None:
            self.memory.write(fresh)

    def kind(self) -> Hashable:
        """Whether there is anything to keep."""
        return self.before is None

    def replay(self) -> Replay | None:
        """The images drawn from memory for this step."""
        return self.drawn

    def terms(self, model: Replicas, labelled: Labelled) -> Terms | None:
        """The terms that turn the cross entropy into the weighted sum; none in the first task."""
        if self.before is None or self.past is None or self.drawn is None:
            return None
        heads, batch, task = model.heads, labelled.batch, labelled.batch.task
        x, y = (torch.cat([own, more], 1) for own, more in ((batch.x, self.drawn.x), (batch.y, self.drawn.y)))
        with torch.no_grad():
            old = model.everything(x, statistics="separate", theta=self.before).z
            old = corrected(old, self.past, heads.new_columns(task - 1))
        outputs = labelled.outputs.detach().requires_grad_()
        z = heads.columns_at(outputs, torch.cat([batch.each_task, self.drawn.tasks], 1), task)
        kept, share = past_heads(outputs, heads, task), old_share(heads, task)
        loss, slope = divergence(kept.detach(), past_heads(old, heads, task), self.temperature)
        dz = cross_entropy(z.detach(), y)[1]
        (slopes,) = torch.autograd.grad([z, kept], outputs, [-share * dz, share * slope])
        return Terms(outputs=slopes, metrics={"distillation": loss}, watched=True)

    def task_ends(self, model: Replicas, images: TaskImages) -> None:
        """Set images of the task aside for good, and from the second task on fit the correction of its new classes."""
        task = images.task
        self.validation.write(self.aside(task))
        fitted = _plain(model)
        if self.done:
            z, y = self._seen(model, task)
            self._fit(fitted, z, y, task, model.heads.new_columns(task))
        self.correction = fitted if self.correction is None else self.correction.copy_(fitted)
        self.done += 1

    @torch.no_grad()
    def _seen(self, model: Replicas, task: int) -> tuple[Float[Tensor, "r n c"], Int[Tensor, "r n"]]:
        """Logits of all classes so far, of all images set aside, and the column of each image's class."""
        held, heads = self.validation.all_of(*self.validation.order), model.heads
        z = heads.seen(model.everything(held.x, statistics="frozen").z, task)
        return z, heads.classes(held.y, held.tasks)

    def _fit(self, ab: Float[Tensor, "r 2"], z: Float[Tensor, "r n c"], y: Tensor, task: int, new: slice) -> None:
        adam = AdamW()
        for rows in self._orders(y, task):
            with torch.enable_grad():
                free = ab.detach().requires_grad_()
                shown = corrected(z.take_along_dim(rows.unsqueeze(-1), 1), free, new)
                loss = mean_cross_entropy(shown, y.gather(1, rows))
                (slope,) = torch.autograd.grad(loss.sum(), free)
            adam.step([ab], [slope], self.lr)

    def _orders(self, y: Int[Tensor, "r n"], task: int) -> Iterator[Int[Tensor, "r b"]]:
        """Places of each batch of the fit, epoch by epoch; every replica has an order of its own."""
        draws = [numpy_generator(seed, "bias", task) for seed in self.seeds]
        for _ in range(self.epochs):
            order = to_device(np.stack([draw.permutation(y.shape[1]) for draw in draws]), y.device)
            yield from order.split(self.batch, 1)

    def scorer(self, model: Replicas) -> Scorer | None:
        """Logits, those of the latest finished task's new classes corrected."""
        if self.correction is None or self.done < 2:
            return None
        ab, new = self.correction, model.heads.new_columns(self.done - 1)

        def score(x: Tensor) -> Tensor:
            return corrected(model.everything(x, statistics="frozen").z[..., : model.heads.logits], ab, new)

        return score


def old_share(heads: Heads, task: int) -> float:
    """The share of old classes among those of this task and all before it."""
    old = heads.seen_by[task - 1]
    return old / (old + len(heads.task_columns[task]))


def corrected(outputs: Float[Tensor, "r n c"], ab: Float[Tensor, "r 2"], columns: slice) -> Float[Tensor, "r n c"]:
    """``a z + b`` in place of z in these columns."""
    a, b = ab.view(-1, 2, 1, 1).unbind(1)
    new = a * outputs[..., columns] + b
    return torch.cat([outputs[..., : columns.start], new, outputs[..., columns.stop :]], -1)


def _plain(model: Replicas) -> Float[Tensor, "r 2"]:
    """a = 1 and b = 0."""
    return model.theta.new_tensor([1.0, 0.0]).repeat(model.count, 1)


def _build(table: BicSpec, context: Context) -> Bic:
    heads, data = context.model.heads, context.data
    assert data is not None  # a learner is made for a stream
    held = table.set_aside(heads.widest) * heads.widest
    memory, validation = (ClassMemory(heads, size, seeds=context.seeds) for size in (table.memory - held, held))
    values = table.replay, context.batch, table.temperature, table.bias_epochs, table.bias_lr
    return Bic(memory, validation, lambda task: data.batch(data.validation(task)), context.seeds, *values)


ENTRY = learner_entry(
    BicSpec,
    _build,
    "BiC",
    "replayed images join the labelled pass, which has one more forward pass; memory images a task, two numbers a fit",
    "unmixed",
    "own-scores",
    "new-classes",
    "past-tasks",
    recalled=lambda table, past, batch: (table.replay, 0),
    aside=lambda table, width: table.set_aside(width),
)
