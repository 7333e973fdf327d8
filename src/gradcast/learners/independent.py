"""Independent networks: a narrow network for every task, which starts from the one before it."""

from dataclasses import dataclass
from typing import Literal

from gradcast.core import Batch, Learner, TaskImages
from gradcast.data.images import ImageShape
from gradcast.learners.learner_entry import learner_entry
from gradcast.learners.learner_table import LearnerTable
from gradcast.networks.registry import AlexNetSpec, MlpSpec, ModelTable, SlimResNetSpec, network
from gradcast.networks.task_networks import TaskNetworks
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.specs.context import Context
from gradcast.specs.table import Rate


class IndependentSpec(LearnerTable):
    """A network for every task; nothing is forgotten."""

    name: Literal["independent"]
    lr: Rate = 0.1
    narrow: bool = True  # widths of model divided by the number of tasks; false: every network has them whole
    start: Literal["previous", "random"] = "previous"  # the weights that a task's network begins with


@dataclass
class Independent(Learner):
    """Plain steps of the present task's network; ``copies``: it begins with the weights of the one before."""

    copies: bool = True

    def task_begins(self, model: Replicas, images: TaskImages) -> None:
        """Running statistics of BatchNorm are not copied: they are those of the new task's images."""
        if self.copies and images.task > 0:
            model.theta[:, _place(model, images.task)] = model.theta[:, _place(model, images.task - 1)]

    def prepare(self, model: Replicas, batch: Batch) -> None:
        """Training passes run the network of the batch's task."""
        assert isinstance(model.module, TaskNetworks)
        model.module.present = batch.task


def _place(model: Replicas, task: int) -> slice:
    """Where the weights of a task's network lie."""
    own = [place for name, place in model.places.items() if name.startswith(f"networks.{task}.")]
    return slice(own[0].start, own[-1].stop)


def _build(table: IndependentSpec, context: Context) -> Independent:
    return Independent(table.start == "previous")


def narrowed(model: ModelTable, tasks: int) -> ModelTable:
    """The same network with its widths divided by the number of tasks, one at the least."""

    def share(widths: list[int]) -> list[int]:
        return [max(1, width // tasks) for width in widths]

    match model:
        case MlpSpec():
            return model.model_copy(update={"hidden": share(model.hidden)})
        case SlimResNetSpec():
            return model.model_copy(update={"width": share([model.width])[0]})
        case AlexNetSpec():
            widths = {"widths": share(model.widths), "channels": share(model.channels)}
            return model.model_copy(update={**widths, "latent": share([model.latent])[0]})
    raise AssertionError(f"{model.name} is refused before")


def _network(table: IndependentSpec, model: ModelTable, shape: ImageShape, width: int, tasks: int) -> TaskNetworks:
    own = narrowed(model, tasks) if table.narrow else model
    return TaskNetworks([network(own, shape, width) for _ in range(tasks)])


def _heads(table: IndependentSpec, model: ModelTable, width: int, tasks: int) -> Heads:
    return Heads.even(width, tasks, masked=True)


ENTRY = learner_entry(
    IndependentSpec,
    _build,
    "independent networks",
    "nothing beyond a plain step; a network a task",
    "own-network",
    network=_network,
    heads=_heads,
    models=("mlp", "slim-resnet18", "alexnet-like"),
)
