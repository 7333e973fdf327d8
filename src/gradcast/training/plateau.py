"""The schedule *plateau*: validation decides when the learning rate drops, when a replica stops, and what it keeps."""

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import torch
from jaxtyping import Bool
from torch import Tensor

from gradcast.core import Batch, Metrics
from gradcast.devices import to_device
from gradcast.streams.orders import Epochs, Order
from gradcast.streams.task_data import Portion, TaskData
from gradcast.training.average import Average, shown
from gradcast.training.plateau_rates import RESET_FACTOR
from gradcast.training.schedule_tables import PlateauSpec
from gradcast.training.schedules import Test
from gradcast.training.snapshot import Snapshot
from gradcast.training.trainer import Trainer, Turn

COUNTS = {"hits": "accuracy", "discriminator_hits": "discriminator_accuracy"}  # what a share of images is called
RESET_EPOCH = 4  # after which a replica that is still at chance starts anew
AT_ONCE = {"cpu": 64, "cuda": 512}  # images a pass of an evaluation, as far as whole batches allow


class Plateau:
    """A replica that has stopped keeps its weights until all have stopped."""

    checkpointed: ClassVar[tuple[str, ...]] = ("order", "rates", "best")
    every, may_end_early, only_tasks_over = 1, True, True

    def __init__(
        self,
        data: TaskData,
        trainer: Trainer,
        spec: PlateauSpec,
        *,
        batch: int,
        lr: float,
        average: Average | None = None,
    ) -> None:
        self.data, self.trainer, self.spec, self.batch, self.average = data, trainer, spec, batch, average
        self.rates = spec.rates(len(data.seeds), lr)
        self.best = Snapshot()
        self.order: Order = Epochs(data, batch)

    def steps(self, task: int) -> int:
        """Steps of all epochs of a task."""
        return self.spec.epochs * self.epoch(task)

    def epoch(self, task: int) -> int:
        """One pass through the images that are not set aside."""
        return self.data.length(task, self.batch)

    def begin(self, task: int) -> None:
        """All replicas as at the beginning."""
        self.order.begin(task)
        self.rates.begin()
        self.best.forget()

    def turns(self, task: int, done: int) -> Iterator[Turn]:
        """Epoch by epoch, until every replica has stopped."""
        length, theta = self.epoch(task), self.trainer.model.theta
        for epoch in range(done // length, self.spec.epochs):
            going = to_device(self.rates.going, theta.device)
            lr = torch.where(going, self.rates.rates(theta), 0.0)
            for place in range(done - epoch * length if epoch == done // length else 0, length):
                yield Turn(task, epoch * length + place, epoch, place, lr, going=self.rates.going)
            if not self.rates.going.any():
                return

    def after(self, turn: Turn, test: Test) -> Metrics:
        """The end of an epoch: the reset at chance, validation, and what follows from it."""
        return self._close(turn.task, turn.epoch) if turn.place + 1 == self.epoch(turn.task) else {}

    def _close(self, task: int, epoch: int) -> Metrics:
        lr, going = self.rates.lr, self.rates.going
        with shown(self.average, self.trainer.model):
            train = mean_loss(self.data, self.trainer.loss, [self.data.epoch(task, epoch)], self.batch)
        if epoch == RESET_EPOCH and self.spec.reset != "never":
            poor = going & (train["accuracy"].cpu() < self.data.stream.chance(task) + self.spec.above_chance)
            if poor.any():
                self.trainer.restart(poor, self.spec.reset)
                self.rates.restart(poor, RESET_FACTOR)
                self._restart_average(poor)
        judged = [self.data.validation(each).within(task) for each in self.trainer.judged_by(task)]
        with shown(self.average, self.trainer.model):
            validation = mean_loss(self.data, self.trainer.loss, judged, self.spec.validation_batch)
            seen = self.rates.observe(validation["loss"])
            self.best.keep(self.trainer.trained(), seen.improved)
        self.trainer.renew(seen.dropped)
        self.trainer.epoch_ended(train, self.rates.going)  # not for replicas that have just stopped
        both = {"train": train, "validation": validation}
        told = {f"{part}_{name}": value for part, means in both.items() for name, value in means.items()}
        return told | {"lr": lr.to(train["accuracy"])}

    def end(self, task: int) -> None:
        """The best epoch's weights."""
        everybody = torch.ones_like(self.rates.going)
        self.best.put_back(self.trainer.trained(), everybody)
        self._restart_average(everybody)

    def _restart_average(self, which: Bool[Tensor, " r"]) -> None:
        if self.average is not None:
            self.average.restart(self.trainer.model, which)

    def first_round(self, task: int) -> Portion:
        """The images of the first epoch, in its order."""
        return self.data.epoch(task, 0)


def mean_loss(data: TaskData, loss: Callable[[Batch, int], Metrics], portions: Sequence[Portion], size: int) -> Metrics:
    """Mean over batches (not images) of every loss, and the share of right answers; equal batches pass together."""
    together = max(AT_ONCE[portions[0].y.device.type] // size, 1)
    sums, batches = dict[str, Tensor](), 0
    for portion in portions:
        for batch, count in data.folded(portion, size, together):
            batches += count
            for name, value in loss(batch, count).items():
                weight = 1 if name in COUNTS else count
                sums[name] = sums.get(name, 0) + weight * value.double()
    images = torch.stack([portion.counts for portion in portions]).sum(0)
    return {COUNTS.get(name, name): total / (images if name in COUNTS else batches) for name, total in sums.items()}
