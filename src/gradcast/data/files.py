"""Image files in a folder or a zip archive, and their decoding with all cores into one array."""

import hashlib
import io
import os
import struct
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps

from gradcast.data.images import Shape
from gradcast.errors import GradcastError

Track = Callable[[Iterable[Any], str, int], Iterable[Any]]  # wraps a long loop of so many rounds in a progress bar
# fit: cut to the middle, then scale. squash: scale both sides whatever the proportions.
Fit = Literal["fit", "squash"]
LARGEST_FILE = 256 * 2**20
BLOCK = 64  # images a thread takes at a time: handing over single small ones costs more than decoding them
# Pillow goes by content, not by name, and some of its formats (EPS) start other programs: only these are opened.
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "PPM", "TIFF", "WEBP")
# What Pillow raises on files that are not what they claim to be.
UNREADABLE = (
    OSError, ValueError, SyntaxError, EOFError, ArithmeticError, LookupError, TypeError, AttributeError, AssertionError,
    RuntimeError, MemoryError, struct.error, zlib.error, zipfile.BadZipFile, Image.DecompressionBombError, Warning,
)  # fmt: skip


@dataclass(frozen=True)
class ImageFiles:
    """Names of image files below a folder or in an archive; ``fingerprint`` changes when one of them does."""

    root: Path
    names: tuple[str, ...]
    fingerprint: str

    def __len__(self) -> int:
        return len(self.names)

    def only(self, names: Sequence[str]) -> "ImageFiles":
        """Some of them, in this order."""
        return ImageFiles(self.root, tuple(names), _digest([self.fingerprint, *names]))


def image_files(root: Path) -> ImageFiles:
    """All image files below a folder, or in a zip archive, however deep, in the order of their names."""
    if root.is_dir():
        known = extensions()
        found = sorted(path for path in root.rglob("*") if path.suffix.lower() in known and path.is_file())
        facts = {str(path.relative_to(root)): path.stat() for path in found}
        lines = [f"{name} {fact.st_size} {fact.st_mtime_ns}" for name, fact in facts.items()]
        return ImageFiles(root, tuple(facts), _digest([str(root.resolve()), *lines]))
    if root.is_file() and zipfile.is_zipfile(root):
        return _zipped(root)
    raise GradcastError(f"{root} is neither a folder nor a zip archive; set the path to a folder of images")


def extensions() -> set[str]:
    """Names of files that may be images."""
    return {suffix for suffix, form in Image.registered_extensions().items() if form in FORMATS}


def _zipped(root: Path) -> ImageFiles:
    known = extensions()
    try:
        with zipfile.ZipFile(root) as archive:
            entries = sorted(archive.infolist(), key=lambda entry: entry.filename)
    except UNREADABLE as error:
        raise GradcastError(f"{root} is not a readable zip archive ({error}); fetch it again") from None
    for entry in entries:
        if PurePosixPath(entry.filename).is_absolute() or ".." in PurePosixPath(entry.filename).parts:
            raise GradcastError(
                f"{root} holds the name {entry.filename!r}, which leaves its folder; the archive is not used"
            )
    images = [e for e in entries if PurePosixPath(e.filename).suffix.lower() in known and "__MACOSX" not in e.filename]
    facts = [f"{entry.filename} {entry.file_size} {entry.CRC}" for entry in images]
    return ImageFiles(root, tuple(entry.filename for entry in images), _digest(facts))


def _digest(lines: Iterable[str]) -> str:
    return hashlib.blake2b("\n".join(lines).encode(errors="surrogateescape"), digest_size=16).hexdigest()


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
            return 1 if image.mode in ("1", "L", "F") or image.mode.startswith("I") else 3, image.height, image.width

    def _open(self, name: str) -> Image.Image:
        raw: Path | io.BytesIO = self.files.root / name
        if self.files.root.is_file():
            raw = io.BytesIO(self._unzip(name))
        image = Image.open(raw, formats=FORMATS)
        if image.width * image.height > (Image.MAX_IMAGE_PIXELS or image.width * image.height):
            image.close()
            raise ValueError(f"{image.width} x {image.height} pixels are more than Pillow's limit")
        return image

    def _unzip(self, name: str) -> bytes:
        archive = getattr(self.local, "archive", None)
        if archive is None:
            archive = self.local.archive = zipfile.ZipFile(self.files.root)
            self.opened.append(archive)
        with archive.open(name) as entry:
            content: bytes = entry.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise ValueError(f"larger than {LARGEST_FILE} bytes")
        return content

    def close(self) -> None:
        """Close the archive."""
        for archive in self.opened:
            archive.close()


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
    """An image scaled (bilinear) to a shape, grey where that has one channel."""
    channels, height, width = shape
    image = _eight_bit(image).convert("L" if channels == 1 else "RGB")
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
    values = np.nan_to_num(np.asarray(image, dtype=np.float64))
    top = 1.0 if image.mode == "F" else 65535.0  # by the kind of image, never by what this one happens to hold
    return Image.fromarray(np.clip(values * (255 / top), 0, 255).round().astype(np.uint8))


def decode(
    files: ImageFiles, out: UInt8[np.ndarray, "n c h w"], *, how: Fit, track: Track, what: str
) -> dict[str, str]:
    """Decode every file into its row of ``out`` with all cores; returns why each unreadable one was left as it was."""
    shape: Shape = (out.shape[1], out.shape[2], out.shape[3])
    reader = Reader(files)
    bad: dict[str, str] = {}

    def block(indices: range) -> range:
        for index in indices:
            try:
                out[index] = fit(reader.image(files.names[index]), shape, how)
            except UNREADABLE as error:
                bad[files.names[index]] = str(error) or type(error).__name__
        return indices

    blocks = [range(start, min(start + BLOCK, len(files))) for start in range(0, len(files), BLOCK)]
    try:
        with ThreadPoolExecutor(os.cpu_count()) as threads:  # Pillow lets go of the interpreter while it decodes
            done = (index for finished in threads.map(block, blocks) for index in finished)
            for _ in track(done, what, len(files)):
                pass
    finally:
        reader.close()
    return bad
