"""What learners and signals are made for: the stream, the seeds, the model and the schedule of a row."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import nn

from gradcast.core import Learner
from gradcast.devices import Place
from gradcast.gradients.optimizer import Optimizer
from gradcast.gradients.sgd import LearningRate, Sgd
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.signals.head import Head
from gradcast.signals.peer import Peer
from gradcast.signals.policy import Policy
from gradcast.signals.pseudo import Attached
from gradcast.signals.task_progress import Progress
from gradcast.streams.scale import Scale
from gradcast.streams.task_data import TaskData
from gradcast.training.schedule_tables import PlateauSpec, ScheduleSpec
from gradcast.training.task_modules import TaskModules


@dataclass(frozen=True)
class Context:
    """Given to whatever makes a learner or a signal."""

    seeds: Sequence[int]
    tasks: int
    classes: int  # a task
    batch: int  # labelled images a step
    lr: LearningRate  # the learner's
    data: TaskData | None  # None before the stream
    scale: Scale  # what the network sees of a labelled image
    shape: tuple[int, ...]  # of what the network sees of an image
    model: Replicas
    network: Callable[[], nn.Module]  # a new network like the model's, out of torch's random numbers
    another: Callable[[str], Replicas]  # new networks like the model, named by what they are for
    epoch: Callable[[int], int]  # batches of one pass through a task
    schedule: ScheduleSpec
    repeats: int = 1  # updates by each labelled batch, in all passes that a constant schedule makes
    descent: tuple[float, float] = (0.0, 0.0)  # momentum and weight decay of the model's optimizer
    learner: Learner | None = None  # for signals: the row's
    optimizer: Callable[[], Optimizer] = Sgd  # for weights that a signal trains beside the model's

    def updates(self, task: int) -> int:
        """Updates of a task, at most."""
        epochs = self.schedule.epochs if isinstance(self.schedule, PlateauSpec) else 1
        return epochs * self.repeats * self.epoch(task)

    def sgd(self) -> Sgd | None:
        """A new optimizer like the model's; None: plain steps."""
        momentum, decay = self.descent
        plain = self.schedule.name == "constant" and not (momentum or decay)
        return None if plain else Sgd(momentum=momentum, decay=decay)

    def peer(self, name: str) -> Peer:
        """A second network like the model, which a signal trains as the model is trained."""
        network = self.another(name)
        network.rates = self.model.rates
        return Peer(network, self.sgd(), self.learner)

    def progress(self) -> Progress:
        """How far the training of a task is, for a signal."""
        return Progress(self.updates, self.model.theta)

    def head(self, name: str, sizes: Sequence[int], *, normed: bool = False, as_model: bool = False) -> Head:
        """A small network on top of the model's features, for a signal; its layers give so many numbers each.

        ``as_model``: its optimizer has the settings of the model's.
        """
        optimizer = (self.sgd() or Sgd()) if as_model else self.optimizer()
        widths = [self.model.featured.width, *sizes]
        return Head(widths, self.seeds, name, self.model.theta, lr=self.lr, optimizer=optimizer, normed=normed)

    def modules(self, *, shared: str, purpose: str) -> TaskModules:
        """Modules of each task: all weights but those whose names begin with ``shared``."""
        return TaskModules(self.model, self.network, self.seeds, shared=shared, purpose=purpose)


@dataclass(frozen=True)
class Plan:
    """Given to a learner that trains in its own way: what it makes its model, signals and rates of."""

    seeds: Sequence[int]
    data: TaskData
    place: Place
    network: Callable[[], nn.Module]
    heads: Heads
    policy: Policy
    schedule: ScheduleSpec
    skips: bool  # whether steps that are not finite are undone
    attach: Callable[[Replicas, Callable[[str], Replicas]], Sequence[Attached]]  # the row's signals, for a model
