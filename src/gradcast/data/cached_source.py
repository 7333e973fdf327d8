"""Labelled datasets through the cache: decoded or parsed once, then mapped."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from gradcast.data.array_file import map_array
from gradcast.data.cache import Arrays, Cache
from gradcast.data.decoded import decoded_size, warn_of_left_out, warn_of_unreadable, write_decoded
from gradcast.data.files import Track, common_shape, shapes_in
from gradcast.data.images import Images, Moments, Shape, Source
from gradcast.data.labelled import LabelledFiles
from gradcast.data.scan import digest

PARTS = ("train", "test")


def own_shape(files: LabelledFiles, cache: Cache, *, colour: str, size: int | None, track: Track) -> Shape:
    """The shape to decode to; headers are looked at only where the specification leaves something open, and once."""
    if size is not None and colour != "own":
        return 1 if colour == "grey" else 3, size, size

    def build(folder: Path) -> None:
        seen = shapes_in(files.train, track=track) | shapes_in(files.test, track=track)
        np.save(folder / "shapes.npy", np.array(sorted(seen), dtype=np.int64).reshape(-1, 3))

    key = {"shapes of": [files.train.fingerprint, files.test.fingerprint]}
    seen: set[Shape] = {(int(c), int(h), int(w)) for c, h, w in cache.get(f"{files.name}-shapes", key, build)["shapes"]}
    return common_shape(seen, files.train.root, colour=colour, size=size)


def cached_files(files: LabelledFiles, shape: Shape, cache: Cache, *, track: Track) -> Source:
    """The decoded dataset; what could not be read and what was left out is named at every start."""
    parts = {"train": (files.train, files.train_y), "test": (files.test, files.test_y)}
    warn_of_left_out(files.train.root, files.train.left_out, files.left_out)

    def build(folder: Path) -> None:
        size = sum(decoded_size(some, shape) for some, _ in parts.values())
        cache.reserve(size, f"decoding {files.train.root} to {shape[1]} x {shape[2]} pixels")
        for part, (some, labels) in parts.items():
            good = write_decoded(some, shape, folder, f"{part}_", track=track)
            np.save(folder / f"{part}_y.npy", np.array(labels, dtype=np.int64)[good])
        _write_known(folder, files.name, files.classes)

    prints = {part: [some.fingerprint, digest(map(str, labels))] for part, (some, labels) in parts.items()}
    arrays = cache.get(files.name, {"shape": shape, **prints}, build)
    for part, word in zip(PARTS, ("training", "test"), strict=True):
        warn_of_unreadable(parts[part][0], arrays[f"{part}_bad"])
        files.check_classes(arrays[f"{part}_y"].tolist(), word)
    return _source(files.name, arrays, files.classes)


def cached_arrays(name: str, paths: Sequence[Path], read: Callable[[], Source], cache: Cache) -> Source:
    """A dataset that its publisher offers as arrays in these files."""

    def build(folder: Path) -> None:
        source = read()
        cache.reserve(source.train.x.nbytes + source.test.x.nbytes, f"a copy of {name}")
        for part, images in zip(PARTS, (source.train, source.test), strict=True):
            np.save(folder / f"{part}_x.npy", images.x)
            np.save(folder / f"{part}_y.npy", images.y)
        np.save(folder / "classes.npy", np.array(source.classes))
        _write_known(folder, name, source.classes)

    facts = [[str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns] for path in paths]
    arrays = cache.get(name, {"files": facts}, build)
    return _source(name, arrays, tuple(arrays["classes"].tolist()))


def _write_known(folder: Path, name: str, classes: tuple[str, ...]) -> None:
    """Keep beside the arrays what it takes to go through all of them."""
    arrays = {path.stem: map_array(path) for path in folder.glob("*_[xy].npy")}
    train, test = _images(arrays)
    source = Source(name, train, test, classes)
    np.save(folder / "content.npy", np.array(source.content))
    np.save(folder / "moments.npy", np.array([source.moments.total, source.moments.squares]))


def _images(arrays: Arrays) -> list[Images]:
    return [Images(arrays[f"{part}_x"], np.array(arrays[f"{part}_y"])) for part in PARTS]


def _source(name: str, arrays: Arrays, classes: tuple[str, ...]) -> Source:
    train, test = _images(arrays)
    total, squares = (tuple(sums) for sums in arrays["moments"].tolist())
    moments = Moments(train.x.size // train.x.shape[1], total, squares)
    return Source(name, train, test, classes, (str(arrays["content"]), moments))
