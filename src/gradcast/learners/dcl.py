"""Direction concentration learning: GEM with one more constraint, from where the weights have been."""

from typing import Literal

from jaxtyping import Float
from torch import Tensor

from gradcast.learners.gem import Gem
from gradcast.memory import TaskMemory
from gradcast.replicas import Replicas


class ReferenceDirection:
    """The displacement ``sign * (w - w_ref)`` from reference weights that are renewed every ``interval`` steps.

    The first step of an interval stores its new weights as the reference; the second still stands on them (a row of
    zeros, which constrains nothing); from the third on the displacement counts. ``interval=0`` renews only at a new
    task. All released code uses ``w - w_ref`` (sign +1); the published description suggests the opposite (sign -1).
    """

    def __init__(self, interval: int, sign: Literal[1, -1] = 1) -> None:
        self.interval, self.sign = interval, sign
        self.task: int | None = None
        self.count = 0
        self.reference: Tensor | None = None

    def begin(self, task: int) -> None:
        """Forget the reference at a new task and at the end of an interval."""
        if task != self.task:
            self.task, self.count, self.reference = task, 0, None
        if self.interval > 0 and self.count % self.interval == 0:
            self.reference = None
        self.count += 1

    def row(self, model: Replicas) -> Float[Tensor, "r p"] | None:
        """The displacement of the weights before this step."""
        return None if self.reference is None else self.sign * (model.theta - self.reference)

    def end(self, model: Replicas) -> None:
        """Store the new weights where there is no reference."""
        if self.reference is None:
            self.reference = model.theta.clone()


def dcl(
    memory: TaskMemory, *, interval: int, sign: Literal[1, -1] = 1, margin: float = 0.5, qp_eps: float = 0.0
) -> Gem:
    """DCL is GEM with a reference direction."""
    return Gem(memory, margin=margin, qp_eps=qp_eps, direction=ReferenceDirection(interval, sign))
