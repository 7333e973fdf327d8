"""Which image files lie below a folder or in a zip archive, and what else lies there and is left out."""

import hashlib
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from PIL import Image

from gradcast.data.limits import MOST_FILES
from gradcast.errors import GradcastError, message_of

# Pillow goes by content, not by name, and some of its formats (EPS) start other programs: only these are opened.
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "PPM", "TIFF", "WEBP")
# Pictures too, which Pillow's list of formats may lack.
OTHER_PICTURES = {".avif", ".heic", ".heif", ".jp2", ".j2k", ".jxl", ".svg", ".psd", ".dng", ".cr2", ".nef", ".arw"}
# Thumbnails and leftovers of other programs, as are all names that begin with a dot.
OTHER_PROGRAMS = ("__MACOSX", "@eaDir")
TEXTS = ("readme", "license", "licence", "copying", "notice", "authors", "changelog")  # without an ending, no images
DEEPEST = 100  # folders within folders
# What Pillow and zipfile raise on files that are not what they claim to be.
UNREADABLE = (
    OSError, ValueError, SyntaxError, EOFError, ArithmeticError, LookupError, TypeError, AttributeError, AssertionError,
    RuntimeError, MemoryError, struct.error, zlib.error, zipfile.BadZipFile, Image.DecompressionBombError, Warning,
)  # fmt: skip
# Why something is left out.
HIDDEN, NO_ENDING, OTHER = "hidden", "without an ending", "no images"
SPECIAL = "pipes and devices"
UNOPENED, TOO_DEEP = "folders that cannot be opened", f"more than {DEEPEST} folders deep"
BROKEN, LOOP, REPEATED = "broken links", "links to a folder above", "names that appear twice in the archive"
LeftOut = Mapping[str, Sequence[str]]  # names by the reason


@dataclass(frozen=True)
class ImageFiles:
    """Names of image files below a folder or in an archive; ``fingerprint`` changes when one of them does."""

    root: Path
    names: tuple[str, ...]
    fingerprint: str
    left_out: LeftOut = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.names)

    def only(self, names: Sequence[str]) -> "ImageFiles":
        """Some of them, in this order."""
        return ImageFiles(self.root, tuple(names), digest([self.fingerprint, *names]), self.left_out)


def image_files(root: Path) -> ImageFiles:
    """All image files below a folder, or in a zip archive, however deep, in the order of their names.

    Links are followed. Hidden files and folders are left out.
    """
    if root.is_dir():
        walk = _Walk(root)
        facts = dict(walk.files())
        lines = [f"{name} {fact.st_size} {fact.st_mtime_ns}" for name, fact in facts.items()]
        return ImageFiles(root, tuple(facts), digest([str(root.resolve()), *lines]), walk.left_out)
    if root.is_file() and zipfile.is_zipfile(root):
        return _zipped(root)
    raise GradcastError(f"{root} is neither a folder nor a zip archive; set the path to a folder of images")


def extensions() -> set[str]:
    """Endings of files that may be images."""
    return {suffix for suffix, form in Image.registered_extensions().items() if form in FORMATS}


def maybe_pictures(left_out: LeftOut) -> dict[str, Sequence[str]]:
    """What was left out and may be wanted: all but files whose endings say that they are no images."""
    return {reason: names for reason, names in left_out.items() if reason != OTHER}


def digest(lines: Iterable[str]) -> str:
    """A name for a list of lines."""
    return hashlib.blake2b("\n".join(lines).encode(errors="surrogateescape"), digest_size=16).hexdigest()


class _Walk:
    """Image files below a folder, the entries of every folder in the order of their names."""

    def __init__(self, root: Path) -> None:
        self.root, self.known, self.pictures = root, extensions(), _pictures()
        self.left_out: dict[str, list[str]] = {}

    def files(self) -> Iterator[tuple[str, os.stat_result]]:
        """Names below the root with what the system knows of the files."""
        try:
            above: tuple[tuple[int, int], ...] = (_identity(self.root.stat()),)
            waiting = [(entry, entry.name, above) for entry in _entries(self.root)]  # the next one last
        except OSError as error:
            raise GradcastError(f"{self.root} cannot be read ({message_of(error)}); choose another folder") from None
        seen = 0
        while waiting:
            entry, name, above = waiting.pop()
            seen += 1
            if seen > MOST_FILES:
                raise GradcastError(f"{self.root} holds more than {MOST_FILES:,} files; choose a folder of images")
            try:
                facts = self._facts(entry, name)
                if facts is None:
                    continue
                if not stat.S_ISDIR(facts.st_mode):
                    yield name, facts
                    continue
                own = _identity(facts)
            except OSError:
                self._leave(BROKEN, name)
                continue
            if own in above:
                self._leave(LOOP, name)
            elif len(above) > DEEPEST:
                self._leave(TOO_DEEP, name)
            else:
                waiting += [(each, f"{name}/{each.name}", (*above, own)) for each in self._below(entry, name)]

    def _facts(self, entry: os.DirEntry[str], name: str) -> os.stat_result | None:
        """What is known of a folder or an image; nothing of what is left out."""
        if hidden(entry.name):
            self._leave(HIDDEN, name)
            return None
        facts = entry.stat()
        if stat.S_ISDIR(facts.st_mode):
            return facts
        reason = _reason(entry.name, self.known, self.pictures)
        if reason is not None or not stat.S_ISREG(facts.st_mode):
            self._leave(reason or SPECIAL, name)
            return None
        return facts

    def _below(self, entry: os.DirEntry[str], name: str) -> list[os.DirEntry[str]]:
        try:
            return _entries(entry.path)
        except OSError:
            self._leave(UNOPENED, name)
            return []

    def _leave(self, reason: str, name: str) -> None:
        self.left_out.setdefault(reason, []).append(name)


def _entries(folder: Path | str) -> list[os.DirEntry[str]]:
    """What lies in a folder, the last name first."""
    with os.scandir(folder) as entries:
        return sorted(entries, key=lambda entry: entry.name, reverse=True)


def _identity(facts: os.stat_result) -> tuple[int, int]:
    return facts.st_dev, facts.st_ino


def hidden(part: str) -> bool:
    """Whether a file or folder is one that people do not see."""
    return part.startswith(".") or part in OTHER_PROGRAMS


def _pictures() -> set[str]:
    return set(Image.registered_extensions()) | OTHER_PICTURES


def _reason(name: str, known: set[str], pictures: set[str]) -> str | None:
    """Why a file is no image that is read here, by its name; None: it is one."""
    suffix = name[max(name.rfind("."), 0) :].lower()
    if suffix in known:
        return None
    if not suffix.startswith(".") or suffix == ".":
        return OTHER if name.lower() in TEXTS else NO_ENDING
    return suffix if suffix in pictures else OTHER


def _zipped(root: Path) -> ImageFiles:
    known, pictures = extensions(), _pictures()
    try:
        with zipfile.ZipFile(root) as archive:
            entries = sorted(archive.infolist(), key=lambda entry: entry.filename)
    except UNREADABLE as error:
        raise GradcastError(f"{root} is not a readable zip archive ({message_of(error)}); fetch it again") from None
    left_out: dict[str, list[str]] = {}
    images: dict[str, zipfile.ZipInfo] = {}
    for entry in entries:
        name = PurePosixPath(entry.filename)
        if name.is_absolute() or ".." in name.parts:
            raise GradcastError(
                f"{root} holds the name {entry.filename!r}, which leaves its folder; the archive is not used"
            )
        if entry.filename.endswith("/"):
            continue
        reason = HIDDEN if any(map(hidden, name.parts)) else _reason(name.name, known, pictures)
        if reason is None and entry.filename in images:
            reason = REPEATED  # whoever opens the archive by name gets the last one
        if reason is not None:
            left_out.setdefault(reason, []).append(entry.filename)
        if reason in (None, REPEATED):
            images[entry.filename] = entry
    facts = [f"{entry.filename} {entry.file_size} {entry.CRC}" for entry in images.values()]
    return ImageFiles(root, tuple(images), digest(facts), left_out)
