"""The seam of learners that train many epochs a task: what the loop asks of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, runtime_checkable

from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.core import Batch, Metrics, Unlabelled
from gradcast.replicas.replicas import Replicas

Draw = Callable[[], Unlabelled | None]  # the next unlabelled batch, if there is one
# What happens to a replica that is still at chance in its fifth epoch. fixed: it starts anew. reference: its weights
# are made anew, but its optimizers hold the old ones until the next drop of the learning rate. never: nothing.
Reset = Literal["fixed", "reference", "never"]

RESET_FACTOR = 10.0  # by which all its learning rates are divided then


@dataclass(frozen=True)
class Moment:
    """Which labelled batch comes; random numbers are derived from it, so that none depends on who trains beside."""

    task: int
    epoch: int
    batch: int

    def named(self, update: int | str) -> str:
        """A name for one update of it."""
        return f"{self.task}/{self.epoch}/{self.batch}/{update}"


@runtime_checkable
class EpochLearner(Protocol):
    """All that the loop knows about a learner; ``which`` are replicas, as everywhere."""

    checkpointed: ClassVar[tuple[str, ...]]

    @property
    def model(self) -> Replicas:
        """What it trains."""
        ...

    def begin(self, task: int) -> None:
        """Before the task's first step: new modules, new optimizers. Twice is as good as once."""
        ...

    def step(self, batch: Batch, draw: Draw, lr: Float[Tensor, " r"], moment: Moment) -> Metrics:
        """Train on a labelled batch; ``finite`` among the metrics. A replica whose learning rate is 0 does not move."""
        ...

    def loss(self, batch: Batch, parts: int = 1) -> Metrics:
        """``loss`` as it is minimised, without dropout, ``hits``: how many answers are right, and more.

        The batch is ``parts`` batches of equal size, one after another: losses are means over them.
        """
        ...

    def ended(self, train: Metrics, going: Bool[Tensor, " r"]) -> None:
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

    def finish(self, task: int) -> None:
        """The task is over, and the best epoch's weights are back."""
        ...

    def weights_for(self, task: int) -> Float[Tensor, "r p"]:
        """The model's weights for a task that is over."""
        ...
