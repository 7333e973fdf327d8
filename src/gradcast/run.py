"""Runs a specification: every row that is not finished yet, all seeds of a row together."""

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch

from gradcast import build, environment
from gradcast.build import Place
from gradcast.evaluate import Evaluator
from gradcast.loop import Loop, Observer
from gradcast.report import write_report
from gradcast.result import RowResult, read
from gradcast.signals import Predicted
from gradcast.spec import NoSignalSpec, Row, Setting, Spec
from gradcast.store import Recorder, RunDirectory, to_json, write_text
from gradcast.streams.pool import Pool
from gradcast.streams.stream import Stream


@runtime_checkable
class Display(Protocol):
    """Shows a run to a person."""

    def track(self, paths: Iterable[Path], what: str) -> Iterable[Path]:
        """A long loop before training."""
        ...

    def row(self, label: str, steps: int) -> Observer:
        """A row begins; the observer hears of its steps."""
        ...

    def skipped(self, label: str) -> None:
        """A row was finished earlier."""
        ...


def run(
    spec: Spec,
    *,
    out: Path = Path("runs"),
    data: Path = Path("data"),
    device: str = "auto",
    display: Display | None = None,
) -> tuple[RunDirectory, list[RowResult]]:
    """Train what is missing, write result, report and figure, and return where they are and what they say."""
    place = Place(environment.choose_device(device), getattr(torch, spec.dtype), data)
    shared = Shared(place, display)
    for row in spec.rows:  # bad data shows before anything is written
        shared.pool(row.setting)
    directory = RunDirectory.create(out, spec)
    for row in spec.rows:
        if not directory.finished(row.name):
            train(spec, row, directory, shared)
        elif display is not None:
            display.skipped(row.label)
    results = read(directory)
    write_text(directory.path / "result.json", to_json([result.as_dict() for result in results]))
    write_report(directory, results)
    return directory, results


class Shared:
    """Streams, test sets and pools, made once for all rows that use the same."""

    def __init__(self, place: Place, display: Display | None = None) -> None:
        self.place, self.display = place, display
        self._streams: dict[str, tuple[Stream, Evaluator]] = {}
        self._pools: dict[str, Pool] = {}

    def stream(self, setting: Setting) -> tuple[Stream, Evaluator]:
        """The stream and the test sets of its tasks."""
        key = setting.stream.model_dump_json() + setting.evaluation.model_dump_json()
        if key not in self._streams:
            stream = build.stream(setting.stream, self.place.data)
            tests = [stream.test(task) for task in range(len(stream.tasks))]
            drop_last = setting.evaluation.drop_last
            evaluator = Evaluator(tests, drop_last=drop_last, device=self.place.device, dtype=self.place.dtype)
            self._streams[key] = stream, evaluator
        return self._streams[key]

    def pool(self, setting: Setting) -> Pool | None:
        """The pool, where the setting uses one."""
        stream, _ = self.stream(setting)
        if isinstance(setting.signal, NoSignalSpec) or setting.policy.p == 0:
            return None
        key = setting.pool.model_dump_json() + str(stream.shape) + str(setting.stream.data_seed)
        if key not in self._pools:
            track = self.display.track if self.display is not None else _untracked
            seed = setting.stream.data_seed
            self._pools[key] = build.pool(setting.pool, stream, self.place, data_seed=seed, track=track)
        return self._pools[key]


def train(spec: Spec, row: Row, directory: RunDirectory, shared: Shared) -> None:
    """One row, all seeds at once, recorded as it goes."""
    stream, evaluator = shared.stream(row.setting)
    loop = build.loop(row.setting, stream, evaluator, shared.pool(row.setting), spec.seeds, shared.place)
    directory.start(row.name, spec.seeds)
    directory.stream(row.name, stream.facts)
    recorder = Recorder(directory, row.name, spec.seeds)
    observers: list[Observer] = [recorder]
    if shared.display is not None:
        observers.append(shared.display.row(row.label, stream.steps(loop.batch, loop.epochs)))
    started, clock = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter()
    try:
        loop.run(observers)
    finally:
        recorder.flush()
    for replica, seed in enumerate(spec.seeds):
        directory.weights(row.name, seed, _weights(loop, replica))
    seconds = round(time.perf_counter() - clock, 3)
    where = environment.describe(shared.place.device)
    directory.finish(row.name, where | {"time": {"started": started, "seconds": seconds}})


def _weights(loop: Loop, replica: int) -> dict[str, torch.Tensor]:
    model, signal = loop.step.model, loop.step.signal
    named = model.parameters(model.theta) | model.buffers
    weights = {f"model.{name}": value[replica].clone() for name, value in named.items()}
    if isinstance(signal, Predicted):
        weights |= {f"learner.{name}": value[replica].clone() for name, value in signal.learner.state_dict().items()}
    return weights


def _untracked(paths: Iterable[Path], what: str) -> Iterable[Path]:
    return paths
