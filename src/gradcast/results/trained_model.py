"""A trained network that stands alone: an ordinary ``nn.Module`` with its class names and its preprocessing."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gradcast.errors import GradcastError
from gradcast.results.preprocess import AnyImages, Preprocess


class TrainedModel(nn.Module):
    """From preprocessed images to the logits of all columns.

    Attributes:
        network: the network itself, with the names of weights that its class gives them.
        classes: the name of every column.
        preprocess: a callable that turns images of any kind into what ``forward`` takes.
    """

    def __init__(
        self,
        network: nn.Module,
        classes: Sequence[str],
        preprocess: Preprocess,
        columns: Sequence[tuple[int, ...]],
    ) -> None:
        super().__init__()
        self.network, self.classes, self.preprocess = network, list(classes), preprocess
        self.columns = tuple(columns)  # of every task, in the order of its classes

    def predict(self, images: AnyImages, task: int | None = None) -> list[str]:
        """The name of the class that each image shows: one of all classes, or of a task's own.

        Images are whatever ``preprocess`` takes. Where every task has weights of its own, say which task.
        """
        if task is None and isinstance(self.network, TaskNetworks) and self.tasks > 1:
            raise GradcastError(
                f"every task of this run has weights of its own, and its answers need the task: give task=0 to "
                f"{self.tasks - 1}"
            )
        with torch.no_grad():
            logits = self(self.preprocess(images, task=task))
        columns = range(len(self.classes)) if task is None else self.columns[self._checked(task)]
        return [self.classes[columns[place]] for place in logits[:, list(columns)].argmax(1).tolist()]

    def forward(self, x: Float[Tensor, "n *shape"]) -> Float[Tensor, "n columns"]:
        """Logits; the images are moved to the device of the weights."""
        logits: Tensor = self.network(x.to(next(self.parameters())))
        return logits.narrow(1, 0, len(self.classes))

    @property
    def tasks(self) -> int:
        """How many tasks the model was trained on."""
        return len(self.columns)

    def task_columns(self, task: int) -> slice | list[int]:
        """The columns of a task: ``logits[:, model.task_columns(2)]``. Where tasks share all columns, all of them.

        They are a list where the task brings classes back that lie apart.
        """
        own = list(self.columns[self._checked(task)])
        together = slice(own[0], own[-1] + 1)
        return together if own == list(range(together.start, together.stop)) else own

    def _checked(self, task: int) -> int:
        if not 0 <= task < self.tasks:
            raise GradcastError(f"there is no task {task}; tasks are 0 to {self.tasks - 1}")
        return task


class TaskNetworks(nn.Module):
    """A network for every task, for learners with weights of each task's own; logits side by side.

    ``width`` is the number of logits; columns after them are features.
    """

    def __init__(self, networks: Sequence[nn.Module], width: int) -> None:
        super().__init__()
        self.networks, self.width = nn.ModuleList(networks), width

    def forward(self, x: Float[Tensor, "n *shape"]) -> Float[Tensor, "n columns"]:
        return torch.cat([network(x).narrow(1, 0, self.width) for network in self.networks], dim=1)
