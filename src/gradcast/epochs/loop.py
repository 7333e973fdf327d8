"""Many epochs a task: validation decides when the learning rate drops, when a replica stops, and what it keeps."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.core import Batch, Metrics, Unlabelled
from gradcast.environment import sent
from gradcast.epochs.core import RESET_FACTOR, EpochLearner, Moment
from gradcast.epochs.lessons import Lessons, Part
from gradcast.epochs.schedule import Schedule
from gradcast.epochs.snapshot import Snapshot
from gradcast.epochs.supply import Supply
from gradcast.finite import FiniteCheck
from gradcast.loop import Extent, Keeper, Observer, Position

REMEDY = "lower learner.lr, or the signal's weight or alpha"
RESET_EPOCH = 4  # after which a replica that is still at chance starts anew
COUNTS = {"hits": "accuracy", "discriminator_hits": "discriminator_accuracy"}  # what a share of images is called
AT_ONCE = {"cpu": 64, "cuda": 512}  # images a pass of an evaluation, as far as whole batches allow


class EpochLoop:
    """Everything one run of R seeds needs. A replica that has stopped waits, unmoved, for the others."""

    remembers: ClassVar[tuple[str, ...]] = ("learner", "supply", "plateau", "best")

    def __init__(
        self,
        lessons: Lessons,
        learner: EpochLearner,
        schedule: Schedule,
        supply: Supply | None = None,
        *,
        batch: int = 64,
        lr: float = 0.01,
    ) -> None:
        self.lessons, self.learner, self.schedule, self.supply, self.batch = lessons, learner, schedule, supply, batch
        self.plateau = schedule.plateau(len(lessons.seeds), lr)
        self.best = Snapshot()

    @property
    def seeds(self) -> Sequence[int]:
        """Whose class orders they are."""
        return self.lessons.seeds

    @property
    def extent(self) -> Extent:
        """A replica may stop after any epoch."""
        epoch = self.lessons.length(self.batch)
        return Extent((self.schedule.epochs * epoch,) * self.lessons.tasks, epoch)

    @property
    def parts(self) -> dict[str, object]:
        """All of it."""
        return {"loop": self}

    def state(self) -> dict[str, Tensor]:
        """What the learner learned."""
        return self.learner.state()

    def run(self, observers: Sequence[Observer], keeper: Keeper | None = None) -> None:
        """Train on all tasks in order, from where the keeper says; its batches count through the task's epochs."""
        start = None if keeper is None else keeper.begin()
        if start is None:
            self._evaluate(0, observers)
            start = Position()
        count = start.steps
        for task in range(start.task, self.lessons.tasks):
            done = start.batches if task == start.task else 0
            if done == 0:
                self._begin(task)
            count = self._train(task, done, count, observers, keeper)
            self.best.put_back(self.learner.trained(), torch.ones_like(self.plateau.going))
            self.learner.finish(task)
            for observer in observers:
                observer.trained(task)
            self._evaluate(task + 1, observers)
            if keeper is not None and task < self.lessons.tasks - 1:
                keeper.save(Position(task + 1, 0, count))

    def _begin(self, task: int) -> None:
        self.learner.begin(task)
        self.plateau.begin()
        self.best.forget()
        if self.supply is not None:
            self.supply.begin(task)

    def _train(self, task: int, done: int, count: int, observers: Sequence[Observer], keeper: Keeper | None) -> int:
        """Epochs of one task, from the batch that comes after those that are done; steps taken in all."""
        size = self.lessons.length(self.batch)
        check = FiniteCheck(self.seeds, REMEDY, every=size)
        for epoch in range(done // size, self.schedule.epochs):
            first = done % size if epoch == done // size else 0
            going, lr = self._rates()
            batches = self.lessons.epoch(task, epoch, self.batch)
            for number, batch in enumerate(islice(batches, first, None), first):
                if keeper is not None and keeper.due(count):
                    check.look(task, skips=False)
                    keeper.save(Position(task, epoch * size + number, count))
                metrics = self._step(batch, lr, Moment(task, epoch, number))
                finite = metrics.pop("finite") != 0  # a graph tells numbers
                check.add(count, finite | ~going, task, skips=False)
                if number == size - 1:
                    check.look(task, skips=False)
                    metrics |= self._close(task, epoch)
                told = {name: torch.where(going, value, torch.nan) for name, value in metrics.items()}
                for observer in observers:
                    observer.stepped(count, task, told)
                count += 1
            if not self.plateau.going.any():
                break
        return count

    def _rates(self) -> tuple[Bool[Tensor, " r"], Float[Tensor, " r"]]:
        """Who is going in this epoch, and how fast, where the weights are."""
        theta = self.learner.model.theta
        going = sent(self.plateau.going, theta.device)
        return going, torch.where(going, self.plateau.rates(theta), 0.0)

    def _step(self, batch: Batch, lr: Float[Tensor, " r"], moment: Moment) -> Metrics:
        going = self.plateau.going

        def draw() -> Unlabelled | None:
            return None if self.supply is None else self.supply.next(moment.batch, going)

        return self.learner.step(batch, draw, lr, moment)

    def _close(self, task: int, epoch: int) -> Metrics:
        """The end of an epoch: the reset at chance, validation, and what follows from it."""
        lr, going, learner = self.plateau.lr, self.plateau.going, self.learner
        train = mean_loss(self.lessons, learner.loss, [self.lessons.shuffled(task, epoch)], self.batch)
        if epoch == RESET_EPOCH and self.schedule.reset != "never":
            enough = 1 / self.lessons.width + self.schedule.above_chance
            poor = going & (train["accuracy"].cpu() < enough)
            if poor.any():
                learner.restart(poor, self.schedule.reset)
                self.plateau.restart(poor, RESET_FACTOR)
        judged = [self.lessons.validation(each) for each in learner.judged_by(task)]
        validation = mean_loss(self.lessons, learner.loss, judged, self.schedule.validation_batch)
        seen = self.plateau.observe(validation["loss"])
        self.best.keep(learner.trained(), seen.improved)
        learner.renew(seen.dropped)
        learner.ended(train, self.plateau.going)  # not for replicas that have just stopped
        both = {"train": train, "validation": validation}
        told = {f"{part}_{name}": value for part, means in both.items() for name, value in means.items()}
        return told | {"lr": lr.to(train["accuracy"])}

    @torch.no_grad()
    def _accuracy(self, task: int) -> Float[Tensor, " r"]:
        """On the test images of a task that is over, with the weights that are its own."""
        model, part = self.learner.model, self.lessons.test(task)
        theta = self.learner.weights_for(task)
        hits = [
            (model.forward(batch.x, task, statistics="frozen", theta=theta).z.argmax(-1) == batch.y).sum(1)
            for batch in self.lessons.batches(part, AT_ONCE[part.y.device.type])
        ]
        return torch.stack(hits).sum(0).double() / part.counts

    def _evaluate(self, tasks_done: int, observers: Sequence[Observer]) -> None:
        """Tasks that are not over have no weights yet: they count as guessed."""
        shape = (len(self.lessons.seeds), self.lessons.tasks)
        accuracy = torch.full(shape, 1 / self.lessons.width, dtype=torch.float64)
        for task in range(tasks_done):
            accuracy[:, task] = self._accuracy(task).cpu()
        for observer in observers:
            observer.evaluated(tasks_done, accuracy)


def mean_loss(
    lessons: Lessons, loss: Callable[[Batch, int], Metrics], parts: Sequence[Part], size: int
) -> dict[str, Float[Tensor, " r"]]:
    """Mean over batches (not images) of every loss, and the share of right answers; equal batches pass together."""
    together = max(AT_ONCE[parts[0].y.device.type] // size, 1)
    sums, batches = dict[str, Tensor](), 0
    for part in parts:
        for batch, count in lessons.folded(part, size, together):
            batches += count
            for name, value in loss(batch, count).items():
                weight = 1 if name in COUNTS else count
                sums[name] = sums.get(name, 0) + weight * value.double()
    images = torch.stack([part.counts for part in parts]).sum(0)
    return {COUNTS.get(name, name): total / (images if name in COUNTS else batches) for name, total in sums.items()}
