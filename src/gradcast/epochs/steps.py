"""Any learner of a single pass, many epochs a task: one step a batch, with its memories, constraint and signal."""

from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.core import Batch, Metrics
from gradcast.epochs.core import Draw, Moment, Reset
from gradcast.epochs.modules import TaskModules
from gradcast.epochs.snapshot import Snapshot
from gradcast.gradients.cross_entropy import cross_entropy
from gradcast.gradients.sgd import Sgd
from gradcast.replicas.replicas import Replicas
from gradcast.training.capture import fastest
from gradcast.training.step import Step


class StepEpochs:
    """Every task goes on from the weights of the one before; ``modules`` where some of them belong to one task alone.

    What a learner checkpointed of a task's images it takes from the first epoch.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("training", "start", "modules")

    def __init__(self, step: Step, modules: TaskModules | None = None) -> None:
        self.training, self.modules = step, modules
        self.sgd = step.sgd = step.sgd or Sgd()  # rates differ from replica to replica
        self.advance = fastest(step)
        self.start = Snapshot()

    @property
    def model(self) -> Replicas:
        """What it trains."""
        return self.training.model

    def begin(self, task: int) -> None:
        """A new optimizer, and new modules where a task has its own."""
        everybody = torch.ones(self.model.count, dtype=torch.bool)
        if self.modules is not None:
            self.modules.begin(task)
        self.start.keep(self.trained(), everybody)
        self.sgd.renew()
        if self.training.signal is not None:
            self.training.signal.renew(everybody)

    def step(self, batch: Batch, draw: Draw, lr: Float[Tensor, " r"], moment: Moment) -> Metrics:
        """One update."""
        self.training.at(moment.named(0), lr)
        return self.advance(batch, draw())

    @torch.no_grad()
    def loss(self, batch: Batch, parts: int = 1) -> Metrics:
        """Cross entropy with the learner's own terms, and right answers, with running statistics."""
        z = self.model.forward(batch.x, batch.task, statistics="frozen").z
        loss, penalty = cross_entropy(z, batch.y)[0], self.training.learner.penalty(self.model)
        hits = (z.argmax(-1) == batch.y).sum(-1)
        return {"loss": loss if penalty is None else loss + penalty, "hits": hits}

    def ended(self, train: Metrics, going: Bool[Tensor, " r"]) -> None:
        """Nothing follows from it."""

    def renew(self, which: Bool[Tensor, " r"]) -> None:
        """No velocity."""
        self.sgd.renew(which)
        if self.training.signal is not None:
            self.training.signal.renew(which)

    def restart(self, which: Bool[Tensor, " r"], how: Reset) -> None:
        """The weights that the task began with."""
        self.start.put_back(self.trained(), which)
        self.renew(which)
        if how == "reference":
            self.sgd.lose(which.to(self.model.theta.device))

    def trained(self) -> dict[str, Tensor]:
        """Weights and running statistics."""
        return {"theta": self.model.theta, **self.model.buffers}

    def judged_by(self, task: int) -> range:
        """A learner that trains on all tasks is judged by all."""
        return range(self.training.learner.trains_from(task), task + 1)

    def state(self) -> dict[str, Tensor]:
        """Of model and signal, and of every task's own modules."""
        return self.training.state() | ({} if self.modules is None else self.modules.state())

    def finish(self, task: int) -> None:
        """Set aside what is the task's own."""
        if self.modules is not None:
            self.modules.finish()

    def weights_for(self, task: int) -> Float[Tensor, "r p"]:
        """The present weights, with the task's own where it has any."""
        return self.model.theta if self.modules is None else self.modules.weights_for(task)
