"""Image files of a folder or an archive: opened safely, brought to one shape, decoded with all cores."""

import io
import os
import threading
import zipfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import UInt8
from PIL import ExifTags, Image, ImageOps
from PIL.TiffImagePlugin import BITSPERSAMPLE, TiffImageFile

from gradcast.data.images import Shape
from gradcast.data.limits import LARGEST_IMAGE, size_in_words
from gradcast.data.scan import FORMATS, UNREADABLE, ImageFiles
from gradcast.errors import GradcastError, message_of

Track = Callable[[Iterable[Any], str, int], Iterable[Any]]  # wraps a long loop of so many rounds in a progress bar
# fit: cut to the middle, then scale. squash: scale both sides whatever the proportions.
Fit = Literal["fit", "squash"]
BLOCK = 64  # images a thread takes at a time: handing over single small ones costs more than decoding them
SIDEWAYS = (5, 6, 7, 8)  # orientations of a camera that swap width and height


class Reader:
    """Reads files of one collection from several threads; an archive is opened once a thread."""

    def __init__(self, files: ImageFiles) -> None:
        self.files = files
        self.local = threading.local()
        self.opened: list[zipfile.ZipFile] = []

    def image(self, name: str) -> Image.Image:
        """One decoded image; raises one of UNREADABLE."""
        with self._open(name) as image:
            image.load()
            return image

    def shape(self, name: str) -> Shape:
        """Channels, height and width by the file's header alone; raises one of UNREADABLE."""
        with self._open(name) as image:
            channels = 1 if image.mode in ("1", "L", "F") or image.mode.startswith("I") else 3
            turned = image.format != "TIFF" and _orientation(image) in SIDEWAYS  # Pillow turns TIFFs by itself
            return (channels, image.width, image.height) if turned else (channels, image.height, image.width)

    def _open(self, name: str) -> Image.Image:
        image = Image.open(self._raw(name), formats=FORMATS)
        if image.width * image.height > (Image.MAX_IMAGE_PIXELS or image.width * image.height):
            image.close()
            raise ValueError(f"{image.width} x {image.height} pixels are more than Pillow's limit")
        return image

    def _raw(self, name: str) -> Path | io.BytesIO:
        if not self.files.root.is_file():
            path = self.files.root / name
            _check_image(path.stat().st_size)
            return path
        archive = getattr(self.local, "archive", None)
        if archive is None:
            archive = self.local.archive = zipfile.ZipFile(self.files.root)
            self.opened.append(archive)
        _check_image(archive.getinfo(name).file_size)
        with archive.open(name) as entry:
            content: bytes = entry.read(LARGEST_IMAGE + 1)
        _check_image(len(content))  # whatever was promised
        return io.BytesIO(content)

    def close(self) -> None:
        """Close the archive, where there is one."""
        for archive in self.opened:
            archive.close()


def open_image(path: Path) -> Image.Image:
    """The decoded image in one file; an error names a file that is none."""
    try:
        return Reader(ImageFiles(path.parent, (path.name,), "")).image(path.name)
    except UNREADABLE as error:
        raise GradcastError(f"{path} cannot be read as an image ({why_unreadable(error)}); name another file") from None


def _check_image(size: int) -> None:
    if size > LARGEST_IMAGE:
        raise ValueError(f"{size_in_words(size)} are more than an image file may have, {size_in_words(LARGEST_IMAGE)}")


def _upright(image: Image.Image) -> Image.Image:
    """An image as its camera was held, where the file says so."""
    if _orientation(image) in (None, 1):
        return image
    return ImageOps.exif_transpose(image)


def _orientation(image: Image.Image) -> object:
    """The number of a camera's orientation; None where the file has none that can be read."""
    try:
        return Image.Image.getexif(image).get(ExifTags.Base.Orientation)  # a PNG's own would decode it
    except UNREADABLE:
        return None


def why_unreadable(error: Exception) -> str:
    """What Pillow said of a file, without the object that it was read from."""
    reason = message_of(error)
    return "no image of a known format" if reason.startswith("cannot identify image file") else reason


def shapes_in(files: ImageFiles, *, track: Track) -> set[Shape]:
    """All shapes that occur in a collection, by the headers of its readable files."""
    reader, seen = Reader(files), set()
    try:
        for name in track(files.names, f"looking at {files.root.name}", len(files)):
            with suppress(*UNREADABLE):
                seen.add(reader.shape(name))
    finally:
        reader.close()
    return seen


def common_shape(seen: set[Shape], root: Path, *, colour: str, size: int | None) -> Shape:
    """One shape for a collection: its own where all images agree, else what is asked for."""
    if not seen:
        raise GradcastError(f"none of the images in {root} can be read; set the path to another folder")
    sizes = {(height, width) for _, height, width in seen}
    grey = colour == "grey" or (colour == "own" and all(channels == 1 for channels, _, _ in seen))
    if size is None and len(sizes) > 1:
        raise GradcastError(f"the images in {root} differ in size; set one for all, as in --set stream.size=32")
    height, width = (size, size) if size is not None else sizes.pop()
    return 1 if grey else 3, height, width


def fit(image: Image.Image, shape: Shape, how: Fit = "fit") -> UInt8[np.ndarray, "c h w"]:
    """An image upright and scaled (bilinear) to a shape, grey where that has one channel."""
    channels, height, width = shape
    image.load()  # Pillow turns a TIFF when it is decoded, and must not do so twice
    image = _upright(_eight_bit(image)).convert("L" if channels == 1 else "RGB")
    if image.size != (width, height):
        bilinear = Image.Resampling.BILINEAR
        image = (
            ImageOps.fit(image, (width, height), bilinear) if how == "fit" else image.resize((width, height), bilinear)
        )
    pixels = np.asarray(image)
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)


def _eight_bit(image: Image.Image) -> Image.Image:
    """Images of 16 bits, and of numbers from 0 to 1, in the range that Pillow's conversion would cut off."""
    if image.mode != "F" and not image.mode.startswith("I"):
        return image
    bits = image.tag_v2.get(BITSPERSAMPLE, ()) if isinstance(image, TiffImageFile) else ()
    if image.mode == "I" and 32 in bits:
        raise ValueError("whole numbers of 32 bits, of which white is not known; save it with 8 or 16 bits")
    values = np.nan_to_num(np.asarray(image, dtype=np.float64))
    top = 1.0 if image.mode == "F" else 65535.0  # by the kind of image, never by what this one happens to hold
    return Image.fromarray(np.clip(values * (255 / top), 0, 255).round().astype(np.uint8))


Decoded = UInt8[np.ndarray, "_c _h _w"] | str  # an image, or why there is none


def decode(files: ImageFiles, shape: Shape, *, how: Fit, track: Track, what: str) -> Iterator[Decoded]:
    """Every file in turn, decoded with all cores a little ahead of whoever asks."""
    reader = Reader(files)

    def one(name: str) -> Decoded:
        try:
            return fit(reader.image(name), shape, how)
        except UNREADABLE as error:
            return why_unreadable(error)

    def block(start: int) -> list[Decoded]:
        return [one(name) for name in files.names[start : start + BLOCK]]

    starts, ahead = iter(range(0, len(files), BLOCK)), 2 * (os.cpu_count() or 1)
    try:
        with ThreadPoolExecutor(os.cpu_count()) as threads:  # Pillow lets go of the interpreter while it decodes
            running = deque(threads.submit(block, start) for start in islice(starts, ahead))

            def in_order() -> Iterator[Decoded]:
                while running:
                    yield from running.popleft().result()
                    running.extend(threads.submit(block, start) for start in islice(starts, 1))

            yield from track(in_order(), what, len(files))
    finally:
        reader.close()
