"""A run's directory: text and safetensors only.

spec.toml                                                     what was asked for, all defaults spelled out
ROW/stream.json                                               what was drawn to make the tasks
ROW/groups.json  checkpoint-N.safetensors                     while the row trains: seeds at once, state after N steps
ROW/seed-N/metrics.jsonl  accuracy.csv  weights.safetensors   one replica
ROW/seed-N/accuracy-unknown-task.csv                          where tasks have different classes: without the task
ROW/seed-N/head_start.json                                    where the row has a head start: its losses
ROW/seed-N/features.json                                      of the first seed, for learners with two kinds of features
ROW/diverged.json                                             seeds that diverged, with the reason, where there are any
ROW/env.json                                                  versions, device, code, times
ROW/manifest.json                                             digests of all these files; marks the row as finished
family.json                                                   of a part of a table: p-values of its other claims
result.json  report.md  accuracy-matrix.png  signal.png       made from the above, as are features.png, report.html and
                                                              report-files
"""

import hashlib
import json
import re
import shutil
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from gradcast.errors import GradcastError, message_of, warn
from gradcast.runs import manifest
from gradcast.runs.jsontext import parse_json, to_json
from gradcast.runs.safe_files import locked, make_folder, refuse_links, sweep, write_tensors, write_text
from gradcast.runs.sealed import Schema, read_sealed, unsealed, write_sealed
from gradcast.runs.step_log import Line, logged, shares
from gradcast.specs.spec import Spec
from gradcast.specs.text import dump, parse

HEAD_START = "head_start.json"
DIVERGED = "diverged.json"
GROUPS = "groups.json"  # of a row that is not finished
UNDONE = "undone"  # key of env.json
FAMILY = "family.json"
PAGE = "report.html"  # of gradcast report, which may be writing it while the run trains


class DivergedSeeds(Schema):
    """Seeds that have no result, and why."""

    seeds: dict[Annotated[str, Field(pattern="^[0-9]+$")], str]


class TableFamily(Schema):
    """Of a part of a table: p-values of its other claims, and lengths of what signals add, by row."""

    elsewhere: list[Annotated[float, Field(ge=0, le=1)]]
    ratios: dict[str, float]


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

    def begin(self, spec: Spec) -> "RunDirectory":
        """Make the directory and write down what was asked for; a specification that somebody edited is put back."""
        make_folder(self.path)
        text, file = dump(spec), self.path / "spec.toml"
        if file.is_file() and not _says_the_same(file, text):
            warn(f"{file} was changed after it was written; it is put back")
        write_text(file, text)
        return self

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else may write here meanwhile; there are no links here, and nothing that a killed process left."""
        taken = f"another process is writing {self.path}; wait for it or choose another --out"
        with locked(self.path.parent / f".{self.path.name}.lock", taken):
            refuse_links(self.path)
            sweep(self.path, kept=(PAGE,))
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
        folder = self.path / row
        if (folder / manifest.NAME).is_file():
            return True
        return (folder / "env.json").is_file() and not (folder / GROUPS).is_file()  # before there were manifests

    def check(self, row: str) -> None:
        """A sentence where a finished row was trained by another specification than lies here, or lacks a file."""
        manifest.check_spec(self.path / row, (self.path / "spec.toml").read_text(encoding="utf-8"))
        manifest.check_present(self.path / row)

    def read(self, row: str, name: str) -> str:
        """The text of a row's file; of a finished row, only if it is what it was then."""
        file = self.path / row / name
        content = manifest.checked_bytes(file) if self.finished(row) else file.read_bytes()
        return content.decode("utf-8")

    def start(self, row: str, seeds: Sequence[int]) -> None:
        """Empty directories for a row; of what an interrupted attempt left, only the seeds that diverged are kept."""
        lost = self.diverged(row)
        shutil.rmtree(self.path / row, ignore_errors=True)
        self.clear(row, seeds)
        self.lose(row, lost)

    def lose(self, row: str, lost: Mapping[int, str]) -> None:
        """Write down which seeds diverged, and why."""
        file = self.path / row / DIVERGED
        if lost:
            make_folder(file.parent)
            write_sealed(file, DivergedSeeds(seeds={str(seed): reason for seed, reason in lost.items()}))
        else:
            file.unlink(missing_ok=True)

    def clear(self, row: str, seeds: Sequence[int]) -> None:
        """Empty directories for some seeds of it."""
        for seed in seeds:
            shutil.rmtree(self.seed(row, seed), ignore_errors=True)
            self.seed(row, seed).mkdir(parents=True)

    def finish(self, row: str, facts: Mapping[str, object], files: manifest.Entries) -> None:
        """Say where the row was trained, and mark it as complete; ``files`` are those of its seeds."""
        write_text(self.path / row / "env.json", to_json(dict(facts)))
        manifest.write_manifest(self.path / row, (self.path / "spec.toml").read_text(encoding="utf-8"), files)

    def weights(self, row: str, seed: int, tensors: Mapping[str, Tensor]) -> None:
        """Final weights of one replica under the network's own names."""
        write_tensors(self.seed(row, seed) / "weights.safetensors", tensors)

    def stream(self, row: str, facts: Mapping[str, object]) -> None:
        """What was drawn to make the stream (angles, permutations, class order) and which data it was made of."""
        listed = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in facts.items()}
        write_text(self.path / row / "stream.json", json.dumps(listed) + "\n")

    def head_start(self, row: str, seed: int, told: Mapping[str, object]) -> None:
        """How a seed's head start went."""
        write_text(self.seed(row, seed) / HEAD_START, to_json(dict(told)))

    def drawn(self, row: str) -> dict[str, Any]:
        """What ``stream`` wrote: which data the row saw."""
        file = self.path / row / "stream.json"
        try:
            facts = parse_json(self.read(row, "stream.json"))
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
            return diverged_seeds(self.read(row, DIVERGED))
        except (OSError, ValueError) as error:
            raise damaged(file, error, file.parent) from None

    def undone(self, row: str) -> dict[int, float]:
        """The share of its steps that each seed of a finished row undid; earlier runs do not say."""
        file = self.path / row / "env.json"
        try:
            facts = parse_json(self.read(row, "env.json"))
            told = facts.get(UNDONE, {}) if isinstance(facts, dict) else {}
            found = {int(seed): float(share) for seed, share in told.items()}
            if not all(0 <= share <= 1 for share in found.values()):
                raise ValueError("a share is not between 0 and 1")
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise damaged(file, error, file.parent) from None
        return found

    def family(self) -> TableFamily | None:
        """What this run must know of the table that it is part of; None for a run of its own."""
        file = self.path / FAMILY
        if not file.is_file():
            return None
        try:
            return read_sealed(file, TableFamily)
        except (OSError, ValueError) as error:
            raise GradcastError(
                f"{file} cannot be read ({message_of(error)}); make it anew with gradcast reproduce"
            ) from None

    def elsewhere(self) -> list[float] | None:
        """p-values of the other claims of the table that this run is part of; None for a run of its own."""
        found = self.family()
        return None if found is None else found.elsewhere

    def accuracy(
        self, row: str, seed: int, tasks: int | None = None, name: str = manifest.ACCURACY
    ) -> Float[np.ndarray, "rows tasks"]:
        """The accuracy matrix of one replica, row 0 before training; of so many tasks, where that is known."""
        file = self.seed(row, seed) / name
        try:
            heading, *lines = self.read(row, f"seed-{seed}/{name}").splitlines() or [""]
            found = heading.count(",")
            if found == 0 or tasks not in (None, found):
                raise ValueError(f"{found} tasks" + ("" if tasks is None else f" where the specification says {tasks}"))
            if len(lines) != found + 1:
                raise ValueError(f"{len(lines)} rows for {found} tasks")
            return np.array(shares(lines, found))
        except (OSError, ValueError) as error:
            raise damaged(file, error) from None

    def accuracies(
        self, row: str, seeds: Sequence[int], tasks: int, *, unknown: bool = False
    ) -> Float[np.ndarray, "seeds rows tasks"] | None:
        """The matrices of all replicas; those without the task are None where one of them was not measured."""
        name = manifest.UNKNOWN_TASK if unknown else manifest.ACCURACY
        if unknown and not all((self.seed(row, seed) / name).is_file() for seed in seeds):
            return None
        return np.stack([self.accuracy(row, seed, tasks, name) for seed in seeds])

    def metrics(self, row: str, seed: int, tasks: int | None = None) -> list[Line]:
        """The logged steps of one replica; of so many tasks, where that is known."""
        file = self.seed(row, seed) / "metrics.jsonl"
        try:
            lines = logged(self.read(row, f"seed-{seed}/metrics.jsonl").splitlines(), tasks)
            if not lines:
                raise ValueError("no step")
        except (OSError, ValueError) as error:
            raise damaged(file, error) from None
        return lines


def damaged(file: Path, error: Exception, row: Path | None = None) -> GradcastError:
    """A file of a seed, or of the ``row`` itself, that is not as it was written."""
    fault = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read ({message_of(error)})"
    return GradcastError(f"{file} {fault}; delete {row or file.parent.parent} and run again")


def diverged_seeds(text: str) -> dict[int, str]:
    """What such a file says; earlier runs have seeds and reasons alone, without a digest."""
    said = parse_json(text)
    if isinstance(said, dict) and said and all(re.fullmatch("[0-9]+", seed) for seed in said):
        return {int(seed): str(reason) for seed, reason in said.items()}
    return {int(seed): reason for seed, reason in unsealed(said, DivergedSeeds).seeds.items()}


def _says_the_same(file: Path, text: str) -> bool:
    try:
        return manifest.spec_digest(file.read_text(encoding="utf-8")) == manifest.spec_digest(text)
    except (OSError, ValueError, AttributeError, RecursionError):
        return False
