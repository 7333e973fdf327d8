"""Which columns of the output layer belong to a task."""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Heads:
    """One shared head for all tasks, or (masked) a slice of ``width`` columns for each; others do not exist for it.

    A network may say more than logits: ``extra`` columns after them, which belong to no task.
    """

    width: int
    tasks: int = 1
    masked: bool = False
    extra: int = 0

    @property
    def outputs(self) -> int:
        """Columns of what the network says."""
        return self.logits + self.extra

    @property
    def logits(self) -> int:
        """Columns that are logits."""
        return self.width * self.tasks if self.masked else self.width

    def columns(self, logits: Float[Tensor, "*any outputs"], task: int) -> Float[Tensor, "*any width"]:
        """The task's columns."""
        if not self.masked:
            return self._logits(logits)
        return logits.narrow(-1, task * self.width, self.width)

    def seen(self, logits: Float[Tensor, "*any outputs"], task: int) -> Float[Tensor, "*any columns"]:
        """The columns of this task and of all before it."""
        return logits.narrow(-1, 0, (task + 1) * self.width) if self.masked else self._logits(logits)

    def columns_at(
        self, logits: Float[Tensor, "*any outputs"], tasks: Int[Tensor, "*some"]
    ) -> Float[Tensor, "*any width"]:
        """The same where tasks differ from image to image; ``tasks`` broadcasts against the leading axes."""
        if not self.masked:
            return self._logits(logits)
        by_task: Tensor = self._logits(logits).unflatten(-1, (self.tasks, self.width))
        index = tasks.expand(logits.shape[:-1])[..., None, None]
        return by_task.take_along_dim(index, -2).squeeze(-2)

    def classes(self, y: Int[Tensor, "*any"], tasks: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
        """A number for every class; tasks with columns of their own have classes of their own."""
        return tasks * self.width + y if self.masked else y

    def _logits(self, outputs: Float[Tensor, "*any outputs"]) -> Float[Tensor, "*any logits"]:
        return outputs.narrow(-1, 0, self.logits) if self.extra else outputs
