"""A run's directory: text and safetensors only.

spec.toml                                                     what was asked for, all defaults spelled out
ROW/stream.json                                               what was drawn to make the tasks
ROW/groups.json  checkpoint-N.safetensors                     while the row trains: seeds at once, state after N steps
ROW/seed-N/metrics.jsonl  accuracy.csv  weights.safetensors   one replica
ROW/seed-N/head_start.json                                    where the row has a head start: its losses
ROW/seed-N/features.json                                      of the first seed, for learners with two kinds of features
ROW/diverged.json                                             seeds that diverged, with the reason, where there are any
ROW/env.json                                                  versions, device, commit, times; marks the row as finished
family.json                                                   of a part of a table: p-values of its other claims
result.json  report.md  accuracy-matrix.png  signal.png       made from the above, as are features.png, report.html and
                                                              report-files
"""

import fcntl
import hashlib
import json
import math
import os
import shutil
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from gradcast.errors import GradcastError, message_of
from gradcast.runs.jsontext import parse_json
from gradcast.runs.step_log import Line, logged, shares
from gradcast.specs.spec import Spec
from gradcast.specs.text import dump, parse

HEAD_START = "head_start.json"
DIVERGED = "diverged.json"
FAMILY = "family.json"
WRITING = ".writing"  # folder of files that are not whole yet


class RunDirectory:
    """The files of one run; its name carries a hash of specification and data, so that two never mix."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def named(cls, out: Path, spec: Spec, content: str = "") -> "RunDirectory":
        """The directory of this specification and content of data below ``out``, whether it is there or not."""
        said = spec.model_dump(exclude={"rows": {"__all__": {"control"}}})  # changes what is said, not what is trained
        facts = json.dumps(said, sort_keys=True)  # in whatever order keys are told
        digest = hashlib.blake2b((facts + content).encode(), digest_size=4).hexdigest()
        return cls(out / f"{spec.name}-{digest}")

    @classmethod
    def create(cls, out: Path, spec: Spec, content: str = "") -> "RunDirectory":
        """The directory of this specification and content of data below ``out``, made if it is not there."""
        made = cls.named(out, spec, content)
        made.path.mkdir(parents=True, exist_ok=True)
        write_text(made.path / "spec.toml", dump(spec))
        return made

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else may write here meanwhile; the lock ends with the process, however that ends."""
        with open(self.path.parent / f".{self.path.name}.lock", "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise GradcastError(
                    f"another process is writing {self.path}; wait for it or choose another --out"
                ) from None
            yield

    @property
    def spec(self) -> Spec:
        """The specification it was made from."""
        file = self.path / "spec.toml"
        try:
            return parse(tomllib.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, RecursionError, GradcastError) as error:
            raise GradcastError(
                f"{file} cannot be read ({message_of(error)}); delete {self.path} and run again"
            ) from None

    def seed(self, row: str, seed: int) -> Path:
        """The directory of one replica."""
        return self.path / row / f"seed-{seed}"

    def finished(self, row: str) -> bool:
        """Whether the row is complete."""
        return (self.path / row / "env.json").is_file()

    def start(self, row: str, seeds: Sequence[int]) -> None:
        """Empty directories for a row; of what an interrupted attempt left, only the seeds that diverged are kept."""
        lost = self.diverged(row)
        shutil.rmtree(self.path / row, ignore_errors=True)
        self.clear(row, seeds)
        self.lose(row, lost)

    def lose(self, row: str, lost: Mapping[int, str]) -> None:
        """Write down which seeds diverged, and why."""
        (self.path / row / DIVERGED).unlink(missing_ok=True)
        if lost:
            (self.path / row).mkdir(parents=True, exist_ok=True)
            write_text(self.path / row / DIVERGED, to_json({str(seed): reason for seed, reason in lost.items()}))

    def clear(self, row: str, seeds: Sequence[int]) -> None:
        """Empty directories for some seeds of it."""
        for seed in seeds:
            shutil.rmtree(self.seed(row, seed), ignore_errors=True)
            self.seed(row, seed).mkdir(parents=True)

    def trained(self, row: str, seeds: Sequence[int]) -> bool:
        """Whether all these seeds have their final weights."""
        return all((self.seed(row, seed) / "weights.safetensors").is_file() for seed in seeds)

    def finish(self, row: str, facts: Mapping[str, object]) -> None:
        """Mark the row as complete and say where that happened, and how many steps each replica logged."""
        logs = sorted((self.path / row).glob("seed-*/metrics.jsonl"))
        lengths = {file.parent.name: file.read_bytes().count(b"\n") for file in logs}
        write_text(self.path / row / "env.json", to_json({**facts, "steps_logged": lengths}))

    def weights(self, row: str, seed: int, tensors: Mapping[str, Tensor]) -> None:
        """Final weights of one replica under the network's own names."""
        path = self.seed(row, seed) / "weights.safetensors"
        try:
            write_tensors(path, tensors)
        except (SafetensorError, OSError) as error:
            raise GradcastError(
                f"{path} cannot be written ({error}); free some space or choose another --out"
            ) from None

    def stream(self, row: str, facts: Mapping[str, object]) -> None:
        """What was drawn to make the stream (angles, permutations, class order) and which data it was made of."""
        listed = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in facts.items()}
        write_text(self.path / row / "stream.json", json.dumps(listed) + "\n")

    def head_start(self, row: str, seed: int, told: Mapping[str, object]) -> None:
        """How a seed's head start went."""
        write_text(self.seed(row, seed) / HEAD_START, to_json(dict(told)))

    def drawn(self, row: str) -> dict[str, Any]:
        """What ``stream`` said."""
        file = self.path / row / "stream.json"
        try:
            facts = parse_json(file.read_text(encoding="utf-8"))
            if not isinstance(facts, dict) or "source" not in facts:
                raise ValueError("it does not say which data")
        except (OSError, ValueError) as error:
            raise damaged(file, error, file.parent) from None
        return facts

    def known_draws(self, row: str) -> dict[str, Any]:
        """The same, or nothing where it cannot be read."""
        try:
            return self.drawn(row)
        except GradcastError:
            return {}

    def diverged(self, row: str) -> dict[int, str]:
        """Seeds that have no result since their training diverged, with the reason."""
        file = self.path / row / DIVERGED
        if not file.is_file():
            return {}
        try:
            return {int(seed): str(reason) for seed, reason in parse_json(file.read_text(encoding="utf-8")).items()}
        except (OSError, ValueError, AttributeError) as error:
            raise damaged(file, error, file.parent) from None

    def elsewhere(self) -> list[float] | None:
        """p-values of the other claims of the table that this run is part of; None for a run of its own."""
        file = self.path / FAMILY
        if not file.is_file():
            return None
        try:
            values = [float(value) for value in parse_json(file.read_text(encoding="utf-8"))["elsewhere"]]
            if not all(0 <= value <= 1 for value in values):
                raise ValueError("a p-value is not between 0 and 1")
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise GradcastError(f"{file} cannot be read ({message_of(error)}); delete it and run again") from None
        return values

    def accuracy(self, row: str, seed: int, tasks: int | None = None) -> Float[np.ndarray, "rows tasks"]:
        """The accuracy matrix of one replica, row 0 before training; of so many tasks, where that is known."""
        file = self.seed(row, seed) / "accuracy.csv"
        try:
            heading, *lines = file.read_text(encoding="utf-8").splitlines() or [""]
            found = heading.count(",")
            if found == 0 or tasks not in (None, found):
                raise ValueError(f"{found} tasks" + ("" if tasks is None else f" where the specification says {tasks}"))
            if len(lines) != found + 1:
                raise ValueError(f"{len(lines)} rows for {found} tasks")
            return np.array(shares(lines, found))
        except (OSError, ValueError) as error:
            raise damaged(file, error) from None

    def metrics(self, row: str, seed: int, tasks: int | None = None) -> list[Line]:
        """The logged steps of one replica; of so many tasks, where that is known."""
        file = self.seed(row, seed) / "metrics.jsonl"
        try:
            lines = logged(file.read_text(encoding="utf-8").splitlines(), tasks)
            if not lines:
                raise ValueError("no step")
            complete = self._steps_logged(row).get(f"seed-{seed}", len(lines))
            if complete != len(lines):
                raise ValueError(f"{len(lines)} steps, where {complete} were logged")
        except (OSError, ValueError) as error:
            raise damaged(file, error) from None
        return lines

    def _steps_logged(self, row: str) -> dict[str, object]:
        """What ``finish`` said; nothing of a row that is not finished or was before it said so."""
        try:
            found = parse_json((self.path / row / "env.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):  # whoever reads the rest of it complains
            return {}
        own = found.get("steps_logged") if isinstance(found, dict) else None
        return own if isinstance(own, dict) else {}


def damaged(file: Path, error: Exception, row: Path | None = None) -> GradcastError:
    """A file of a seed, or of the ``row`` itself, that is not as it was written."""
    fault = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read ({message_of(error)})"
    return GradcastError(f"{file} {fault}; delete {row or file.parent.parent} and run again")


def to_json(value: object) -> str:
    """Readable JSON with a fixed order of keys; infinities become null."""
    return json.dumps(_finite(value), indent=2, ensure_ascii=False) + "\n"


def _finite(value: object) -> object:
    match value:
        case dict():
            return {key: _finite(entry) for key, entry in value.items()}
        case list() | tuple():
            return [_finite(entry) for entry in value]
        case float() if not math.isfinite(value):
            return None
        case _:
            return value


def write_text(path: Path, text: str) -> None:
    """Replace a file as a whole: nobody ever sees half of it."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")  # two processes may start one run at once
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from None  # a full disk does not say which file it was


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """The same for tensors, as safetensors; whoever may read our other files may read this one.

    The library writes to hidden files of its own, for their owner alone, and a killed process leaves them behind: in a
    folder that the next write, or ``abandon``, empties.
    """
    abandon(path.parent)
    beside = path.parent / WRITING
    beside.mkdir()
    temporary = beside / path.name
    temporary.touch()
    mode = temporary.stat().st_mode
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, temporary, metadata)
    temporary.chmod(mode)
    with open(temporary, "rb") as file:
        os.fsync(file.fileno())
    temporary.replace(path)
    beside.rmdir()


def abandon(folder: Path) -> None:
    """Throw away what a write of tensors that was cut off left in a folder."""
    shutil.rmtree(folder / WRITING, ignore_errors=True)
