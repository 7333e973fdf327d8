"""Labelled image files: which file belongs to which class and split, decoded once into the cache."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool

from gradcast.data.cache import Cache
from gradcast.data.files import ImageFiles, Track, common_shape, decode, shapes_in
from gradcast.data.images import Images, Shape, Source
from gradcast.errors import GradcastError

NAMED = 5  # unreadable files named in a warning; `gradcast data check` names all


@dataclass(frozen=True)
class LabelledFiles:
    """Files to train and to test on with their labels."""

    name: str
    train: ImageFiles
    train_y: list[int]
    test: ImageFiles
    test_y: list[int]
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        for part, labels in (("training", self.train_y), ("test", self.test_y)):
            if labels:
                _no_empty_class(labels, self.classes, self.name, part)


def _no_empty_class(labels: Sequence[int], classes: tuple[str, ...], name: str, part: str) -> None:
    empty = sorted(set(range(len(classes))) - set(labels))
    if empty:
        raise GradcastError(
            f"class {classes[empty[0]]!r} of {name} has no readable {part} image; add one or remove the class"
        )


def own_shape(files: LabelledFiles, cache: Cache, *, colour: str, size: int | None, track: Track) -> Shape:
    """The shape to decode to; headers are looked at only where the specification leaves something open, and once."""
    if size is not None and colour != "own":
        return 1 if colour == "grey" else 3, size, size

    def build(folder: Path) -> None:
        seen = shapes_in(files.train, track=track) | shapes_in(files.test, track=track)
        np.save(folder / "shapes.npy", np.array(sorted(seen), dtype=np.int64).reshape(-1, 3))

    key = {"shapes of": [files.train.fingerprint, files.test.fingerprint]}
    seen = {(int(c), int(h), int(w)) for c, h, w in cache.get(f"{files.name}-shapes", key, build)["shapes"]}
    return common_shape(seen, files.train.root, colour=colour, size=size)


def cached_source(files: LabelledFiles, shape: Shape, cache: Cache, *, track: Track) -> Source:
    """The decoded dataset, from the cache where it is there; unreadable files are named at every start."""

    def build(folder: Path) -> None:
        for part, some, labels in (("train", files.train, files.train_y), ("test", files.test, files.test_y)):
            good = decoded(some, shape, folder, f"{part}_", track=track)
            np.save(folder / f"{part}_y.npy", np.array(labels, dtype=np.int64)[good])

    key = {"train": files.train.fingerprint, "test": files.test.fingerprint, "labels": [files.train_y, files.test_y]}
    arrays = cache.get(files.name, {"shape": shape, **key}, build)
    parts = []
    for part, word, some in (("train", "training", files.train), ("test", "test", files.test)):
        _warn(some, arrays[f"{part}_bad"])
        labels = np.array(arrays[f"{part}_y"])
        _no_empty_class(labels.tolist(), files.classes, files.name, word)
        parts.append(Images(arrays[f"{part}_x"], labels))
    train, test = parts
    return Source(files.name, train, test, files.classes)


def cached_pool(name: str, files: ImageFiles, shape: Shape, cache: Cache, *, squash: bool, track: Track) -> np.ndarray:
    """Decoded unlabelled images, from the cache where they are there; unreadable files are named at every start."""

    def build(folder: Path) -> None:
        decoded(files, shape, folder, "", squash=squash, track=track)

    arrays = cache.get(name, {"files": files.fingerprint, "shape": shape, "squash": squash}, build)
    _warn(files, arrays["bad"])
    return arrays["x"]


def decoded(
    files: ImageFiles, shape: Shape, folder: Path, prefix: str, *, squash: bool = False, track: Track
) -> Bool[np.ndarray, " n"]:
    """Decode a collection into PREFIXx.npy without its unreadable images, whose names and reasons go to PREFIXbad.npy.

    Returns which ones were good.
    """
    path = folder / f"{prefix}x.npy"
    x = np.lib.format.open_memmap(path, "w+", np.uint8, (len(files), *shape))
    bad = decode(files, x, how="squash" if squash else "fit", track=track, what=f"decoding {files.root.name}")
    good = np.array([name not in bad for name in files.names], dtype=bool)
    np.save(folder / f"{prefix}bad.npy", np.array(sorted(bad.items()), dtype=np.str_).reshape(-1, 2))
    if bad:
        if not good.any():
            raise GradcastError(
                f"none of the {len(files)} image files in {files.root} can be read; choose another folder"
            )
        packed = path.with_suffix(".packed")
        with open(packed, "wb") as file:
            np.lib.format.write_array(file, x[good], allow_pickle=False)
        packed.replace(path)
    return good


def _warn(files: ImageFiles, bad: np.ndarray) -> None:
    for name, reason in bad[:NAMED].tolist():
        warnings.warn(f"skipped {files.root / name}: {reason}", stacklevel=3)
    if len(bad) > NAMED:
        warnings.warn(f"skipped {len(bad) - NAMED} more unreadable images in {files.root}", stacklevel=3)
