"""One model on one task after another, many epochs each: the simplest learner of the loop."""

from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.core import Batch, Labelled, Metrics, Signal
from gradcast.epochs.core import Draw, Moment, Reset
from gradcast.epochs.signalled import add_signal, begin_update, check_policy
from gradcast.epochs.snapshot import Snapshot
from gradcast.gradients.entropy import cross_entropy
from gradcast.gradients.sgd import Sgd
from gradcast.replicas import Replicas
from gradcast.signals.policy import Policy


class FinetuneEpochs:
    """SGD on labels, and a signal; every task goes on from the weights of the one before."""

    remembers: ClassVar[tuple[str, ...]] = ("model", "signal", "sgd", "start")

    def __init__(
        self,
        model: Replicas,
        signal: Signal | None = None,
        policy: Policy | None = None,
        *,
        momentum: float = 0.0,
        decay: float = 0.0,
    ) -> None:
        self.model, self.signal, self.policy = model, signal, check_policy(policy or Policy())
        self.sgd = Sgd(momentum=momentum, decay=decay)
        self.start = Snapshot()

    def begin(self, task: int) -> None:
        """A new optimizer."""
        everybody = torch.ones(self.model.count, dtype=torch.bool)
        self.start.keep(self.trained(), everybody)
        self.sgd.renew()
        if self.signal is not None:
            self.signal.renew(everybody)

    def step(self, batch: Batch, draw: Draw, lr: Float[Tensor, " r"], moment: Moment) -> Metrics:
        """One update."""
        begin_update(self.model, self.signal, moment.named(0))
        made = self.model.forward(batch.x, batch.task)
        loss, dz = cross_entropy(made.z, batch.y)
        gradient, metrics = made.pull(dz), dict[str, Tensor]()
        if self.signal is not None:
            labelled = Labelled(batch, made.z, dz, lr)
            gradient, metrics = add_signal(self.signal, self.model, labelled, gradient, draw(), self.policy)
        self.sgd.step([self.model.theta], [gradient.flat], lr)
        return metrics | {"loss": loss, "finite": torch.isfinite(loss + self.model.theta.sum(1))}

    @torch.no_grad()
    def loss(self, batch: Batch) -> Metrics:
        """Cross entropy and right answers, with running statistics."""
        z = self.model.forward(batch.x, batch.task, statistics="frozen").z
        return {"loss": cross_entropy(z, batch.y)[0], "hits": (z.argmax(-1) == batch.y).sum(-1)}

    def ended(self, train: Metrics, going: Bool[Tensor, " r"]) -> None:
        """Nothing follows from it."""

    def renew(self, which: Bool[Tensor, " r"]) -> None:
        """No velocity."""
        self.sgd.renew(which)
        if self.signal is not None:
            self.signal.renew(which)

    def restart(self, which: Bool[Tensor, " r"], how: Reset) -> None:
        """The weights that the task began with."""
        self.start.put_back(self.trained(), which)
        self.renew(which)
        if how == "reference":
            self.sgd.lose(which.to(self.model.theta.device))

    def trained(self) -> dict[str, Tensor]:
        """Weights and running statistics."""
        return {"theta": self.model.theta, **self.model.buffers}

    def finish(self, task: int) -> None:
        """Nothing is set aside."""

    def weights_for(self, task: int) -> Float[Tensor, "r p"]:
        """The same for every task."""
        return self.model.theta
