"""Milliseconds a step: one network, one task, memories of all earlier tasks."""

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gradcast.bench.classical import ClassicalGem
from gradcast.capture import fastest
from gradcast.core import Batch
from gradcast.environment import Place
from gradcast.heads import Heads
from gradcast.learners import Gem
from gradcast.memory import TaskMemory
from gradcast.networks import MLP, SlimResNet18
from gradcast.randomness import seeded
from gradcast.replicas import Replicas
from gradcast.step import Step

TASKS, BATCH, MEMORIES, LR, MARGIN = 20, 10, 256, 0.1, 0.5
WARM_UP = 3  # steps before the clock: compilation, graph capture, caches


@dataclass(frozen=True)
class Network:
    """A network of the published experiments, and the images it takes."""

    name: str
    shape: tuple[int, ...]
    heads: Heads

    def make(self) -> nn.Module:
        """With random weights."""
        if self.name == "mlp":
            return MLP([784, 100, 100, self.heads.outputs])
        return SlimResNet18(20, self.heads.outputs)


NETWORKS = {
    "mlp": Network("mlp", (1, 28, 28), Heads(10)),
    "slim-resnet18": Network("slim-resnet18", (3, 32, 32), Heads(5, TASKS, masked=True)),
}


@dataclass(frozen=True)
class Timing:
    """Mean milliseconds of steps with and without a projection."""

    milliseconds: float  # of all steps
    violating: float | None  # of steps in which a gradient was projected
    violated: float  # share of such steps


class Scene:
    """Task ``task`` (counted from 1) of a stream: full memories, batches to come; the same for both formulations.

    Images are noise around a pattern of their class and task, so that past tasks are learnable and oppose each other.
    """

    def __init__(
        self, network: Network, task: int, place: Place, *, memories: int = MEMORIES, replicas: int = 1
    ) -> None:
        self.network, self.task, self.place, self.memories, self.replicas = network, task - 1, place, memories, replicas
        with seeded(0, "bench"):
            self.patterns = torch.rand(TASKS, network.heads.width, *network.shape)
            self.past = [self._draw(earlier, memories) for earlier in range(self.task)]
            self.modules = [network.make() for _ in range(replicas)]
            self.coming = [self._draw(self.task, BATCH) for _ in range(200)]

    def _draw(self, task: int, count: int) -> tuple[Tensor, Tensor]:
        y = torch.randint(self.network.heads.width, (count,))
        x = 0.5 * self.patterns[task][y] + 0.5 * torch.rand(count, *self.network.shape)
        return x.to(device=self.place.device, dtype=self.place.dtype), y.to(self.place.device)

    def ours(self) -> tuple[Callable[[int], Tensor], Replicas]:
        """Our step, as a run takes it: batch number in, projected replicas out."""
        modules = [copy.deepcopy(module) for module in self.modules]
        place, heads = self.place, self.network.heads
        model = Replicas(modules, heads, device=place.device, dtype=place.dtype, inner=place.inner)
        memory = TaskMemory(TASKS, self.memories)
        for task, (x, y) in enumerate(self.past):
            memory.write(self._batch(x, y, task))
        advance = fastest(Step(model, Gem(memory, margin=MARGIN), LR))
        return lambda index: advance(self._batch(*self.coming[index], self.task), None)["projected"], model

    def classical(self) -> tuple[Callable[[int], bool], nn.Module]:
        """The classical step: batch number in, whether it was projected out."""
        module = copy.deepcopy(self.modules[0]).to(device=self.place.device, dtype=self.place.dtype)
        width = self.network.heads.width
        first = [task * width if self.network.heads.masked else 0 for task in range(self.task + 1)]
        gem = ClassicalGem(module, self.past, [slice(start, start + width) for start in first], LR, MARGIN)
        return lambda index: gem.step(*self.coming[index]), module

    def _batch(self, x: Tensor, y: Tensor, task: int) -> Batch:
        return Batch(x.expand(self.replicas, *x.shape), y.expand(self.replicas, *y.shape), task)


def time_steps(place: Place, steps: int, *advances: Callable[[int], Tensor | bool]) -> list[Timing]:
    """Each formulation's steps in turn, so that both meet the same noise of the machine; one wait a step."""
    for index in range(WARM_UP):
        for advance in advances:
            advance(index)
    _wait(place)
    each: list[list[tuple[float, bool]]] = [[] for _ in advances]
    for index in range(WARM_UP, WARM_UP + steps):
        for seen, advance in zip(each, advances, strict=True):
            begun = time.perf_counter()
            projected = advance(index)
            _wait(place)
            seen.append((1000 * (time.perf_counter() - begun), bool(torch.as_tensor(projected).any())))
    return [_timing(seen) for seen in each]


def _timing(seen: Sequence[tuple[float, bool]]) -> Timing:
    violating = [milliseconds for milliseconds, projected in seen if projected]
    mean = sum(milliseconds for milliseconds, _ in seen) / len(seen)
    return Timing(mean, sum(violating) / len(violating) if violating else None, len(violating) / len(seen))


def _wait(place: Place) -> None:
    if place.device.type == "cuda":
        torch.cuda.synchronize()


def difference(model: Replicas, module: nn.Module) -> float:
    """Largest difference of any weight after the same steps, relative to the largest weight."""
    flat: Sequence[Tensor] = [parameter.detach().flatten() for parameter in module.parameters()]
    theirs = torch.cat(list(flat))
    return float((model.theta[0] - theirs).abs().max() / theirs.abs().max())
