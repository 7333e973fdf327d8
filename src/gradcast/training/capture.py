"""A step replayed as one CUDA graph: a small network's step is hundreds of launches, each slower than its kernel."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from gradcast.core import Batch, Feeds, Metrics, Unlabelled
from gradcast.errors import GradcastError, message_of
from gradcast.replicas.replicas import Replicas

Advance = Callable[[Batch, Feeds], Metrics]
Key = tuple[int, torch.Size, tuple[torch.Size, ...], Hashable]


@runtime_checkable
class Capturable(Protocol):
    """What may be captured: the host prepares, then the device advances and never waits for the host."""

    def __call__(self, batch: Batch, unlabelled: Feeds = ()) -> Metrics:
        """Prepare and advance: one whole step."""
        ...

    def networks(self) -> Sequence[Replicas]:
        """Whose random numbers it takes."""
        ...

    def kind(self, batch: Batch) -> Hashable:
        """What else than task and sizes decides which operations it consists of."""
        ...

    def prepare(self, batch: Batch, unlabelled: Feeds) -> None:
        """On the host; what the device needs of it goes to tensors that keep their place."""
        ...

    def advance(self, batch: Batch, unlabelled: Feeds) -> Metrics:
        """On the device alone."""
        ...


def fastest(step: Capturable) -> Advance:
    """The step itself, or on a GPU its graphs."""
    return Captured(step) if step.networks()[0].theta.is_cuda else step


@dataclass(frozen=True)
class Recording:
    """One captured step: where its inputs lie, and where its metrics come out."""

    graph: torch.cuda.CUDAGraph
    batch: Batch
    unlabelled: Feeds
    names: list[str]
    values: Tensor  # [metrics, R]

    def replay(self, batch: Batch, unlabelled: Feeds) -> Metrics:
        """The step with these inputs."""
        self.batch.x.copy_(batch.x)
        self.batch.y.copy_(batch.y)
        if batch.tasks is not None and self.batch.tasks is not None:
            self.batch.tasks.copy_(batch.tasks)
        for place, new in zip(self.unlabelled, unlabelled, strict=True):
            place.x.copy_(new.x)
            place.used.copy_(new.used)
            if place.truth is not None and new.truth is not None:
                place.truth.copy_(new.truth)
        self.graph.replay()
        return dict(zip(self.names, self.values.clone(), strict=True))


class Captured:
    """Every kind of step (task, sizes, unlabelled images or none, what it says itself) is run once and then captured.

    What a step reads and writes keeps its place in memory: weights, buffers and memories are updated in place, and
    what the host decides (``prepare``) happens before the replay. Graphs are thrown away with their task, whose
    number of constraints they contain.
    """

    def __init__(self, step: Capturable) -> None:
        self.step = step
        self.seen: set[Key] = set()
        self.recordings: dict[Key, Recording] = {}

    def __call__(self, batch: Batch, unlabelled: Feeds = ()) -> Metrics:
        """Train on one labelled batch and, where there is one, an unlabelled batch."""
        if all(key[0] != batch.task for key in self.seen):
            self.seen.clear()
            self.recordings.clear()
        self.step.prepare(batch, unlabelled)
        extra = tuple(each.x.shape for each in unlabelled)
        key = (batch.task, batch.x.shape, extra, (self.step.kind(batch), batch.tasks is None))
        if key not in self.seen or not all(network.capturable for network in self.step.networks()):
            self.seen.add(key)
            return self.step.advance(batch, unlabelled)
        if key not in self.recordings:
            self.recordings[key] = self._capture(batch, unlabelled)
        return self.recordings[key].replay(batch, unlabelled)

    def _capture(self, batch: Batch, unlabelled: Feeds) -> Recording:
        tasks = None if batch.tasks is None else batch.tasks.clone()
        own = Batch(batch.x.clone(), batch.y.clone(), batch.task, tasks=tasks)
        extra = tuple(map(_copied, unlabelled))
        graph = torch.cuda.CUDAGraph()
        for network in self.step.networks():
            for generator in network.chance.generators:
                graph.register_generator_state(generator)
        torch.cuda.synchronize()
        try:
            with torch.cuda.graph(graph):
                metrics = self.step.advance(own, extra)
                values = torch.stack([value.double() for value in metrics.values()])
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            raise GradcastError(
                f"the step cannot be captured as a CUDA graph ({message_of(error)}): the network's forward "
                "may not look at numbers on the host, as .item(), print or an if do; change it, or use --device cpu"
            ) from None
        return Recording(graph, own, extra, list(metrics), values)


def _copied(unlabelled: Unlabelled) -> Unlabelled:
    truth = None if unlabelled.truth is None else unlabelled.truth.clone()
    return Unlabelled(unlabelled.x.clone(), unlabelled.used.clone(), unlabelled.views, truth=truth)
