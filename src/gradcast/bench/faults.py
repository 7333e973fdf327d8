"""Kills a run at every file operation, or fails the operation as a full disk does, and lets the run end.

However it was hit, the same command must end at the same files as a run that nothing happened to. Operations are seen
by an audit hook of Python: nothing of the package is replaced. Every attempt is a fork of this process.
"""

import errno
import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn

from gradcast.errors import BAD_INPUT, GradcastError

Fault = Literal["kill", "full"]
Attempt = Callable[[Path], None]  # trains into a folder, from wherever that stands
Snapshot = Mapping[str, object]
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.chmod", "os.symlink")
TIMES = ("cost", "milliseconds", "growth", "origin")  # keys of a table's result: how long things took, and when
LOCKS = ".lock"  # how names of locks end, which stay
WORDS = {"kill": "killed", "full": "no space left"}


@dataclass(frozen=True)
class Trial:
    """What became of a run that was hit once."""

    kind: str
    fault: Fault
    place: int  # number of the file operation, from 1
    problem: str  # empty where it ended as if nothing had happened


class Injector:
    """Counts the file operations below a folder, and strikes at one of them."""

    def __init__(self, root: Path, at: int | None, fault: Fault = "kill") -> None:
        self.root, self.at, self.fault, self.count = f"{root}{os.sep}", at, fault, 0

    def __call__(self, event: str, details: tuple[object, ...]) -> None:
        """Python is about to do something."""
        if event not in CHANGES and event != "open":
            return
        if not self._changes(event, details):
            return
        self.count += 1
        if self.count != self.at:
            return
        if self.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _changes(self, event: str, details: tuple[object, ...]) -> bool:
        path = details[0]
        if event == "open" and not (isinstance(details[2], int) and details[2] & WRITING):
            return False
        if isinstance(path, int):  # a file that is open already
            return event == "os.truncate"
        name = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
        relative = not os.path.isabs(name)  # in a folder that is being removed: ours are named from the root
        return name.startswith(self.root) or (relative and event in ("os.remove", "os.rmdir"))


def forked(attempt: Attempt, out: Path, log: Path, at: int | None = None, fault: Fault = "kill") -> tuple[int, int]:
    """How a process ended that tried, as a shell tells it, and how many file operations it came to."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _child(attempt, out, log, Injector(out, at, fault), writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as told:
        count = int(told.read() or b"0")
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), count


def _child(attempt: Attempt, out: Path, log: Path, injector: Injector, writer: int) -> NoReturn:
    """Never back into the code of the process that forked."""
    code = 1
    try:
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
        sys.addaudithook(injector)
        try:
            attempt(out)
            code = 0
        except (GradcastError, OSError) as error:
            sys.stderr.write(f"error: {error}\n")
            code = BAD_INPUT
        os.write(writer, str(injector.count).encode())
    except BaseException:  # noqa: BLE001 -- told to the log
        sys.stderr.write(traceback.format_exc())
    finally:
        sys.stderr.flush()
        os._exit(code)


def snapshot(out: Path) -> Snapshot:
    """Everything in a folder by name, but for times; links by where they lead."""
    found: dict[str, object] = {}
    for path in sorted(out.rglob("*")):
        name = path.relative_to(out).as_posix()
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_file() and not name.endswith(LOCKS):
            found[name] = _content(path)
    return found


def _content(path: Path) -> object:
    match path.name:
        case "env.json":
            return sorted(json.loads(path.read_text()))
        case "trained.json":
            return json.loads(path.read_text())["files"]
        case "manifest.json":
            files = json.loads(path.read_text())["files"]
            return {name: entry for name, entry in files.items() if name != "env.json"}
        case "result.json":
            return _without_times(json.loads(path.read_text()))
    return path.read_bytes()


def _without_times(said: object) -> object:
    match said:
        case dict():
            return {key: _without_times(value) for key, value in said.items() if key not in TIMES}
        case list():
            return [_without_times(value) for value in said]
    return said


def difference(expected: Snapshot, found: Snapshot) -> str:
    """What is otherwise, in words; empty where nothing is."""
    extra, missing = found.keys() - expected.keys(), expected.keys() - found.keys()
    other = [name for name in expected.keys() & found.keys() if expected[name] != found[name]]
    named = (("left behind", extra), ("missing", missing), ("other bytes", other))
    return "; ".join(f"{what}: {', '.join(sorted(names))}" for what, names in named if names)


def strike(
    kinds: Mapping[str, Attempt],
    folder: Path,
    *,
    faults: Sequence[Fault] = ("kill", "full"),
    choose: Callable[[int], Iterable[int]] = lambda count: range(1, count + 1),
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[Trial]:
    """One trial a kind of run, fault and place; ``choose`` takes some of so many places."""
    log = folder / "log"
    for kind, attempt in kinds.items():
        whole = folder / kind
        code, count = forked(attempt, whole, log)
        if code:
            raise GradcastError(f"the run {kind!r} fails without a fault: {_last(log)}")
        expected = snapshot(whole)
        shutil.rmtree(whole)
        for fault in faults:
            for place in choose(count):
                say(f"{kind}: {WORDS[fault]} at operation {place} of {count}")
                yield Trial(kind, fault, place, _trial(attempt, whole, log, expected, place, fault))
                shutil.rmtree(whole, ignore_errors=True)  # a fault may have come before anything else


def _trial(attempt: Attempt, out: Path, log: Path, expected: Snapshot, place: int, fault: Fault) -> str:
    code, _ = forked(attempt, out, log, place, fault)
    if code not in ((-signal.SIGKILL, 0) if fault == "kill" else (0, BAD_INPUT)):
        return f"the fault was answered with code {code}: {_last(log)}"
    code, _ = forked(attempt, out, log)
    if code:
        return f"stuck: the same command ends with code {code}: {_last(log)}"
    return difference(expected, snapshot(out))


def _last(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "no word"
