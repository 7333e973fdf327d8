"""Labelled image files: which file belongs to which class and split, decoded once into the cache."""

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradcast.data.cache import Cache
from gradcast.data.files import ImageFiles, Track, decode
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
            empty = sorted(set(range(len(self.classes))) - set(labels))
            if labels and empty:
                raise GradcastError(
                    f"class {self.classes[empty[0]]!r} of {self.name} has no {part} image; add one or remove the class"
                )


def cached_source(files: LabelledFiles, shape: Shape, cache: Cache, *, track: Track) -> Source:
    """The decoded dataset, from the cache where it is there."""

    def build(folder: Path) -> None:
        for part, some, labels in (("train", files.train, files.train_y), ("test", files.test, files.test_y)):
            x, good = decoded(some, shape, folder / f"{part}_x.npy", track=track)
            np.save(folder / f"{part}_y.npy", np.array(labels, dtype=np.int64)[good])
            del x

    key = {"train": files.train.fingerprint, "test": files.test.fingerprint, "labels": [files.train_y, files.test_y]}
    arrays = cache.get(files.name, {"shape": shape, **key}, build)
    train, test = (Images(arrays[f"{part}_x"], np.array(arrays[f"{part}_y"])) for part in ("train", "test"))
    return Source(files.name, train, test, files.classes)


def cached_pool(name: str, files: ImageFiles, shape: Shape, cache: Cache, *, squash: bool, track: Track) -> np.ndarray:
    """Decoded unlabelled images, from the cache where they are there."""

    def build(folder: Path) -> None:
        decoded(files, shape, folder / "x.npy", squash=squash, track=track)

    return cache.get(name, {"files": files.fingerprint, "shape": shape, "squash": squash}, build)["x"]


def decoded(
    files: ImageFiles, shape: Shape, path: Path, *, squash: bool = False, track: Track
) -> tuple[np.ndarray, np.ndarray]:
    """Decode a collection into an .npy file without its unreadable images; also which ones were good."""
    x = np.lib.format.open_memmap(path, "w+", np.uint8, (len(files), *shape))
    bad = decode(files, x, how="squash" if squash else "fit", track=track, what=f"decoding {files.root.name}")
    good = np.array([name not in bad for name in files.names], dtype=bool)
    if bad:
        _warn(files, bad)
        if not good.any():
            raise GradcastError(
                f"none of the {len(files)} image files in {files.root} can be read; choose another folder"
            )
        packed = path.with_suffix(".packed")
        with open(packed, "wb") as file:
            np.lib.format.write_array(file, x[good], allow_pickle=False)
        packed.replace(path)
        x = np.lib.format.open_memmap(path, "r+")
    return x, good


def _warn(files: ImageFiles, bad: dict[str, str]) -> None:
    for name, reason in sorted(bad.items())[:NAMED]:
        warnings.warn(f"skipped {files.root / name}: {reason}", stacklevel=3)
    if len(bad) > NAMED:
        warnings.warn(f"skipped {len(bad) - NAMED} more unreadable images in {files.root}", stacklevel=3)
