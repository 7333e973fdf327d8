"""Which columns of the output layer belong to a task."""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Heads:
    """One shared head for all tasks, or (masked) a slice of ``width`` columns for each; others do not exist for it."""

    width: int
    tasks: int = 1
    masked: bool = False

    @property
    def outputs(self) -> int:
        """Columns of the output layer."""
        return self.width * self.tasks if self.masked else self.width

    def columns(self, logits: Float[Tensor, "*any outputs"], task: int) -> Float[Tensor, "*any width"]:
        """The task's columns."""
        return logits.narrow(-1, task * self.width, self.width) if self.masked else logits

    def columns_at(
        self, logits: Float[Tensor, "*any outputs"], tasks: Int[Tensor, "*some"]
    ) -> Float[Tensor, "*any width"]:
        """The same where tasks differ from image to image; ``tasks`` broadcasts against the leading axes."""
        if not self.masked:
            return logits
        by_task: Tensor = logits.unflatten(-1, (self.tasks, self.width))
        index = tasks.expand(logits.shape[:-1])[..., None, None]
        return by_task.take_along_dim(index, -2).squeeze(-2)
