"""When a checkpoint is due, what goes into it, and which one a run goes on from."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from pydantic import NonNegativeInt

from gradcast.cluster.ranks import Ranks
from gradcast.errors import GradcastError, Stopped, message_of, warn
from gradcast.runs.checkpoint import file
from gradcast.runs.checkpoint.state import pack, restore
from gradcast.runs.checkpoint.stop import Stop
from gradcast.runs.checkpoint.writer import Writer
from gradcast.runs.environment import RANKS
from gradcast.runs.sealed import Schema, validated
from gradcast.training.loop import Extent, Position

Start = Literal["auto", "resume", "fresh"]
OnNan = Literal["stop", "skip"]
FORMAT = 2  # of the facts; another means that another gradcast wrote them
EXACT = {"versions": "versions", "source": "code", "device": "device", "threads": "number of threads"}
PARTS = "parts"  # key of what ``state.pack`` makes
FRESH = "start over with --fresh"

# What a state that is not what it seems may lead to.
STRANGE = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


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
        """All checkpoint files that are there."""
        ...


class Facts(Schema):
    """What a checkpoint says beside its parts, which ``state.restore`` checks against those that there are."""

    format: Literal[2]
    seeds: list[NonNegativeInt]
    position: tuple[NonNegativeInt, NonNegativeInt, NonNegativeInt]  # as ``Position`` has it
    on_nan: OnNan
    facts: dict[str, Any]


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
        extent: Extent,
        device: torch.device,
        ranks: Ranks | None = None,
    ) -> None:
        self.folder, self.safety, self.stop, self.log = folder, safety, stop, log
        self.seeds, self.parts, self.facts, self.extent, self.device = seeds, parts, facts, extent, device
        self.writer, self.ranks = Writer(), ranks  # of several ranks the first one writes, and all agree when
        self.found = None if safety.start == "fresh" else newest(folder, seeds)
        if self.found is None:
            file.remove(folder)  # of other seeds, or damaged: they would pass for newer than those to come
        self.saved: int | None = None  # step of the latest
        self.resumed = False  # whether training goes on from a checkpoint
        self.mark = time.monotonic()

    @property
    def position(self) -> Position | None:
        """Where the run goes on; None from the beginning."""
        return None if self.found is None else self._said(self.found)[0]

    def begin(self) -> Position | None:
        """Put everything back to where it was, and say where that is."""
        if self.found is None:
            return None
        position, said = self._said(self.found)
        if said.on_nan != self.safety.on_nan:
            raise GradcastError(f"{self.folder} was begun with --on-nan {said.on_nan}; repeat that, or {FRESH}")
        _compare(said.facts, self.facts)
        try:
            restore(dict(self.parts), self.found.facts[PARTS], self.found.tensors, self.device)
        except STRANGE as error:
            raise self._strange(error) from None
        self.found, self.saved, self.resumed = None, position.steps, True
        return position

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Meanwhile what goes wrong after going on from a checkpoint is a sentence: anybody may have made the file."""
        try:
            yield
        except STRANGE as error:
            if not self.resumed:
                raise
            raise GradcastError(
                f"training failed after it went on from the checkpoint in {self.folder} ({type(error).__name__}: "
                f"{message_of(error)}); either the checkpoint does not fit this run or the code has a fault: {FRESH}"
            ) from error

    def _said(self, found: file.Content) -> tuple[Position, Facts]:
        try:
            said = validated({name: own for name, own in found.facts.items() if name != PARTS}, Facts)
            position = Position(*said.position)
            if not self.extent.holds(position):
                raise ValueError("its position is beyond the run")
        except ValueError as error:
            raise self._strange(error) from None
        return position, said

    def _strange(self, error: Exception) -> GradcastError:
        return GradcastError(f"the checkpoint in {self.folder} does not fit this run ({message_of(error)}); {FRESH}")

    def due(self, steps: int) -> bool:
        """Whether to save before the next step."""
        minutes, every = 60 * self.safety.minutes, self.safety.steps
        late = minutes > 0 and time.monotonic() - self.mark >= minutes
        due = late or self.stop.signal is not None or (every is not None and steps - (self.saved or 0) >= every)
        return due if self.ranks is None else bool(self.ranks.largest(due))

    def save(self, position: Position) -> None:
        """Copy everything now and write it meanwhile; when somebody asked to stop, wait for that and do."""
        if position.steps != self.saved:
            self._start(position)
        self.mark = time.monotonic()
        asked = self.stop.signal or 0
        asked = asked if self.ranks is None else self.ranks.largest(asked)
        if asked:
            self.writer.wait()
            raise Stopped(asked, _farewell(position.steps, failed=self.writer.failed))

    def _start(self, position: Position) -> None:
        tensors: dict[str, torch.Tensor] = {}
        place = [position.task, position.batches, position.steps]
        self.saved = position.steps  # or not: the next attempt is not the next step's
        if self.ranks is not None and not self.ranks.first:
            return
        try:
            parts = pack(dict(self.parts), tensors)
        except OSError as error:  # numbers that the checkpoint would speak of cannot be written
            self.writer.fail(error)
            return
        facts = {"format": FORMAT, "seeds": self.seeds, "position": place, "on_nan": self.safety.on_nan}
        facts |= {"facts": self.facts, PARTS: parts}
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
            warn(f"{path} is damaged ({error}) and is not used")
            damaged = True
            continue
        if content.facts.get("format") != FORMAT:
            raise GradcastError(f"{path} was written by another version of gradcast; {FRESH}")
        if content.facts.get("seeds") == seeds:
            return content
    if damaged:
        warn(f"no checkpoint in {folder} is intact: its seeds {seeds} start over")
    return None


def _compare(then: Mapping[str, object], now: Mapping[str, object]) -> None:
    known = [name for name in EXACT if then.get(name) is not None and now.get(name) is not None]
    other = [EXACT[name] for name in known if then[name] != now[name]]
    other += ["number of ranks"] * (then.get(RANKS, 1) != now.get(RANKS, 1))
    if other:
        warn(
            f"the checkpoint was written with another {' and another '.join(other)}: results may differ in the last "
            "bits from those of a run that was not interrupted"
        )


def _farewell(steps: int, *, failed: bool) -> str:
    if failed:
        return f"stopped before step {steps}, without a checkpoint of it; the same command goes on from an earlier one"
    return f"stopped before step {steps}, checkpoint written; the same command goes on from there"
