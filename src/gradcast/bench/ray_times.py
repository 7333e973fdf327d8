"""What Ray gains and costs: cells side by side against one after another, and many short ones."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gradcast.cluster.cell_task import CellTask, Conditions, cell_tasks
from gradcast.cluster.on_ray import fill_store, session
from gradcast.cluster.worker import train_cell, versions
from gradcast.devices import use_threads
from gradcast.errors import GradcastError
from gradcast.runs.cell_key import cell_key
from gradcast.runs.checkpoint.keeper import Safety
from gradcast.runs.seed_store import SeedStore
from gradcast.specs import text as specfile

WORKERS = 2
MOST = 1000  # images that a task may have
CELLS = 40
LONG = 6  # times the length of a short cell: one of the two that run side by side
SAMPLES = 100  # images a task of a cell whose time is taken first
FURTHER = 9  # times as many, of the second one


@dataclass(frozen=True)
class RayTimes:
    """Seconds of cells with one thread each, all in one session."""

    apart: float  # two long cells, one after the other
    together: float  # two at once
    many: float  # all short cells
    cell_seconds: float  # one short cell, where as many processes without Ray train such cells side by side
    cells: int = CELLS
    workers: int = WORKERS

    @property
    def two(self) -> float:
        """Share of the time that two at once take."""
        return self.together / self.apart

    @property
    def overhead(self) -> float:
        """What many short cells take beyond their own time, as a share of it."""
        return self.many * self.workers / (self.cells * self.cell_seconds) - 1


class NoRelay:
    """A cell of this process tells nobody, and goes on from nowhere."""

    def tell(self, task: str, progress: object) -> None:
        """Do nothing: nobody listens."""

    def save(self, task: str, files: dict[str, bytes]) -> None:
        """A cell this short needs no checkpoint."""

    def load(self, task: str) -> dict[str, bytes]:
        """No checkpoint: a cell begins with its first step."""
        return {}


def ray_times(say: Callable[[str], None], cells: int = CELLS, seconds: float = 1.0) -> RayTimes:
    """Cells of about so many ``seconds``; the workers have started before anything is timed."""
    use_threads(1)
    conditions = Conditions(Path.cwd(), Path("data"), "cpu", 1, Safety(), versions())
    say("the time of one cell in this process")
    _alone(_cell(SAMPLES, 0), conditions)  # loads what the first one needs
    few, more = (_alone(_cell(factor * SAMPLES, 1), conditions) for factor in (1, FURTHER))
    slope = max((more - few) / (FURTHER - 1), 1e-6)  # seconds of so many images more
    samples = round(SAMPLES * max(1.0, 1 + (seconds - few) / slope))
    short = [_cell(samples, seed) for seed in range(2, cells + 2)]
    long = [_cell(samples * LONG, seed) for seed in range(4)]
    say("as many processes side by side, without Ray")
    with ProcessPoolExecutor(WORKERS, get_context("spawn")) as plain:
        list(plain.map(_alone, [_cell(SAMPLES, 0)] * 4 * WORKERS, [conditions] * 4 * WORKERS))
        each = list(plain.map(_alone, short[: 4 * WORKERS], [conditions] * 4 * WORKERS))
    with session("ray", cpus=WORKERS) as ray, TemporaryDirectory() as folder:
        store = SeedStore(Path(folder) / "store")
        say("workers start")
        _filled(ray, [_cell(SAMPLES, seed) for seed in range(100, 100 + 4 * WORKERS)], conditions, store)
        say(f"{cells} short cells")
        many = _filled(ray, short, conditions, store)
        say("two long cells, one after the other and at once")
        apart = sum(_filled(ray, [task], conditions, store) for task in long[:2])
        together = _filled(ray, long[2:], conditions, store)
    return RayTimes(apart, together, many, sum(each) / len(each), cells)


def _cell(samples: int, seed: int) -> CellTask:
    """The base of the digits for one seed, in ten tasks of so many images, in as many passes as it takes."""
    passes = -(-samples // MOST)
    size = [f"stream.samples={-(-samples // passes)}", f"stream.epochs={passes}"]
    spec = specfile.load("digits", [*size, f"seeds=[{seed}]"])
    row = spec.rows[0]
    (made,) = cell_tasks(spec, row, cell_key(row.setting, spec.dtype, {"source": str(samples)}), spec.seeds, None)
    return made


def _alone(task: CellTask, conditions: Conditions) -> float:
    began = time.perf_counter()
    problem = train_cell(task, conditions, NoRelay()).problem
    if problem:
        raise GradcastError(problem)
    return time.perf_counter() - began


def _filled(ray: Any, tasks: Sequence[CellTask], conditions: Conditions, store: SeedStore) -> float:  # noqa: ANN401
    began = time.perf_counter()
    problems = fill_store(ray, tasks, conditions, store, store.path.parent / "unfinished")
    if problems:
        raise GradcastError(next(iter(problems.values())))
    return time.perf_counter() - began
