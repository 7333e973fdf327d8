"""Direction concentration learning: GEM with one more constraint, from where the weights have been."""

from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.learners.gem import Gem
from gradcast.learners.learner_entry import learner_entry
from gradcast.learners.learner_table import DescentTable
from gradcast.memories.ring import TaskMemory
from gradcast.replicas.replicas import Replicas, Statistics
from gradcast.specs.context import Context
from gradcast.specs.table import Natural, Positive, Rate, Weight


class DclSpec(DescentTable):
    """GEM with a reference direction."""

    name: Literal["dcl"]
    lr: Rate = 0.1
    memory: Positive = 256  # samples kept a task
    margin: Weight = 0.5  # added to the multipliers of violated constraints
    qp_eps: Weight = 0.0  # ridge of the quadratic programme
    interval: Natural = 10  # steps after which the reference weights are renewed; 0: only with a new task
    sign: Literal[1, -1] = 1  # of the displacement; 1 in all released code
    batchnorm: Statistics = "update"  # what the memories' passes do to BatchNorm statistics


class ReferenceDirection:
    """The displacement ``sign * (w - w_ref)`` from reference weights that are renewed every ``interval`` steps.

    The first step of an interval stores its new weights as the reference; the second still stands on them (a row of
    zeros, which constrains nothing); from the third on the displacement counts. ``interval=0`` renews only at a new
    task. All released code uses ``w - w_ref`` (sign +1); the published description suggests the opposite (sign -1).
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("task", "count", "reference", "renewing")

    def __init__(self, interval: int, sign: Literal[1, -1] = 1) -> None:
        self.interval, self.sign = interval, sign
        self.task: int | None = None
        self.count = 0
        self.reference: Tensor | None = None  # [R, P]
        self.renewing: Tensor | None = None  # whether this step renews it

    def prepare(self, model: Replicas, task: int) -> None:
        """Renew the reference at a new task and at the end of an interval."""
        if self.reference is None or self.renewing is None:
            self.reference = model.theta.clone()
            self.renewing = torch.ones((), dtype=torch.bool, device=model.theta.device)
        renew = task != self.task or (self.interval > 0 and self.count % self.interval == 0)
        self.count = 1 if task != self.task else self.count + 1
        self.task = task
        self.renewing.fill_(renew)

    def row(self, model: Replicas) -> Float[Tensor, "r p"]:
        """The displacement of the weights before this step; none where the reference is renewed."""
        self._renew(model)
        assert self.reference is not None
        return self.sign * (model.theta - self.reference)

    def end(self, model: Replicas) -> None:
        """The new weights are the reference, where it is renewed."""
        self._renew(model)

    def _renew(self, model: Replicas) -> None:
        assert self.reference is not None
        assert self.renewing is not None
        torch.where(self.renewing, model.theta, self.reference, out=self.reference)


def dcl(
    memory: TaskMemory,
    *,
    interval: int,
    sign: Literal[1, -1] = 1,
    margin: float = 0.5,
    qp_eps: float = 0.0,
    batchnorm: Statistics = "update",
) -> Gem:
    """DCL is GEM with a reference direction."""
    direction = ReferenceDirection(interval, sign)
    return Gem(memory, margin=margin, qp_eps=qp_eps, direction=direction, batchnorm=batchnorm)


def _build(table: DclSpec, context: Context) -> Gem:
    return dcl(
        TaskMemory(context.tasks, table.memory),
        interval=table.interval,
        sign=table.sign,
        margin=table.margin,
        qp_eps=table.qp_eps,
        batchnorm=table.batchnorm,
    )


ENTRY = learner_entry(
    DclSpec,
    _build,
    "DCL",
    "as gem, and one more copy of the weights",
    "memory",
    recalled=lambda table, past, batch: (past * table.memory, past),
)
