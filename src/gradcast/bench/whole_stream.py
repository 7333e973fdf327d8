"""One complete MNIST-R stream with GEM: the classical formulation with its evaluations, and ours."""

import copy
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from gradcast.bench.classical import ClassicalGem
from gradcast.bench.step_times import as_released, wait
from gradcast.bench.streams import Streams
from gradcast.devices import Place
from gradcast.learners.gem import GemSpec
from gradcast.training.evaluate import SharedTests
from gradcast.training.loop import Loop


@dataclass(frozen=True)
class WholeStream:
    """Seconds of a complete stream, without the start of Python and the loading of data."""

    released: float  # the classical formulation, as scripts run it
    pinned: float  # the same with numpy's threads held back
    ours: float

    @property
    def ratio(self) -> float:
        """How many times faster ours is than the classical formulation as released."""
        return self.released / self.ours

    @property
    def pinned_ratio(self) -> float:
        """The same where numpy's threads are held back, as we hold ours."""
        return self.pinned / self.ours


def whole_stream(data: Path, place: Place, say: Callable[[str], None]) -> WholeStream:
    """One seed of the row ``base`` of mnist-r, three times."""
    streams = Streams(data, place, "base")
    say("a complete MNIST-R stream with GEM: ours")
    ours = streams.measure(1, complete=True).seconds
    found = []
    for words, threads in (("as released", as_released), ("with numpy's threads held back", nullcontext)):
        say(f"a complete MNIST-R stream with GEM: the classical formulation {words}")
        loop = streams.prepared.loop(streams.setting, [0])
        begun = time.perf_counter()
        with threads():
            classical_stream(loop, streams.setting.learner)
        wait(place)
        found.append(time.perf_counter() - begun)
    released, pinned = found
    return WholeStream(released, pinned, ours)


def classical_stream(loop: Loop, table: object) -> tuple[nn.Module, list[list[float]]]:
    """The stream of a loop's first seed as a plain script trains it; the network, and accuracies after every task.

    A memory begins again at its first place when it is full; what of a batch does not fit is not stored.
    """
    tests, heads = loop.tests, loop.trainer.model.heads
    assert isinstance(table, GemSpec)
    assert isinstance(tests, SharedTests)
    module = copy.deepcopy(loop.trainer.model.modules[0])
    places = [slice(start, end) for start, end in zip([0, *tests.ends], tests.ends, strict=False)]
    memories: list[tuple[Tensor, Tensor]] = []
    matrix = [_accuracies(module, tests, places)]
    for task in range(loop.data.tasks):
        gem = ClassicalGem(module, memories, [slice(0, heads.width)] * (task + 1), table.lr, table.margin)
        loop.schedule.begin(task)
        kept: dict[int, tuple[Tensor, Tensor]] = {}  # by place in the memory
        place = 0
        for turn in loop.schedule.turns(task, 0):
            batch = loop.schedule.order.batch(turn.number)
            x, y = batch.x[0], batch.y[0]
            kept |= {place + index: (x[index], y[index]) for index in range(min(len(x), table.memory - place))}
            place = place + len(x) if place + len(x) < table.memory else 0
            gem.step(x, y)
        images, labels = zip(*kept.values(), strict=True)
        memories.append((torch.stack(images), torch.stack(labels)))
        matrix.append(_accuracies(module, tests, places))
    return module, matrix


@torch.no_grad()
def _accuracies(module: nn.Module, tests: SharedTests, places: list[slice]) -> list[float]:
    """Of all tasks, one pass each."""
    module.eval()
    found = []
    for place in places:
        answers = module(tests.scale(tests.x[place], tests.dtype)).argmax(1)
        found.append(float((answers == tests.y[place]).double().mean()))
    return found
