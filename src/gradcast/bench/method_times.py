"""Milliseconds a step of every learner beside experience replay with equally many images in memory."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gradcast.bench.stand_in import stand_in
from gradcast.bench.step_times import WARM_UP, time_steps
from gradcast.data.cache import Cache, default_cache
from gradcast.data.load import Shelf, default_data, untracked
from gradcast.devices import Arithmetic, Place
from gradcast.learners.registry import LEARNERS
from gradcast.runs.prepared import PreparedRun
from gradcast.specs.spec import Setting
from gradcast.training.loop import Loop, ShownImages

TASKS, CLASSES, BATCH = 5, 5, 10
MEMORY = {"cpu": 25, "cuda": 250}  # images a task
TIMED = 40  # steps, at most: several turns of both
WIDTH = {"cpu": 4, "cuda": 20}  # of the slim ResNet-18
SIZE = {"cpu": 16, "cuda": 32}  # pixels a side
BASE = "er"
OF_ALL_TASKS = ("icarl",)  # their memory is that of all tasks
ALONE = ("joint", "acl", "hat", "pnn", "multimodal", "python")  # other epochs, other networks, somebody else's


@dataclass(frozen=True)
class MethodTime:
    """A step of a learner in the last task."""

    learner: str
    dtype: Arithmetic
    milliseconds: float
    ratio: float  # to experience replay, measured in turns with it


def names() -> list[str]:
    """Learners that are timed, experience replay first."""
    return [BASE, *(name for name in LEARNERS if name in LEARNERS.own and name not in (*ALONE, BASE))]


def method_time(place: Place, dtype: Arithmetic, learner: str, steps: int) -> MethodTime:
    """In turns with experience replay, both after the same earlier tasks."""
    steps = min(steps, TIMED)
    own, base = time_steps(place, steps, *(last_task(place, name, steps) for name in (learner, BASE)))
    return MethodTime(learner, dtype, own.milliseconds, own.milliseconds / base.milliseconds)


def setting(learner: str, kind: str) -> Setting:
    """Split tasks, one head for each, and the method's own constants."""
    fields, memory = LEARNERS[learner].table.model_fields, MEMORY[kind]
    own = {"memory": memory * TASKS if learner in OF_ALL_TASKS else memory} if "memory" in fields else {}
    return Setting.model_validate(
        {
            "stream": {"source": "python", "scenario": "split", "tasks": TASKS, "batch": BATCH},
            "model": {"name": "slim-resnet18", "width": WIDTH[kind]},
            "learner": {"name": learner, **own},
        }
    )


def last_task(place: Place, learner: str, steps: int) -> Callable[[int], bool]:
    """A step of the last task, after all earlier ones were trained on as many images as their memory holds."""
    kind = place.device.type
    each = max(MEMORY[kind], BATCH * (WARM_UP + steps)) // CLASSES
    source = stand_in(TASKS * CLASSES, each, 1, SIZE[kind])
    shelf = Shelf(default_data(), Cache(default_cache()), untracked)
    loop = PreparedRun(place, shelf, source).loop(setting(learner, kind), [0])
    taken = _steps(loop)
    for _ in range(loop.extent.steps - loop.schedule.steps(TASKS - 1)):
        next(taken)

    def step(index: int) -> bool:
        next(taken)
        return False

    return step


def _steps(loop: Loop) -> Iterator[None]:
    """The steps of a run one by one, without its evaluations."""
    for task in range(TASKS):
        loop.trainer.begin(ShownImages(loop, task))
        loop.schedule.begin(task)
        for turn in loop.schedule.turns(task, 0):
            loop.trainer.step(loop.schedule.order.batch(turn.number), tuple, turn)
            yield
        loop.schedule.end(task)
        loop.trainer.finish(ShownImages(loop, task))
