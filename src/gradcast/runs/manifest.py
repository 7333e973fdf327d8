"""The manifest of a finished row (ROW/manifest.json): sizes and digests of its files, and of what it was asked for.

It is written last and marks the row as finished. Whoever reads a file of a finished row has it checked here. A file
behind a link, as beside a table of ``gradcast reproduce``, is vouched for by the manifest where it truly lies. Rows
that were finished before there were manifests have none and are read as they are.
"""

import hashlib
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from pydantic import Field, NonNegativeInt

from gradcast.errors import GradcastError, message_of
from gradcast.runs.sealed import Schema, digest, read_sealed, write_sealed

NAME = "manifest.json"
ROW_FILES = ("stream.json", "env.json", "diverged.json")
ACCURACY = "accuracy.csv"
UNKNOWN_TASK = "accuracy-unknown-task.csv"  # the same without the task of test images, where it is measured
SEED_FILES = ("metrics.jsonl", ACCURACY, UNKNOWN_TASK, "weights.safetensors", "head_start.json", "features.json")
BLOCK = 2**20
FileName = Annotated[str, Field(pattern=rf"^({'|'.join(ROW_FILES)}|seed-[0-9]+/({'|'.join(SEED_FILES)}))$")]
SeedFileName = Annotated[str, Field(pattern=rf"^({'|'.join(SEED_FILES)})$")]
Share = Annotated[float, Field(ge=0, le=1)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


class Entry(Schema):
    """Size and digest of one file."""

    size: NonNegativeInt
    digest: Digest


Entries = dict[FileName, Entry]


class Manifest(Schema):
    """All files of a row, by names relative to it."""

    spec: Digest  # of what spec.toml says, but for what makes no difference to training
    files: Entries


def describe(row: Path, names: Iterable[str]) -> dict[str, Entry]:
    """Entries of those files that are there and no links."""
    files = {name: row / name for name in names}
    return {name: _entry(file) for name, file in files.items() if file.is_file() and not file.is_symlink()}


def seed_files(seeds: Iterable[int]) -> list[str]:
    """Names of all files that seeds may have."""
    return [f"seed-{seed}/{name}" for seed in seeds for name in SEED_FILES]


def write_manifest(row: Path, spec: str, files: Entries) -> None:
    """The row is finished; ``spec`` is the text of its specification, ``files`` those of its seeds."""
    own = {**files, **describe(row, ROW_FILES)}
    write_sealed(row / NAME, Manifest(spec=spec_digest(spec), files=own))


def read_manifest(row: Path) -> Manifest | None:
    """The manifest of a finished row; None where it was finished before there were any."""
    if not (row / NAME).is_file():
        return None
    try:
        return read_sealed(row / NAME, Manifest)
    except (OSError, ValueError) as error:
        raise _damaged(row / NAME, f"cannot be read ({message_of(error)})", row) from None


def checked_bytes(file: Path) -> bytes:
    """The content of a file of a finished row, if it is what it was when the row was finished."""
    found, content = _vouched(file), file.read_bytes()
    if found is not None and found != _of_bytes(content):
        raise _changed(file)
    return content


def check_present(row: Path) -> None:
    """A sentence where a file is gone or has another size: cheap, for those who do not read it."""
    manifest = read_manifest(row)
    for name, entry in () if manifest is None else manifest.files.items():
        file = row / name
        if not file.is_file():
            raise _damaged(file, "is missing", row)
        if file.stat().st_size != entry.size:
            raise _changed(file)


def check_all(row: Path) -> None:
    """A sentence where any file is another than it was."""
    manifest = read_manifest(row)
    if manifest is not None:
        check_entries(row, manifest.files)


def check_entries(row: Path, files: Entries) -> None:
    """The same for files that are described elsewhere."""
    for name, entry in files.items():
        file = row / name
        if not file.is_file():
            raise _damaged(file, "is missing", row)
        if _entry(file) != entry:
            raise _changed(file)


def check_spec(row: Path, spec: str) -> None:
    """A sentence where the specification beside a finished row is not the one that it was trained by."""
    manifest = read_manifest(row)
    if manifest is not None and manifest.spec != spec_digest(spec):
        raise _damaged(row.parent / "spec.toml", "was changed after the row was finished", row)


def spec_digest(text: str) -> str:
    """Of all that a specification says but what its rows are controls of: that may change later."""
    said = tomllib.loads(text)
    for row in said.get("row", []):
        row.pop("control", None)
    return digest(said)


def _vouched(file: Path) -> Entry | None:
    """What the manifest beside a file says of it; None where there is no manifest."""
    real = file.resolve()
    row = real.parent if real.name in ROW_FILES else real.parent.parent
    manifest = read_manifest(row)
    if manifest is None:
        return None
    name = real.relative_to(row).as_posix()
    if name not in manifest.files:
        raise _damaged(file, "was not there when the row was finished", row)
    return manifest.files[name]


def _entry(file: Path) -> Entry:
    total, size = hashlib.blake2b(digest_size=16), 0
    with open(file, "rb") as handle:
        while block := handle.read(BLOCK):
            total.update(block)
            size += len(block)
    return Entry(size=size, digest=total.hexdigest())


def _of_bytes(content: bytes) -> Entry:
    return Entry(size=len(content), digest=hashlib.blake2b(content, digest_size=16).hexdigest())


def _changed(file: Path) -> GradcastError:
    row = file.parent if file.name in ROW_FILES else file.parent.parent
    return _damaged(file, "was changed after it was written (its digest does not fit)", row)


def _damaged(file: Path, fault: str, row: Path) -> GradcastError:
    return GradcastError(f"{file} {fault}; delete {row} and run again")
