"""Archives unpacked whole or not at all, and never outside their folder."""

import gzip
import os
import re
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import IO

from gradcast.errors import GradcastError

BLOCK = 2**20  # bytes copied at a time
DEPTH = 100  # folders within folders, so that they can be removed again
DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    gzip.BadGzipFile,
    zlib.error,
    EOFError,
    struct.error,
    ValueError,  # impossible offsets and names
    IndexError,  # empty names
    RuntimeError,  # encryption, unknown compression
)

Member = tuple[str, int, IO[bytes] | None]  # name, mode, content; folders have none


def extract(archive: Path, target: Path, *, limit: int = 64 * 2**30) -> None:
    """Unpack a .zip, .tar, .tar.gz or .tgz into ``target``.

    All of it is unpacked beside the target first. Only then do its top-level entries take their place there, where
    one of the same name is replaced as a whole. More than ``limit`` bytes are refused, whatever the headers promise.
    """
    try:
        if not archive.is_file():
            raise GradcastError(f"{archive} does not exist; fetch it first")
        target = target.resolve()
        # The nearest folder that exists: nothing is left if this fails, and moving from there is a mere renaming.
        base = target if os.path.ismount(target) else next(parent for parent in target.parents if parent.exists())
        with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=base) as staging:
            fresh, replaced = Path(staging, "fresh"), Path(staging, "replaced")
            fresh.mkdir()
            replaced.mkdir()
            _unpack(archive, fresh, limit=limit)
            target.mkdir(parents=True, exist_ok=True)
            for entry in sorted(fresh.iterdir()):
                place = target / entry.name
                if os.path.lexists(place):
                    place.rename(replaced / entry.name)
                entry.rename(place)
    except DAMAGED as error:
        raise GradcastError(f"{archive} is damaged or cannot be unpacked ({error}); fetch it again") from None
    except OSError as error:
        raise GradcastError(
            f"{archive} cannot be unpacked into {target} ({error.strerror or error}); "
            "make room or choose a folder that you may write to, and run again"
        ) from None


def _unpack(archive: Path, folder: Path, *, limit: int) -> None:
    """Write every member below the folder, with plain modes."""
    left = limit
    with closing(_members(archive)) as members:
        for name, mode, content in members:
            parts = _parts(archive, name)
            _make(folder, parts if content is None else parts[:-1])
            if content is None:
                continue
            path = folder.joinpath(*parts)
            with open(path, "wb") as file:
                while block := content.read(BLOCK):
                    left -= len(block)
                    if left < 0:
                        raise GradcastError(
                            f"{archive} unpacks to more than {limit} bytes (at {name!r}); "
                            "unpack it by hand if that is right"
                        )
                    file.write(block)
            path.chmod(0o755 if mode & 0o111 else 0o644)


def _members(archive: Path) -> Generator[Member, None, None]:
    name = archive.name.lower()
    if name.endswith(".zip"):
        return _zip(archive)
    if name.endswith((".tar", ".tar.gz", ".tgz")):
        return _tar(archive)
    raise GradcastError(f"{archive} is of an unknown kind; unpack it by hand or provide a .zip, .tar, .tar.gz or .tgz")


def _zip(archive: Path) -> Generator[Member, None, None]:
    with zipfile.ZipFile(archive) as file:
        for info in file.infolist():
            mode = info.external_attr >> 16  # 0 where the archive was not made on Unix
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _refused(archive, info.filename, "is a link or a device")
            if info.is_dir():
                yield info.filename, mode, None
            else:
                with file.open(info) as content:
                    yield info.filename, mode, content


def _tar(archive: Path) -> Generator[Member, None, None]:
    plain = archive.name.lower().endswith(".tar")
    with (
        open(archive, "rb") if plain else gzip.open(archive) as stream,
        tarfile.open(fileobj=stream, mode="r:") as file,
    ):
        for info in file:
            if not (info.isreg() or info.isdir()):
                raise _refused(archive, info.name, "is a link or a device")
            yield info.name, info.mode, file.extractfile(info)
        # tarfile takes a cut or a broken header for the end; the true end is a block of zeros.
        stream.seek(file.offset)
        if stream.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
            raise tarfile.ReadError("it breaks off between two members")
        while stream.read(BLOCK):  # gzip verifies its checksum at the very end
            pass


def _parts(archive: Path, name: str) -> list[str]:
    """The folders of a member and its own name."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    outside = name.startswith("/") or ".." in parts or any(re.match("[A-Za-z]:", part) for part in parts)
    if outside or "\\" in name or "\0" in name:
        raise _refused(archive, name, "could lie outside the folder it is unpacked into")
    if len(parts) > DEPTH:
        raise _refused(archive, name, f"lies more than {DEPTH} folders deep")
    return parts


def _refused(archive: Path, name: str, why: str) -> GradcastError:
    return GradcastError(f"{archive} holds {name!r}, which {why}; fetch the archive from its publisher again")


def _make(folder: Path, parts: list[str]) -> None:
    for part in parts:
        folder = folder / part
        if not folder.is_dir():
            folder.mkdir()
            folder.chmod(0o755)
