"""What a schedule trains: a step with everything around it that belongs to a task."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.core import Batch, Feeds, Metrics, Scorer, TaskImages
from gradcast.gradients.cross_entropy import cross_entropy
from gradcast.gradients.sgd import LearningRate, Sgd
from gradcast.replicas.replicas import Replicas
from gradcast.results.feature_map import FeatureMap
from gradcast.streams.task_data import TaskData
from gradcast.training.average import move
from gradcast.training.capture import fastest
from gradcast.training.plateau_rates import Reset
from gradcast.training.snapshot import Snapshot
from gradcast.training.step import Step
from gradcast.training.task_modules import TaskModules

Draw = Callable[[], Feeds]  # the next unlabelled batches, if there are any


@dataclass(frozen=True)
class Turn:
    """Which labelled batch comes, and at which rates."""

    task: int
    number: int  # of the batch in its task
    epoch: int
    place: int  # of the batch in its epoch
    lr: LearningRate
    ramp: float | None = None  # weight of ramped signals; None: 1
    numbered: bool = False  # a step's random numbers are named by its number, not by task, epoch and place
    going: Bool[Tensor, " r"] | None = None  # replicas that train, on the host; None: all

    def name(self, update: int | str = 0) -> str:
        """A name for the random numbers of one update on the batch."""
        return f"{self.task}/{self.epoch}/{self.place}/{update}"


@runtime_checkable
class Trainer(Protocol):
    """All that loop and schedules know of what they train; ``which`` are replicas, as everywhere."""

    checkpointed: ClassVar[tuple[str, ...]]

    @property
    def skips(self) -> bool:
        """Whether steps that are not finite are undone."""
        ...

    @property
    def by_task(self) -> bool:
        """Whether tasks have weights of their own: a task to come has none yet."""
        ...

    @property
    def task_free(self) -> bool:
        """Whether it has an answer for an image whose task is not known: it has one network for all tasks."""
        ...

    @property
    def model(self) -> Replicas:
        """The network that is trained."""
        ...

    @property
    def evaluated(self) -> Replicas:
        """The network that is evaluated."""
        ...

    def begin(self, images: TaskImages) -> None:
        """Before the task's first step: new modules, new optimizers."""
        ...

    def step(self, batch: Batch, draw: Draw, turn: Turn) -> Metrics:
        """Train on a labelled batch; ``finite`` among the metrics. A replica whose learning rate is 0 does not move."""
        ...

    def loss(self, batch: Batch, parts: int = 1) -> Metrics:
        """``loss`` as it is minimised, without dropout, ``hits``: how many answers are right, and more.

        The batch is ``parts`` batches of equal size, one after another: losses are means over them.
        """
        ...

    def epoch_ended(self, train: Metrics, going: Bool[Tensor, " r"]) -> None:
        """An epoch is over; the means of ``loss`` over the training images."""
        ...

    def renew(self, which: Bool[Tensor, " r"]) -> None:
        """New optimizers: the learning rate has dropped."""
        ...

    def restart(self, which: Bool[Tensor, " r"], how: Reset) -> None:
        """The weights of the task's beginning once more."""
        ...

    def trained(self) -> dict[str, Tensor]:
        """What is kept of the best epoch, one row a replica, in place."""
        ...

    def judged_by(self, task: int) -> range:
        """Tasks whose validation images decide while it trains on this one."""
        ...

    def state(self) -> dict[str, Tensor]:
        """All that was learned, by names, one row a replica."""
        ...

    def finish(self, images: TaskImages) -> None:
        """The task is over, and its final weights are in place."""
        ...

    def weights_for(self, task: int) -> Float[Tensor, "r p"] | None:
        """The weights for a task that is over, where a task has its own; None: the present ones."""
        ...

    def scorer(self) -> Scorer | None:
        """What scores test images at the weights of this moment; None: logits are the scores."""
        ...

    def feature_map(self, data: TaskData) -> FeatureMap | None:
        """What its features look like on test images, where there is something to show."""
        ...


class StepTrainer:
    """One update a batch, or ``repeats``. Every task goes on from the weights of the one before.

    ``modules`` where some of the weights belong to one task alone.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("update", "start", "modules")

    def __init__(
        self, update: Step, modules: TaskModules | None = None, *, restarts: bool = False, repeats: int = 1
    ) -> None:
        self.update, self.modules, self.restarts, self.repeats = update, modules, restarts, repeats
        self.advance = fastest(update)
        self.start = Snapshot()  # what the task began with, where a schedule may go back there

    @property
    def skips(self) -> bool:
        """Whether steps that are not finite are undone."""
        return self.update.skips

    @property
    def by_task(self) -> bool:
        """Whether there are modules of each task."""
        return self.modules is not None

    @property
    def task_free(self) -> bool:
        """Unless tasks have weights of their own."""
        return self.modules is None

    @property
    def model(self) -> Replicas:
        """The model that the step trains."""
        return self.update.model

    @property
    def evaluated(self) -> Replicas:
        """The model, or what a signal offers in its place."""
        offered = (own.signal.evaluated() for own in self.update.signals)
        return next((network for network in offered if network is not None), self.model)

    def begin(self, images: TaskImages) -> None:
        """New modules where a task has its own; with momentum, an optimizer that has none yet."""
        if self.modules is not None:
            self.modules.begin(images.task)
        self.update.learner.task_begins(self.model, images)  # may change weights, which a restart goes back to
        if self.restarts:
            self.start.keep(self.trained(), torch.ones(self.model.count, dtype=torch.bool))
        if isinstance(self.update.sgd, Sgd):
            self.update.sgd.renew()
            self._renew_signals(torch.ones(self.model.count, dtype=torch.bool))

    def step(self, batch: Batch, draw: Draw, turn: Turn) -> Metrics:
        """The updates; what is told is of the last one, and of all whether they were finite."""
        batch = batch if turn.going is None else replace(batch, going=turn.going)
        metrics = self._update(batch, draw, turn, 0)
        again = replace(batch, repeated=batch.y.shape[1], again=True)  # a memory has these images already
        for number in range(1, self.repeats):
            finite = metrics["finite"]
            metrics = self._update(again, draw, turn, number)
            metrics["finite"] = (metrics["finite"] != 0) & (finite != 0)
        return metrics

    def _update(self, batch: Batch, draw: Draw, turn: Turn, number: int) -> Metrics:
        self.update.at(None if turn.numbered else turn.name(number), turn.lr, turn.ramp)
        return self.advance(batch, draw() if self.update.signals else ())

    @torch.no_grad()
    def loss(self, batch: Batch, parts: int = 1) -> Metrics:
        """Cross entropy with the learner's own terms, and right answers, in evaluation mode."""
        z = self.evaluated.forward(batch.x, batch.task, tasks=batch.tasks, statistics="frozen").z
        loss, penalty = cross_entropy(z, batch.y)[0], self.update.learner.penalty(self.model)
        hits = (z.argmax(-1) == batch.y).sum(-1)
        return {"loss": loss if penalty is None else loss + penalty, "hits": hits}

    def epoch_ended(self, train: Metrics, going: Bool[Tensor, " r"]) -> None:
        """Nothing changes at the end of an epoch."""

    def renew(self, which: Bool[Tensor, " r"]) -> None:
        """Forget the velocity of these replicas; their signals begin anew too."""
        assert self.update.sgd is not None
        self.update.sgd.renew(which)
        self._renew_signals(which)

    def _renew_signals(self, which: Bool[Tensor, " r"]) -> None:
        for own in self.update.signals:
            own.signal.renew(which)

    def restart(self, which: Bool[Tensor, " r"], how: Reset) -> None:
        """The weights that the task began with."""
        self.start.put_back(self.trained(), which)
        self.renew(which)
        if how == "reference":
            assert self.update.sgd is not None
            self.update.sgd.lose(which.to(self.model.theta.device))

    def trained(self) -> dict[str, Tensor]:
        """Weights and running statistics, of what is evaluated too."""
        found = {"theta": self.model.theta, **self.model.buffers}
        if (offered := self.evaluated) is not self.model:
            found |= {f"evaluated {name}": value for name, value in {"theta": offered.theta, **offered.buffers}.items()}
        return found

    def judged_by(self, task: int) -> range:
        """A learner that trains on all tasks is judged by all."""
        return range(self.update.learner.trains_from(task), task + 1)

    def state(self) -> dict[str, Tensor]:
        """Of model and signals, and of every task's own modules."""
        return self.update.state() | ({} if self.modules is None else self.modules.state())

    def finish(self, images: TaskImages) -> None:
        """Set aside what is the task's own; an average of weights that are replaced begins anew."""
        self.update.learner.task_ends(self.model, images)
        if self.update.learner.replaces_weights and self.evaluated is not self.model:
            move(self.evaluated.theta, self.evaluated.buffers, self.model, 1.0)
        if self.modules is not None:
            self.modules.finish()

    def weights_for(self, task: int) -> Float[Tensor, "r p"] | None:
        """The present weights, with the task's own where it has any."""
        return None if self.modules is None else self.modules.weights_for(task)

    def scorer(self) -> Scorer | None:
        """The learner's own scores."""
        return self.update.learner.scorer(self.evaluated)

    def feature_map(self, data: TaskData) -> FeatureMap | None:
        """No picture: only learners with private features have one."""
        return None
