"""Is a dataset complete and readable? Counts, checksums where published, every bad file by name."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gradcast.data.catalogue import Dataset
from gradcast.data.files import Reader, Track, why_unreadable
from gradcast.data.images import Source
from gradcast.data.labelled import LabelledFiles
from gradcast.data.load import Shelf
from gradcast.data.scan import UNREADABLE, ImageFiles
from gradcast.errors import GradcastError


@dataclass
class Findings:
    """What a check found: facts, deviations one can live with, and problems."""

    facts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def check(dataset: Dataset, shelf: Shelf) -> Findings:
    """Read everything and compare it with what the publisher promises."""
    paths = shelf.paths(dataset)
    found = Findings(facts=[f"found at {_common(paths)}"])
    _checksums(dataset, paths, found)
    try:
        if dataset.read is not None and not paths[0].is_dir():
            _arrays(dataset, dataset.read(paths), found)
        else:
            _images(dataset, paths[0], found, shelf.track)
    except GradcastError as error:
        found.problems.append(str(error))
    return found


def _arrays(dataset: Dataset, source: Source, found: Findings) -> None:
    channels, height, width = source.shape
    found.facts.append(f"{len(source.classes)} classes, {channels} x {height} x {width} pixels")
    _counts(dataset, source.train.y, source.test.y, source.classes, found)


def _images(dataset: Dataset, root: Path, found: Findings, track: Track) -> None:
    labelled: LabelledFiles | None = None
    if dataset.files is not None:
        try:
            labelled = dataset.files(root)
        except GradcastError as error:
            if dataset.pool is None:
                raise
            found.notes.append(f"usable as a pool only: {error}")
    if labelled is not None:
        _counts(dataset, np.array(labelled.train_y), np.array(labelled.test_y), labelled.classes, found)
        collections = [labelled.train, labelled.test]
    else:
        assert dataset.pool is not None
        collections = [dataset.pool(root)]
        expected = dataset.expected[0] if dataset.expected else None
        incomplete = f" of {expected:,}" if expected and expected != len(collections[0]) else ""
        found.facts.append(f"{len(collections[0]):,}{incomplete} training images")
    for files in collections:
        for name, reason in _unreadable(files, track).items():
            found.problems.append(f"{files.root / name} cannot be read: {reason}")


def _unreadable(files: ImageFiles, track: Track) -> dict[str, str]:
    reader, bad = Reader(files), {}
    try:
        for name in track(files.names, f"reading {files.root.name}", len(files)):
            try:
                reader.image(name)
            except UNREADABLE as error:
                bad[name] = why_unreadable(error)
    finally:
        reader.close()
    return bad


def _counts(dataset: Dataset, train: np.ndarray, test: np.ndarray, classes: tuple[str, ...], found: Findings) -> None:
    for part, labels, place in (("training", train, 0), ("test", test, 1)):
        each = np.bincount(labels, minlength=len(classes))
        spread = f"{each.min():,}" if each.min() == each.max() else f"{each.min():,} to {each.max():,}"
        found.facts.append(f"{len(labels):,} {part} images, {spread} a class")
        if each.min() == 0:
            found.problems.append(f"class {classes[int(each.argmin())]!r} has no {part} image")
        if dataset.expected and len(labels) != dataset.expected[place]:
            found.notes.append(f"incomplete: {len(labels):,} of {dataset.expected[place]:,} {part} images")


def _checksums(dataset: Dataset, paths: list[Path], found: Findings) -> None:
    """Published checksums are of the files as offered; unpacked or repacked ones are judged by their content."""
    published = {item.file: item.checksum for item in dataset.downloads}
    matching = 0
    for path in paths:
        if path.name in published and path.is_file():
            algorithm, _, expected = published[path.name].partition(":")
            if file_digest(path, algorithm) == expected:
                matching += 1
            else:
                found.notes.append(
                    f"{path.name} is not the publisher's file byte for byte; its content is checked below"
                )
    if matching:
        found.facts.append(f"{matching} of {len(paths)} files match the publisher's checksums")


def file_digest(path: Path, algorithm: str) -> str:
    """A checksum, computed piece by piece."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def _common(paths: list[Path]) -> Path:
    return paths[0] if len(paths) == 1 else paths[0].parent
