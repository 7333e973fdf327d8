"""Files and folders of a run: there as a whole or not at all, and never written or deleted through a link.

Somebody may hand over a run directory in which a name is a symbolic link to a file of yours. ``refuse_links`` looks for
that before anything is written; what is opened later is opened without following links.
"""

import errno
import fcntl
import os
import shutil
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from gradcast.errors import GradcastError

WRITING = ".writing"  # folder of tensors that are not whole yet
TEMPORARY = ".tmp"  # how names of texts end that are not whole yet
FOREIGN = ("wandb",)  # what lies there is another program's, which makes links


def write_text(path: Path, text: str) -> None:
    """Replace a file as a whole: nobody ever sees half of it."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """The same for bytes; a link of this name is replaced by the file, and what it pointed to stays as it is."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}{TEMPORARY}")  # two processes may write one file at once
    try:
        temporary.unlink(missing_ok=True)
        with os.fdopen(open_file(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise named(error, path) from None


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """The same for tensors, as safetensors; whoever may read our other files may read this one.

    The library writes to hidden files of its own, for their owner alone, and a killed process leaves them behind: in a
    folder that the next write, or ``abandon``, empties.
    """
    abandon(path.parent)
    beside = path.parent / WRITING
    try:
        beside.mkdir()
        temporary = beside / path.name
        temporary.touch()
        mode = temporary.stat().st_mode
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, temporary, metadata)
        temporary.chmod(mode)
        synchronise(temporary)
        temporary.replace(path)
        beside.rmdir()
    except SafetensorError as error:
        abandon(path.parent)  # a full disk needs the room
        raise OSError(errno.ENOSPC if "No space" in str(error) else errno.EIO, str(error), str(path)) from None
    except OSError as error:
        abandon(path.parent)
        raise named(error, path) from None


def abandon(folder: Path) -> None:
    """Throw away what a write of tensors that was cut off left in a folder."""
    shutil.rmtree(folder / WRITING, ignore_errors=True)


def sweep(folder: Path, kept: Container[str] = ()) -> None:
    """Throw away what writes that were cut off left in a folder and below; nobody else may be writing there.

    Files ``kept`` may be in the making by somebody who needs no lock.
    """
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in FOREIGN]
        abandon(Path(place))
        for name in files:
            own, _, process = name.removesuffix(TEMPORARY).rpartition(".")
            if name.endswith(TEMPORARY) and process.isdigit() and own not in kept:
                (Path(place) / name).unlink(missing_ok=True)


def open_file(path: Path, flags: int) -> int:
    """A descriptor of a file that is no link."""
    try:
        return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _link(path) from None
        raise


def make_folder(path: Path) -> None:
    """A folder of ours, where a link may not take its place."""
    if path.is_symlink():
        raise _link(path)
    path.mkdir(parents=True, exist_ok=True)


def refuse_links(folder: Path) -> None:
    """A sentence where the folder, or anything in it that is ours, is a link."""
    if folder.is_symlink():
        raise _link(folder)
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            if os.path.islink(os.path.join(place, name)):
                raise _link(Path(place) / name)
        folders[:] = [name for name in folders if name not in FOREIGN]


@contextmanager
def locked(path: Path, taken: str | None = None) -> Iterator[None]:
    """Nobody else has the lock meanwhile; it ends with the process, however that ends.

    Where somebody has it already, the sentence ``taken`` is an error; without one, wait.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = open_file(path, os.O_RDWR | os.O_CREAT)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if taken is None else fcntl.LOCK_NB))
        except BlockingIOError:
            raise GradcastError(taken or "") from None
        yield
    finally:
        os.close(handle)


def synchronise(path: Path) -> None:
    """Have what was written reach the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def named(error: OSError, path: Path) -> OSError:
    """The same error with the file's name: a full disk does not say which file it was."""
    return OSError(error.errno, error.strerror, str(path))


def _link(path: Path) -> GradcastError:
    return GradcastError(f"{path} is a symbolic link, and nothing is written or deleted through one; remove it")
