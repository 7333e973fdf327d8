"""The signals *one-hot* and *soft*: a second network, trained on labels alone, says what the unlabelled images are."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.core import Batch, Labelled, Learner, LogitSignal, Metrics, Unlabelled
from gradcast.gradients.cross_entropy import cross_entropy
from gradcast.gradients.gradient import Gradient
from gradcast.gradients.length import Length, unit
from gradcast.gradients.sgd import LearningRate
from gradcast.replicas.replicas import Replicas, Statistics
from gradcast.signals.signal_entry import signal_entry
from gradcast.signals.signal_table import LabelsTable
from gradcast.specs.context import Context
from gradcast.training.schedule_tables import StepsSpec


class PseudoLabelsSpec(LabelsTable):
    """Labels of a second network: its best guess (one-hot) or its probabilities (soft)."""

    name: Literal["one-hot", "soft"]
    outputs: Literal["task", "seen"] = "task"  # classes that it chooses among
    protected: bool = False  # whether the memories of gem or dcl protect it too
    omitted_defaults: ClassVar[tuple[str, ...]] = ("outputs", "protected")


class PseudoLabels(LogitSignal):
    """Gradient of ``weight`` times the cross entropy of the model and the teacher's labels, on unlabelled images.

    The teacher is a network like the model, of its own initialisation; it learns every labelled batch with the model's
    learning rate, forgets freely unless there is a ``guard``, and answers with running statistics. It chooses among the
    classes of the task, or of all tasks ``seen``. With a length, the rows of the logit gradient are brought to it.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("teacher", "length")
    ramped: ClassVar[bool] = True

    def __init__(
        self,
        teacher: Replicas,
        *,
        soft: bool,
        weight: float = 1.0,
        length: Length | None = None,
        seen: bool = False,
        guard: Learner | None = None,
    ) -> None:
        self.teacher, self.soft, self.weight, self.length, self.seen = teacher, soft, weight, length, seen
        self.guard, self.own_pass = guard, seen  # what the guard checkpointed is the learner's
        self.label: Float[Tensor, "r u c"] | None = None  # of the unlabelled images last seen

    def networks(self) -> Sequence[Replicas]:
        """The networks of the signal: the teacher."""
        return (self.teacher,)

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint holds: the teacher's weights."""
        named = self.teacher.parameters(self.teacher.theta) | self.teacher.buffers
        return {f"teacher.{name}": value for name, value in named.items()}

    def learn(self, model: Replicas, labelled: Labelled) -> Metrics:
        """A step of the teacher; before it, how right its labels were and where they would have led the model."""
        batch = labelled.batch
        told = self._told(batch.x, batch.task)
        self._teach(batch, labelled.lr)
        y, z, dz = batch.y, labelled.z, labelled.dz
        if self.seen:
            y = model.heads.classes(y, torch.full_like(y, batch.task))
            with torch.no_grad():
                z = model.heads.seen(model.everything(batch.x, statistics="separate").z, batch.task)
            dz = cross_entropy(z, y)[1]
        guess = z.softmax(-1) - self._labels(told)
        metrics = {
            "label_accuracy": (told.argmax(-1) == y).to(z.dtype).mean(-1),
            "cosine": (unit(guess) * unit(dz)).sum(-1).mean(-1),
        }
        return metrics if self.length is None else metrics | {"tau": self.length.observe(labelled.dz)}

    def gradient(
        self, model: Replicas, unlabelled: Unlabelled, task: int, *, statistics: Statistics = "update"
    ) -> tuple[Gradient, Metrics]:
        """Of the columns that the teacher chooses among."""
        unlabelled = unlabelled.first_view()
        if not self.seen:
            return super().gradient(model, unlabelled, task, statistics=statistics)
        made = model.everything(unlabelled.x, statistics=statistics, used=unlabelled.used)
        dz, metrics = self.slopes(model, model.heads.seen(made.z, task), unlabelled, task)
        everywhere = torch.zeros_like(made.z)
        model.heads.seen(everywhere, task).copy_(dz)
        return made.pull(everywhere), metrics

    def slopes(
        self, model: Replicas, z: Float[Tensor, "r u c"], unlabelled: Unlabelled, task: int
    ) -> tuple[Float[Tensor, "r u c"], Metrics]:
        """``softmax(z) - label`` for every image, divided by their number."""
        self.label = self._labels(self._told(unlabelled.x, task))
        dz = (z.softmax(-1) - self.label) * (self.weight / z.shape[1])
        return dz if self.length is None else self.length.rescale(dz), {}

    def _teach(self, batch: Batch, lr: LearningRate) -> None:
        if self.guard is not None:
            self.guard.begin(self.teacher, batch)
        made = self.teacher.forward(batch.x, batch.task)
        gradient = made.pull(cross_entropy(made.z, batch.y)[1])
        if self.guard is None:
            self.teacher.step(gradient.flat, lr)
            return
        self.teacher.step(self.guard.constrain(gradient)[0], lr)
        self.guard.end(self.teacher)

    @torch.no_grad()
    def _told(self, x: Float[Tensor, "r n *shape"], task: int) -> Float[Tensor, "r n c"]:
        if self.seen:
            return self.teacher.heads.seen(self.teacher.everything(x, statistics="frozen").z, task)
        return self.teacher.forward(x, task, statistics="frozen").z

    def _labels(self, told: Float[Tensor, "r n c"]) -> Float[Tensor, "r n c"]:
        if self.soft:
            return told.softmax(-1)
        return torch.zeros_like(told).scatter_(-1, told.argmax(-1, keepdim=True), 1.0)


def _build(table: PseudoLabelsSpec, context: Context) -> PseudoLabels:
    guard = None if context.learner is None or not table.protected else context.learner.guard()
    purpose = "labeller" if isinstance(context.schedule, StepsSpec) else "teacher"  # names that its weights always had
    return PseudoLabels(
        context.another(purpose),
        soft=table.name == "soft",
        weight=table.weight,
        length=table.length,
        seen=table.outputs == "seen",
        guard=guard,
    )


def _label(table: PseudoLabelsSpec) -> str:
    words = {"scaled": table.scaled, "all classes seen": table.outputs == "seen", "protected teacher": table.protected}
    kind = "soft pseudo labels" if table.name == "soft" else "one-hot pseudo labels"
    return ", ".join([kind, *(word for word, applies in words.items() if applies)])


ENTRY = signal_entry(
    PseudoLabelsSpec, _build, _label, "one unlabelled pass, and a second network that trains on labels"
)
