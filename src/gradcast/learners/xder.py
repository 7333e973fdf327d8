"""X-DER: dark experience replay whose stored logits follow later tasks, and heads that prepare for their tasks."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Annotated, ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor

from gradcast.core import Batch, Labelled, Learner, Replay, TaskImages, Terms
from gradcast.devices import to_device
from gradcast.learners.der import LOGITS
from gradcast.learners.head_losses import later_margin, past_loss, transplanted, unused_contrast
from gradcast.learners.learner_entry import learner_entry
from gradcast.learners.learner_table import ReplayTable
from gradcast.memories.refilled import Drawn, RefilledMemory
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Pass, Replicas, Statistics
from gradcast.specs.context import Context
from gradcast.specs.table import Natural, Rate, Share, Weight
from gradcast.streams.named_augmentations import AnyAugmentation, named
from gradcast.streams.reaugment import Reaugment


class XDerSpec(ReplayTable):
    """X-DER: DER++ whose stored logits follow later tasks, and heads that prepare for theirs."""

    name: Literal["x-der"]
    lr: Rate = 0.03
    omitted_defaults: ClassVar[tuple[str, ...]] = ("capacity",)
    alpha: Weight = 0.6  # weight of the distance from stored logits; 0.3 was used with 500 images
    beta: Weight = 0.9  # weight of the replayed images' cross entropy; 0.8 with 500 images
    gamma: Share = 0.85  # of the own class's logit: how large transplanted logits may be
    future_margin: Weight = 0.2  # between the own head and later ones; 0.7 with 500 images
    eta: Weight = 0.01  # weight of the margin's loss; 0.001 with 500 images
    contrast: Weight = 0.05  # weight of the contrast on unused heads
    temperature: Rate = 5.0  # of the contrast
    views: Annotated[int, Field(ge=2)] = 2  # of each image in the contrast
    images: Natural = 64  # of the memory that join the contrast
    strong: list[AnyAugmentation] = Field(default=["flip", "resized-crop", "colour-jitter", "greyscale"])  # of a view


@dataclass
class XDer(Learner):
    """``CE_own + alpha |f - u|^2 + beta CE_past + contrast SupCon_unused + eta max(0, max_later + margin - max_own)``.

    The batch's cross entropy is over its task's head. Replayed images have two passes: one for the distance from stored
    logits u, one for the cross entropy over past heads. Logits u of the present head and of later ones are replaced by
    those of the image's pass: at its n-th use in a task with probability 1 / n, and for all when a task ends. From the
    second task on BatchNorm statistics follow the first pass alone, which ``count // past tasks`` of the batch join.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("memory",)
    memory: RefilledMemory
    count: int = 10  # images of each of the two passes
    batch: int = 10  # images a pass when a task ends
    alpha: float = 0.6
    beta: float = 0.9
    gamma: float = 0.85
    margin: float = 0.2
    eta: float = 0.01
    contrast: float = 0.05
    temperature: float = 5.0
    views: int = 2
    images: int = 64
    augment: Reaugment | None = None
    strong: Reaugment | None = None
    drawn: Drawn | None = field(default=None, init=False)
    task: int = field(default=-1, init=False)  # of the step
    own: Bool[Tensor, "r c"] = field(init=False)  # columns of the task's head

    def prepare(self, model: Replicas, batch: Batch) -> None:
        """Draw from the memory, and draw which images have their logits replaced."""
        if self.task != batch.task:
            own = torch.zeros(model.count, model.heads.logits, dtype=torch.bool)
            own[:, list(model.heads.task_columns[batch.task])] = True
            self.task, self.own = batch.task, to_device(own, batch.x.device)
        self.drawn = self.memory.draw_step(self.count, self.images)

    def kind(self) -> Hashable:
        """Whether there is anything to replay."""
        return self.drawn is None

    def statistics(self) -> Statistics:
        """The batch alone decides in the first task only."""
        return "update" if self.drawn is None else "separate"

    def shown(self, model: Replicas, x: Float[Tensor, "r n *shape"]) -> Float[Tensor, "r n *shape"]:
        """Augmented anew in every pass; the memory has the images as they came."""
        return x if self.augment is None else self.augment(x, model.chance.labelled)

    def competing(self, model: Replicas, batch: Batch) -> Bool[Tensor, "r c"] | None:
        """The task's own head, and classes of images that belong to earlier tasks."""
        return None if model.heads.masked else self.own.scatter(1, batch.y, True)

    def terms(self, model: Replicas, labelled: Labelled) -> Terms | None:
        """All but the cross entropy of the batch; then logits of replayed images are replaced."""
        heads, batch, drawn = model.heads, labelled.batch, self.drawn
        unused = heads.seen_by[batch.task] < heads.logits
        passes = [] if drawn is None else self._replayed(model, drawn, batch)
        if self.contrast and unused:
            views, who = self._views(model, batch)
            passes.append(views)
        free = [z.detach().requires_grad_() for z in (labelled.outputs, *(made.z for made in passes))]
        parts: dict[str, tuple[float, Tensor]] = {}
        with torch.enable_grad():
            if drawn is not None:
                away = free[1][:, : self.count, : heads.logits] - drawn.dark.fields[LOGITS]
                parts["distance"] = self.alpha, away.square().mean((1, 2))
                parts["replay_loss"] = self.beta, past_loss(heads, free[2], drawn.known, batch.task)
            if self.contrast and unused:
                parts["contrast"] = self.contrast, unused_contrast(heads, free[-1], who, batch.task, self.temperature)
            if self.eta and unused:
                parts["margin"] = self.eta, self._margin(heads, free, batch)
            if not parts:
                return None
            whole = torch.stack([weight * loss for weight, loss in parts.values()]).sum()
            slopes = torch.autograd.grad(whole, free, allow_unused=True)
        if drawn is not None:
            slots = drawn.slots
            if isinstance(labelled.lr, Tensor):  # seeds that are done with the task keep what they have
                slots = torch.where(labelled.lr.unsqueeze(1) > 0, slots, self.memory.size)
            self._transplant(model, drawn.dark, passes[0].z[:, : self.count], slots[:, : self.count])
            self._transplant(model, drawn.known, passes[1].z, slots[:, self.count :])
        gradients = [made.pull(slope) for made, slope in zip(passes, slopes[1:], strict=True)]
        metrics = {name: loss.detach() for name, (_, loss) in parts.items()}
        return Terms(reduce(add, gradients) if gradients else None, slopes[0], metrics=metrics, watched=True)

    def _replayed(self, model: Replicas, drawn: Drawn, batch: Batch) -> list[Pass]:
        """A pass of dark images and some of the batch, which BatchNorm statistics follow, and one of known images."""
        both = torch.cat([drawn.dark.x, batch.x[:, : self.count // batch.task]], 1)
        mixed = model.everything(self.shown(model, both))
        return [mixed, model.everything(self.shown(model, drawn.known.x), statistics="separate")]

    def _views(self, model: Replicas, batch: Batch) -> tuple[Pass, Int[Tensor, "r n"]]:
        """A pass of several views of the batch and of memory images, and the class of each."""
        x, who = batch.x, model.heads.classes(batch.y, batch.each_task)
        if self.drawn is not None:
            more = self.drawn.further
            x, who = torch.cat([x, more.x], 1), torch.cat([who, model.heads.classes(more.y, more.tasks)], 1)
        x, who = torch.cat([x] * self.views, 1), who.repeat(1, self.views)
        x = x if self.strong is None else self.strong(x, model.chance.labelled)
        return model.everything(x, statistics="separate"), who

    def _margin(self, heads: Heads, free: list[Tensor], batch: Batch) -> Tensor:
        """Of the batch and of replayed images, each of which counts once."""
        outputs, tasks, weight = free[0], batch.each_task, torch.ones_like(free[0][..., 0])
        if (drawn := self.drawn) is not None:
            outputs = torch.cat([outputs, free[1][:, : self.count], free[2]], 1)
            tasks = torch.cat([tasks, drawn.dark.tasks, drawn.known.tasks], 1)
            weight = torch.cat([weight, drawn.once], 1)
        return later_margin(heads, outputs, tasks, weight, task=batch.task, margin=self.margin)

    def _transplant(self, model: Replicas, drawn: Replay, outputs: Tensor, slots: Int[Tensor, "r m"]) -> None:
        """Replace logits of present and later heads in these slots, unless they are not finite."""
        old, label = drawn.fields[LOGITS], model.heads.classes(drawn.y, drawn.tasks)
        made = transplanted(old, outputs[..., : model.heads.logits], label, ~self._earlier(model), self.gamma)
        slots = torch.where(made.isfinite().all(-1), slots, self.memory.size)
        self.memory.places.update(slots, {LOGITS: made})

    def _earlier(self, model: Replicas) -> Bool[Tensor, " c"]:
        """Columns that tasks before this one had."""
        return torch.arange(model.heads.logits, device=model.theta.device).lt(model.heads.new_columns(self.task).start)

    @torch.no_grad()
    def task_ends(self, model: Replicas, images: TaskImages) -> None:
        """Images of the task take places of earlier ones, whose logits of present and later heads are replaced."""
        heads, memory, task = model.heads, self.memory, images.task
        model.chance.begin(f"{task}/memory")
        rooms = memory.shrink(task)
        for batch in images.batches(self.batch):
            if not rooms.any():
                break
            z = model.everything(self.shown(model, batch.x), statistics="separate").z[..., : heads.logits]
            label, past = heads.classes(batch.y, batch.each_task), self._earlier(model) & ~self.own[0]
            memory.write(batch, rooms, {LOGITS: transplanted(z, z, label, past, self.gamma)})
        for drawn, slots in memory.shuffled(self.batch) if task else ():
            z = model.everything(self.shown(model, drawn.x), statistics="separate").z
            self._transplant(model, drawn, z, torch.where(drawn.tasks < task, slots, memory.size))


def _build(table: XDerSpec, context: Context) -> XDer:
    memory = RefilledMemory(context.model.heads, table.places(context.tasks), context.seeds)
    strong = Reaugment(named(table.strong), context.scale) if table.strong else None
    weights = table.alpha, table.beta, table.gamma, table.future_margin, table.eta
    contrast = table.contrast, table.temperature, table.views, table.images
    return XDer(memory, table.replay, context.batch, *weights, *contrast, table.reaugment(context.scale), strong)


ENTRY = learner_entry(
    XDerSpec,
    _build,
    lambda table: "X-DER" + table.manner,
    "two passes of replayed images and one of several views in each step; memory images in all with their logits",
    "unmixed",
    "new-classes",
    "past-tasks",
    recalled=lambda table, past, batch: (3 * table.replay + table.views * (table.images + batch), 0),
)
