"""When a checkpoint is due, what goes into it, and which one a run goes on from."""

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import torch

from gradcast.errors import GradcastError, Stopped, message_of
from gradcast.runs.checkpoint import file
from gradcast.runs.checkpoint.state import pack, restore
from gradcast.runs.checkpoint.stop import Stop
from gradcast.runs.checkpoint.writer import Writer
from gradcast.training.loop import Position

Start = Literal["auto", "resume", "fresh"]
OnNan = Literal["stop", "skip"]
FORMAT = 1  # of the facts; another means that another gradcast wrote them
EXACT = {"versions": "versions", "commit": "code", "device": "device", "threads": "number of threads"}


@dataclass(frozen=True)
class Safety:
    """How often a run is saved besides at the end of every task, and what becomes of what went wrong."""

    minutes: float = 10.0  # 0: never
    steps: int | None = None
    start: Start = "auto"  # an unfinished row: from its checkpoint, if any; only from there; from the beginning
    on_nan: OnNan = "stop"  # a step that is not finite: the end of the run, or undone and counted


@runtime_checkable
class Log(Protocol):
    """Files that grow with the run and have to be on disk before a checkpoint that speaks of them."""

    @property
    def files(self) -> list[Path]:
        """All that are there."""
        ...


class Checkpoints:
    """Checkpoints of one group of seeds in a row's folder.

    ``parts`` are the things that remember; ``facts`` say where this happens, since elsewhere numbers round differently.
    """

    def __init__(
        self,
        folder: Path,
        safety: Safety,
        stop: Stop,
        *,
        seeds: list[int],
        parts: Mapping[str, object],
        log: Log,
        facts: Mapping[str, object],
        device: torch.device,
    ) -> None:
        self.folder, self.safety, self.stop, self.log = folder, safety, stop, log
        self.seeds, self.parts, self.facts, self.device = seeds, parts, facts, device
        self.writer = Writer()
        self.found = None if safety.start == "fresh" else newest(folder, seeds)
        if self.found is None:
            file.remove(folder)  # of other seeds, or damaged: they would pass for newer than those to come
        self.saved: int | None = None  # step of the latest
        self.mark = time.monotonic()

    @property
    def position(self) -> Position | None:
        """Where the run goes on; None from the beginning."""
        if self.found is None:
            return None
        return Position(*self.found.facts["position"])

    def begin(self) -> Position | None:
        """Put everything back to where it was, and say where that is."""
        position = self.position
        if self.found is None or position is None:
            return None
        _compare(self.found.facts["facts"], self.facts)
        try:
            restore(dict(self.parts), self.found.facts["parts"], self.found.tensors, self.device)
        except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
            raise GradcastError(
                f"the checkpoint in {self.folder} does not fit this version of gradcast ({message_of(error)}); "
                "go on with the version that wrote it, or start over with --fresh"
            ) from None
        self.found, self.saved = None, position.steps
        return position

    def due(self, steps: int) -> bool:
        """Whether to save before the next step."""
        minutes, every = 60 * self.safety.minutes, self.safety.steps
        late = minutes > 0 and time.monotonic() - self.mark >= minutes
        return late or self.stop.signal is not None or (every is not None and steps - (self.saved or 0) >= every)

    def save(self, position: Position) -> None:
        """Copy everything now and write it meanwhile; when somebody asked to stop, wait for that and do."""
        if position.steps != self.saved:
            self._start(position)
        self.mark = time.monotonic()
        if self.stop.signal is not None:
            self.writer.wait()
            raise Stopped(self.stop.signal, _farewell(position.steps, failed=self.writer.failed))

    def _start(self, position: Position) -> None:
        tensors: dict[str, torch.Tensor] = {}
        place = [position.task, position.batches, position.steps]
        self.saved = position.steps  # or not: the next attempt is not the next step's
        try:
            parts = pack(dict(self.parts), tensors)
        except OSError as error:  # numbers that the checkpoint would speak of cannot be written
            self.writer.fail(error)
            return
        facts = {"format": FORMAT, "seeds": self.seeds, "position": place, "facts": self.facts, "parts": parts}
        content, files = file.Content(facts, tensors), self.log.files
        self.writer.start(lambda: file.write(self.folder, position.steps, content, files))

    def close(self) -> None:
        """Nothing is being written any more."""
        self.writer.close()


def newest(folder: Path, seeds: list[int]) -> file.Content | None:
    """The newest intact checkpoint of these seeds; damaged ones are named."""
    damaged = False
    for path in file.files(folder):
        try:
            content = file.read(path)
        except file.DamagedError as error:
            warnings.warn(f"{path} is damaged ({error}) and is not used", stacklevel=2)
            damaged = True
            continue
        if content.facts.get("format") != FORMAT:
            raise GradcastError(f"{path} was written by another version of gradcast; start over with --fresh")
        if content.facts["seeds"] == seeds:
            return content
    if damaged:
        warnings.warn(f"no checkpoint in {folder} is intact: its seeds {seeds} start over", stacklevel=2)
    return None


def _compare(then: Mapping[str, object], now: Mapping[str, object]) -> None:
    known = [name for name in EXACT if then.get(name) is not None and now.get(name) is not None]
    other = [EXACT[name] for name in known if then[name] != now[name]]
    if other:
        warnings.warn(
            f"the checkpoint was written with another {' and another '.join(other)}: results may differ in the last "
            "bits from those of a run that was not interrupted",
            stacklevel=3,
        )


def _farewell(steps: int, *, failed: bool) -> str:
    if failed:
        return f"stopped before step {steps}, without a checkpoint of it; the same command goes on from an earlier one"
    return f"stopped before step {steps}, checkpoint written; the same command goes on from there"
