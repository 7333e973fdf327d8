"""Milliseconds a step: one network, one task, memories of all earlier tasks."""

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from statistics import median

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from gradcast.bench.classical import ClassicalGem
from gradcast.core import Batch
from gradcast.data.digits import digits
from gradcast.data.images import Colour, Images, move_pixels
from gradcast.devices import Place
from gradcast.learners.gem import Gem
from gradcast.memories.ring import TaskMemory
from gradcast.networks import MLP, SlimResNet18
from gradcast.randomness import numpy_generator, seeded
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.streams import scenarios
from gradcast.training.capture import fastest
from gradcast.training.step import Step

TASKS, BATCH, MEMORIES, LR, MARGIN = 20, 10, 256, 0.1, 0.5
PAUSE = 0.2  # seconds in which threads that wait for work give up
TURN = 10  # steps of one formulation before the other has its turn
WARM_UP = 3  # steps before the clock: compilation, graph capture, caches
Advance = Callable[[int], Tensor | bool]  # number of the batch in, which replicas were projected out


@dataclass(frozen=True)
class Network:
    """A network of the published experiments, and the images it takes."""

    name: str
    shape: tuple[int, ...]
    heads: Heads
    lived: int  # steps of each past task that its weights have seen

    def make(self) -> nn.Module:
        """The network, with random weights."""
        if self.name == "mlp":
            return MLP([784, 100, 100, self.heads.outputs])
        return SlimResNet18(20, self.heads.outputs)


NETWORKS = {
    "mlp": Network("mlp", (1, 28, 28), Heads.even(10), lived=100),
    "slim-resnet18": Network("slim-resnet18", (3, 32, 32), Heads.even(5, TASKS, masked=True), lived=10),
}


@dataclass(frozen=True)
class Timing:
    """Milliseconds of a step."""

    milliseconds: float  # of all steps
    violating: float | None  # of steps in which a gradient was projected
    violated: float | None  # share of such steps; None: not recorded


class Scene:
    """Task ``task`` (counted from 1) of a stream: full memories, batches to come; the same for both formulations.

    The tasks are rotations of scikit-learn's handwritten digits in the network's size and colour, and the weights have
    come through the earlier ones with GEM, so that about as many gradients oppose each other as in a real stream.
    """

    def __init__(
        self, network: Network, task: int, place: Place, *, memories: int = MEMORIES, replicas: int = 1
    ) -> None:
        self.network, self.task, self.place, self.memories, self.replicas = network, task - 1, place, memories, replicas
        self.draw = Drawer(network, place)
        self.past = [self.draw(earlier, memories) for earlier in range(self.task)]
        self.coming = [self.draw(self.task, BATCH) for _ in range(200)]
        self.module = copy.deepcopy(_life(network, place.device).at(self.task)).to(place.dtype)

    def ours(self) -> tuple[Callable[[int], Tensor], Replicas]:
        """Our step, as a run takes it: batch number in, projected replicas out."""
        step = self.step()
        advance = fastest(step)
        return lambda index: advance(self.batch(index), ())["projected"], step.model

    def batch(self, index: int) -> Batch:
        """A batch of those to come."""
        return self._batch(*self.coming[index], self.task)

    def step(self) -> Step:
        """The step itself, with its memories."""
        modules = [copy.deepcopy(self.module) for _ in range(self.replicas)]
        place, heads = self.place, self.network.heads
        model = Replicas(modules, heads, device=place.device, dtype=place.dtype, inner=place.inner)
        memory = TaskMemory(TASKS, self.memories)
        for task, (x, y) in enumerate(self.past):
            memory.write(self._batch(x, y, task))
        return Step(model, Gem(memory, margin=MARGIN), LR)

    def classical(self) -> tuple[Callable[[int], bool], nn.Module]:
        """The classical step: batch number in, whether it was projected out."""
        module = copy.deepcopy(self.module)
        columns = [_columns(self.network, task) for task in range(self.task + 1)]
        gem = ClassicalGem(module, self.past, columns, LR, MARGIN)
        return lambda index: gem.step(*self.coming[index]), module

    def _batch(self, x: Tensor, y: Tensor, task: int) -> Batch:
        return Batch(x.expand(self.replicas, *x.shape), y.expand(self.replicas, *y.shape), task)


class Life:
    """The network on its way through a stream with GEM."""

    def __init__(self, network: Network, device: torch.device) -> None:
        self.network, self.draw = network, Drawer(network, Place(device, torch.float32))
        with seeded(0, "bench"):
            self.model = Replicas([network.make()], network.heads, device=device, dtype=torch.float32)
        self.memory = TaskMemory(TASKS, MEMORIES)
        self.advance = fastest(Step(self.model, Gem(self.memory, margin=MARGIN), LR))
        self.begun: list[nn.Module] = []  # as it stood at the beginning of each task

    def at(self, task: int) -> nn.Module:
        """The network that has learned all tasks before this one."""
        while len(self.begun) <= task:
            if self.begun:
                self._learn(len(self.begun) - 1)
            self.begun.append(copy.deepcopy(self.model.modules[0]))
        return self.begun[task]

    def _learn(self, task: int) -> None:
        for _ in range(self.network.lived):
            self.advance(self._batch(task, BATCH), ())
        self.memory.write(self._batch(task, MEMORIES))  # full, whatever the steps have left there

    def _batch(self, task: int, count: int) -> Batch:
        x, y = self.draw(task, count)
        return Batch(x.unsqueeze(0), y.unsqueeze(0), task)


@cache
def _life(network: Network, device: torch.device) -> Life:
    """One for all scenes."""
    return Life(network, device)


def _columns(network: Network, task: int) -> slice:
    """Logits of a task."""
    first = task * network.heads.width if network.heads.masked else 0
    return slice(first, first + network.heads.width)


class Drawer:
    """Images and labels of a task, drawn at random."""

    def __init__(self, network: Network, place: Place) -> None:
        self.place, self.random = place, numpy_generator(0, "bench")
        colour: Colour = "grey" if network.shape[0] == 1 else "rgb"
        source = digits(0).converted(colour, network.shape[-1])
        kept = np.flatnonzero(source.train.y < network.heads.width)
        self.images = Images(source.train.x[kept], source.train.y[kept])
        self.tasks = scenarios.rotated(source, TASKS, 0)[0]

    def __call__(self, task: int, count: int) -> tuple[Tensor, Tensor]:
        """Pixels from 0 to 1, and classes."""
        chosen = self.random.integers(0, len(self.images), count)
        x = torch.from_numpy(move_pixels(self.images.x[chosen], self.tasks[task].origin)).to(self.place.device)
        return x.to(self.place.dtype) / 255, torch.from_numpy(self.images.y[chosen]).to(self.place.device)


def time_steps(place: Place, steps: int, *advances: Advance) -> list[Timing]:
    """Each formulation's steps in turns of a few, so that all meet the same noise of the machine; one wait a step."""
    each: list[list[tuple[float, bool]]] = [[] for _ in advances]
    for start in range(0, WARM_UP + steps, TURN):
        for seen, advance in zip(each, advances, strict=True):
            with as_released() if isinstance(advance, AsReleased) else nullcontext():
                for index in range(start, min(start + TURN, WARM_UP + steps)):
                    begun = time.perf_counter()
                    projected = advance(index)
                    wait(place)
                    seen.append((1000 * (time.perf_counter() - begun), bool(torch.as_tensor(projected).any())))
    return [_timing(seen[WARM_UP:]) for seen in each]


@dataclass(frozen=True)
class AsReleased:
    """With all the threads that numpy takes if nobody holds it back: they and torch's stand in each other's way."""

    advance: Advance

    def __call__(self, index: int) -> Tensor | bool:
        """Take one step, with the batch of this number."""
        return self.advance(index)


@contextmanager
def as_released() -> Iterator[None]:
    """Within this context numpy has as many threads as torch."""
    with threadpool_limits(torch.get_num_threads(), user_api="blas"):
        yield
    time.sleep(PAUSE)


def _timing(seen: Sequence[tuple[float, bool]]) -> Timing:
    """Medians of both kinds of steps, weighed by their shares: a machine's hiccup is not the step's."""
    kinds = {kind: [milliseconds for milliseconds, projected in seen if projected is kind] for kind in (True, False)}
    usual = {kind: median(times) for kind, times in kinds.items() if times}
    whole = sum(len(kinds[kind]) * milliseconds for kind, milliseconds in usual.items()) / len(seen)
    return Timing(whole, usual.get(True), len(kinds[True]) / len(seen))


def wait(place: Place) -> None:
    """Until the device has done what it was told."""
    if place.device.type == "cuda":
        torch.cuda.synchronize()


def difference(model: Replicas, module: nn.Module) -> float:
    """Largest difference of any weight after the same steps, relative to the largest weight."""
    flat: Sequence[Tensor] = [parameter.detach().flatten() for parameter in module.parameters()]
    theirs = torch.cat(list(flat))
    return float((model.theta[0] - theirs).abs().max() / theirs.abs().max())
