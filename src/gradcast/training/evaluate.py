"""Accuracy of every replica on every task's test set, where the task of an image is known and where it is not."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gradcast.core import Scorer
from gradcast.data.images import Images
from gradcast.devices import Place
from gradcast.errors import GradcastError
from gradcast.replicas.heads import Heads, TaskKnowledge
from gradcast.replicas.passes.products import FasterLinear
from gradcast.replicas.replicas import Replicas
from gradcast.streams.scale import Scale
from gradcast.streams.stream import Stream
from gradcast.streams.task_data import TaskData
from gradcast.training.trainer import Trainer

CHUNK = {"cpu": 3_200, "cuda": 10_000}  # images a forward pass: what a cache holds, what keeps a GPU busy
FILTERED_CHUNK = {"cpu": 800, "cuda": 10_000}  # the same through filters, whose outputs are larger than the images
SIZE = 28 * 28  # pixels of these images; of larger ones there are fewer
OWN_CHUNK = {"cpu": 64, "cuda": 512}  # the same where every replica has images of its own
Both = tuple[Float[Tensor, "r tasks"], Float[Tensor, "r tasks"]]  # accuracies with the task, and without it


class SharedTests:
    """Test sets of all tasks on the device, one after another, as bytes; all replicas have the same.

    ``drop_last`` reproduces a slip of the published code: the last image of each test set is not looked at and counts
    as wrong.
    """

    def __init__(self, tests: Sequence[Images], scale: Scale, *, drop_last: bool, place: Place) -> None:
        seen = [slice(0, len(test) - 1 if drop_last else len(test)) for test in tests]
        x, y = (np.concatenate([getattr(t, part)[s] for t, s in zip(tests, seen, strict=True)]) for part in "xy")
        self.x, self.y = (torch.from_numpy(each).to(place.device) for each in (x, y))
        self.count = torch.tensor([len(test) for test in tests], device=place.device)
        self.ends = np.cumsum([own.stop for own in seen]).tolist()
        counted = torch.tensor([own.stop for own in seen])
        self.task = torch.repeat_interleave(torch.arange(len(tests)), counted).to(place.device)
        self.scale, self.dtype = scale, place.dtype

    def __call__(self, trainer: Trainer, tasks: range) -> Float[Tensor, "r tasks"]:
        """Share of right answers in these tasks, in float64."""
        return self.both(trainer, tasks, 0)[0]

    @torch.no_grad()
    def both(self, trainer: Trainer, tasks: range, done: int) -> Both:
        """The same, and without the task: among all classes of the first ``done`` tasks."""
        model, first, score = trainer.evaluated, tasks.start, trainer.scorer()
        right = torch.zeros(2, model.count, len(tasks), dtype=torch.float64, device=self.y.device)
        kind = self.y.device.type
        count = (FILTERED_CHUNK if model.filtered else CHUNK)[kind]
        size = min(count, max(count * SIZE // self.x[0].numel(), 1))
        for start, end, theta in self._runs(trainer, tasks):
            hits = []
            with _with_weights(model, theta), FasterLinear():
                for place in range(start, end, size):
                    chunk = slice(place, min(place + size, end))
                    images = self.scale(self.x[chunk], self.dtype)
                    if score is None:
                        scores = model.outputs_of(images)
                    else:
                        scores = score(images.unsqueeze(0).expand(model.count, *images.shape))
                    hits.append(_hits(model.heads, scores, self.y[chunk], self.task[chunk], done))
            if hits:
                right.index_add_(2, self.task[start:end] - first, torch.cat(hits, dim=-1).double())
        known, unknown = right / self.count[tasks.start : tasks.stop]
        return known, unknown

    def _runs(self, trainer: Trainer, tasks: range) -> Iterator[tuple[int, int, Tensor | None]]:
        """Images that pass with the same weights: those of all tasks, unless tasks have weights of their own."""
        starts = [0, *self.ends]
        if len(tasks) and all(trainer.weights_for(task) is None for task in tasks):
            yield starts[tasks.start], starts[tasks.stop], None
            return
        for task in tasks:
            yield starts[task], starts[task + 1], trainer.weights_for(task)


class OwnTests:
    """Test sets of tasks that differ from seed to seed."""

    def __init__(self, data: TaskData, *, drop_last: bool) -> None:
        self.data, self.drop_last = data, drop_last

    def __call__(self, trainer: Trainer, tasks: range) -> Float[Tensor, "r tasks"]:
        """Share of right answers in these tasks, in float64."""
        return self.both(trainer, tasks, 0)[0]

    @torch.no_grad()
    def both(self, trainer: Trainer, tasks: range, done: int) -> Both:
        """The same, and without the task: among all classes of the first ``done`` tasks."""
        score = trainer.scorer()
        found = [self._accuracy(trainer, task, done, score) for task in tasks]
        if not found:
            nothing = torch.zeros(trainer.model.count, 0, dtype=torch.float64)
            return nothing, nothing
        known, unknown = torch.stack(found, dim=-1)
        return known, unknown

    def _accuracy(self, trainer: Trainer, task: int, done: int, score: Scorer | None) -> Float[Tensor, "2 r"]:
        model, portion, theta = trainer.evaluated, self.data.test(task), trainer.weights_for(task)
        counts = portion.counts
        if self.drop_last:
            last = (counts - 1).unsqueeze(1)
            portion.y.scatter_(1, last, -1)
        hits = []
        for batch in self.data.batches(portion, OWN_CHUNK[portion.y.device.type]):
            tasks = torch.full_like(batch.y[0], task)
            with _with_weights(model, theta):
                scores = model.everything(batch.x, statistics="frozen").z if score is None else score(batch.x)
            hits.append(_hits(model.heads, scores, batch.y, tasks, done).sum(-1))
        return torch.stack(hits).sum(0).double() / counts


Tests = SharedTests | OwnTests


def _hits(
    heads: Heads, outputs: Float[Tensor, "r n c"], y: Int[Tensor, "*r n"], tasks: Int[Tensor, " n"], done: int
) -> Bool[Tensor, "2 r n"]:
    """Which of the largest scores are right with the task and, among the classes of ``done`` tasks, without it."""
    known = heads.own(outputs, tasks).argmax(-1) == y
    if done == 0:  # no class was seen, so none is the answer
        return torch.stack([known, torch.zeros_like(known)])
    unknown = heads.seen(outputs, done - 1).argmax(-1) == heads.column(y.clamp_min(0), tasks)
    return torch.stack([known, unknown & (y >= 0)])


def task_knowledge(wanted: Literal["auto"] | TaskKnowledge, stream: Stream, trainer: Trainer) -> TaskKnowledge:
    """Whether the task of a test image is known, as far as classes and learner allow a choice."""
    if wanted == "known" or (wanted == "auto" and (stream.same_classes or not trainer.task_free)):
        return "known"
    if not trainer.task_free:
        raise GradcastError(
            f"evaluation.task = {wanted!r} needs one network for all tasks, and this learner has weights of each "
            "task's own: leave it out"
        )
    return "both" if wanted == "auto" else wanted


@contextmanager
def _with_weights(model: Replicas, theta: Tensor | None) -> Iterator[None]:
    """Within this context the model has other weights."""
    if theta is None or theta is model.theta:
        yield
        return
    own = model.theta.clone()
    with torch.no_grad():
        model.theta.copy_(theta)
    try:
        yield
    finally:
        with torch.no_grad():
            model.theta.copy_(own)
