"""Is a dataset complete and readable? Counts, checksums where published, every bad file by name."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gradcast.data.catalogue import Dataset
from gradcast.data.class_counts import in_words
from gradcast.data.class_folders import class_folders
from gradcast.data.decoded import in_sentence
from gradcast.data.files import Reader, Track, why_unreadable
from gradcast.data.images import Source
from gradcast.data.labelled import LabelledFiles
from gradcast.data.load import Shelf
from gradcast.data.pool_images import any_images
from gradcast.data.scan import UNREADABLE, ImageFiles, LeftOut, maybe_pictures
from gradcast.errors import GradcastError


@dataclass
class Findings:
    """What a check found: facts, deviations one can live with, images that cannot be read, and other problems."""

    facts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """All of it in a few words."""
        if self.problems:
            return "has problems"
        return "has unreadable images, which a run leaves out" if self.unreadable else "ok"


def own_folder(path: Path) -> Dataset:
    """Anybody's folder or archive of images, to be checked like a dataset."""
    return Dataset("folder", "", "", "", "", lambda _: [path], files=class_folders, pool=any_images)


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
        if not dataset.expected:
            each = (np.bincount(y, minlength=len(labelled.classes)) for y in (labelled.train_y, labelled.test_y))
            found.facts.append(in_words(labelled.classes, *(counts.tolist() for counts in each)))
        collections = [labelled.train, labelled.test]
    else:
        assert dataset.pool is not None
        collections = [dataset.pool(root)]
        expected = dataset.expected[0] if dataset.expected else None
        incomplete = f" of {expected:,}" if expected and expected != len(collections[0]) else ""
        found.facts.append(f"{len(collections[0]):,}{incomplete} training images")
    left_out: LeftOut = {**collections[0].left_out, **(labelled.left_out if labelled else {})}
    if dataset.home:  # a publisher's other files are no news
        left_out = maybe_pictures(left_out)
    if left_out:
        found.notes.append(f"left out: {in_sentence(left_out)}")
    for files in collections:
        bad = _unreadable(files, track)
        found.unreadable += [f"{files.root / name} cannot be read: {reason}" for name, reason in bad.items()]
        if len(bad) == len(files):
            found.problems.append(f"none of the {len(files):,} images in {files.root} can be read")


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
                    f"{path.name} is not the publisher's file byte for byte; its content was checked instead"
                )
    if matching:
        found.facts.append(f"{matching} of {len(paths)} files match the publisher's checksums")


def file_digest(path: Path, algorithm: str) -> str:
    """A checksum, computed piece by piece."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def _common(paths: list[Path]) -> Path:
    return paths[0] if len(paths) == 1 else paths[0].parent
