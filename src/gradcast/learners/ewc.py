"""Elastic weight consolidation: weights that mattered to past tasks are held where those tasks left them."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from jaxtyping import Float
from pydantic import model_validator
from torch import Tensor

from gradcast.core import Labelled, Learner, TaskImages, Terms
from gradcast.gradients.cross_entropy import cross_entropy
from gradcast.gradients.gradient import Gradient
from gradcast.learners.ewc_online import OnlineEwc
from gradcast.learners.learner_entry import learner_entry
from gradcast.learners.learner_table import DescentTable
from gradcast.replicas.replicas import Replicas
from gradcast.specs.context import Context
from gradcast.specs.table import Positive, Rate, Weight


class EwcSpec(DescentTable):
    """Elastic weight consolidation: a quadratic penalty around the weights of past tasks."""

    name: Literal["ewc"]
    lr: Rate = 0.1
    memory: Positive = 10  # first images of a task that its importance is estimated from
    penalty: Weight = 3.0  # weight of the penalty; published 1 (iCIFAR-100), 1000 (MNIST-R), 3 (MNIST-P)
    form: Literal["tasks", "online"] = "tasks"  # an importance for every task, or one out of the steps of training
    interval: Positive = 50  # steps after which the importance of the online form is renewed
    omitted_defaults: ClassVar[tuple[str, ...]] = ("form", "interval")

    @model_validator(mode="after")
    def _of_its_form(self) -> "EwcSpec":
        key, form = ("memory", "tasks") if self.form == "online" else ("interval", "online")
        default = EwcSpec.model_fields[key].default
        if getattr(self, key) != default:
            raise ValueError(
                f"learner.{key} belongs to learner.form = {form!r}: leave it out or set it to {default}, or choose "
                "that form"
            )
        return self


@dataclass
class Ewc(Learner):
    """Adds ``weight * sum_k sum_i F^k_i (w_i - w^k_i)^2`` over past tasks k to the loss (no factor 1/2).

    ``w^k`` are the weights at the end of task k, and ``F^k`` is the square of the mean loss's gradient on its first
    ``images`` images, in training mode. The sums over k are kept, not every task's weights: the penalty's gradient is
    ``2 weight (sum_k F^k w - sum_k F^k w^k)``.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("importance", "anchored", "constant")
    images: int = 10
    weight: float = 3.0
    importance: Float[Tensor, "r p"] | None = field(default=None, init=False)  # sum of F
    anchored: Float[Tensor, "r p"] | None = field(default=None, init=False)  # sum of F times w at its task's end
    constant: Float[Tensor, " r"] | None = field(default=None, init=False)  # sum of F times the square of that

    def task_ends(self, model: Replicas, images: TaskImages) -> None:
        """The task's importances, where its weights are now; running statistics stay as they are."""
        batch = next(images.batches(self.images))
        made = model.forward(batch.x, batch.task, statistics="separate")
        fisher = made.pull(cross_entropy(made.z, batch.y)[1]).flat.square()
        self.importance = _sum(self.importance, fisher)
        self.anchored = _sum(self.anchored, fisher * model.theta)
        self.constant = _sum(self.constant, (fisher * model.theta.square()).sum(1))

    def terms(self, model: Replicas, labelled: Labelled) -> Terms | None:
        """The penalty; there is none in the first task."""
        if self.importance is None or self.anchored is None:
            return None
        slope = 2 * self.weight * (self.importance * model.theta - self.anchored)
        value = self.penalty(model)
        assert value is not None
        return Terms(Gradient(slope), metrics={"penalty": value})

    def penalty(self, model: Replicas) -> Float[Tensor, " r"] | None:
        """How large it is, summed in float64: large terms cancel."""
        if self.importance is None or self.anchored is None or self.constant is None:
            return None
        theta = model.theta.double()
        whole = (self.importance * theta.square() - 2 * self.anchored * theta).sum(1) + self.constant
        return self.weight * whole.to(model.theta.dtype)


def _sum(known: Tensor | None, new: Tensor) -> Tensor:
    """In place where there is something already: a graph may read it."""
    return new.clone() if known is None else known.add_(new)


def _build(table: EwcSpec, context: Context) -> Ewc | OnlineEwc:
    if table.form == "online":
        return OnlineEwc(table.interval, table.penalty)
    return Ewc(table.memory, table.penalty)


ENTRY = learner_entry(
    EwcSpec,
    _build,
    lambda table: "EWC" if table.form == "tasks" else "EWC, online",
    "one pass at the end of every task, none in the online form; three or four more copies of the weights",
    "past-tasks",
)
