"""Pools through the cache: decoded or converted once, then mapped; never larger than they have to be."""

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from gradcast.data.array_file import map_array
from gradcast.data.cache import Cache
from gradcast.data.decoded import decoded_size, warn_of_left_out, warn_of_unreadable, write_decoded
from gradcast.data.files import Fit, Track, fit, shapes_in
from gradcast.data.images import Pixels, Shape, Source, convert, fingerprint_of_parts
from gradcast.data.scan import ImageFiles
from gradcast.data.stored_images import RESIDENT, StoredImages

SAMPLE = 50  # images whose headers are looked at before all are


def cached_pool(
    name: str, files: ImageFiles, shape: Shape, cache: Cache, *, squash: bool, track: Track
) -> StoredImages:
    """Decoded unlabelled images; what could not be read and what was left out is named at every start.

    Many images that have one size, smaller than the one wanted, keep it until they are drawn.
    """
    how: Fit = "squash" if squash else "fit"
    warn_of_left_out(files.root, files.left_out)

    def build(folder: Path) -> None:
        kept = _kept_shape(files, shape, track)
        cache.reserve(decoded_size(files, kept), f"decoding {files.root} to {kept[1]} x {kept[2]} pixels")
        write_decoded(files, kept, folder, squash=squash, track=track)
        x = map_array(folder / "x.npy")
        _write_content(folder, _stored(x, shape, how), track)

    arrays = cache.get(name, {"files": files.fingerprint, "shape": shape, "squash": squash}, build)
    warn_of_unreadable(files, arrays["bad"])
    return _stored(arrays["x"], shape, how, str(arrays["content"]))


def array_pool(source: Source, shape: Shape, cache: Cache, *, squash: bool, track: Track) -> StoredImages:
    """A labelled dataset's training images: converted once where they shrink, when they are drawn where they grow."""
    shrinks = np.prod(shape) < np.prod(source.shape)
    enlarge = None if shrinks or source.shape == shape else partial(_converted, shape, squash)

    def build(folder: Path) -> None:
        x = source.train.x
        if shrinks:
            cache.reserve(len(x) * int(np.prod(shape)), f"converting {source.name} to {shape[1]} x {shape[2]} pixels")
            np.save(folder / "x.npy", convert(x, shape, squash=squash))
            x = map_array(folder / "x.npy")
        _write_content(folder, StoredImages(x, shape, enlarge), track)

    arrays = cache.get(f"{source.name}-pool", {"of": source.content, "shape": shape, "squash": squash}, build)
    return StoredImages(arrays["x"] if shrinks else source.train.x, shape, enlarge, known=str(arrays["content"]))


def _kept_shape(files: ImageFiles, shape: Shape, track: Track) -> Shape:
    """The size of all images where that is one and smaller than they are wanted, and that saves much."""
    channels, height, width = shape
    if decoded_size(files, shape) <= RESIDENT:
        return shape
    kept = shape
    for part in (files.only(files.names[:: max(len(files) // SAMPLE, 1)]), files):  # most collections show it at once
        sizes = {(tall, wide) for _, tall, wide in shapes_in(part, track=track)}
        tall, wide = next(iter(sizes), (height, width))
        if len(sizes) != 1 or tall * wide >= height * width:
            return shape
        kept = channels, tall, wide
    return kept


def _stored(x: Pixels, shape: Shape, how: Fit, known: str | None = None) -> StoredImages:
    same = x.shape[1:] == shape
    return StoredImages(x, shape, None if same else partial(_fitted, shape, how), known=known)


def _fitted(shape: Shape, how: Fit, x: Pixels) -> Pixels:
    """Images as they would be had they been decoded to this shape."""
    planes = x[:, 0] if shape[0] == 1 else x.transpose(0, 2, 3, 1)
    with ThreadPoolExecutor(os.cpu_count()) as threads:  # Pillow lets go of the interpreter while it scales
        return np.stack(list(threads.map(lambda plane: fit(Image.fromarray(plane), shape, how), planes)))


def _converted(shape: Shape, squash: bool, x: Pixels) -> Pixels:
    return convert(x, shape, squash=squash)


def _write_content(folder: Path, stored: StoredImages, track: Track) -> None:
    """Keep beside the images a digest of them as they are drawn."""
    parts: Iterable[Pixels] = stored.parts()
    if stored.size > RESIDENT:
        parts = track(parts, "a digest of the pool", stored.part_count)
    np.save(folder / "content.npy", np.array(fingerprint_of_parts((len(stored), *stored.shape), parts)))
