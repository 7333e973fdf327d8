"""Two processes as torchrun starts them, on this machine.

As a program: imports the command once and becomes both ranks, each of which writes to files of its own. Importing it
twice would take longer than what the tests train.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

ROOT = Path(__file__).parents[2]
PASSES = "passes"  # the first argument where it is not a command that is wanted


@dataclass(frozen=True)
class Ended:
    """What became of a rank."""

    code: int  # of its exit; of a signal, negative
    out: str
    err: str


def by_two_ranks(arguments: Sequence[str], cwd: Path, more: Mapping[str, str] | None = None) -> list[Ended]:
    """The command by two ranks; where one of them hangs all are killed and the test fails."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **(more or {})}
    program = subprocess.Popen(
        [sys.executable, "-m", "tests.cluster.two_ranks", *arguments],
        cwd=cwd,
        env=environment() | shared,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    codes = json.loads(finished(program))
    return [
        Ended(code, *(Path(cwd, f"rank-{rank}.{kind}").read_text() for kind in ("out", "err")))
        for rank, code in enumerate(codes)
    ]


def finished(program: subprocess.Popen[str], seconds: float = 100) -> str:
    """What a program with a session of its own printed; nothing of it is left."""
    try:
        return program.communicate(timeout=seconds)[0]
    finally:
        if program.poll() is None:
            os.killpg(program.pid, signal.SIGKILL)


def environment() -> dict[str, str]:
    """One thread, eighty columns, and the tests' own modules."""
    more = {"OMP_NUM_THREADS": "1", "COLUMNS": "80", "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    return {**os.environ, **more}


@cache
def divided_passes() -> dict[str, torch.Tensor]:
    """What ``divided_passes.py`` found: the same passes by one process and by two."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "found.pt"
        for rank in by_two_ranks([PASSES, str(file)], Path(folder)):
            assert rank.code == 0, rank.err
        found: dict[str, torch.Tensor] = torch.load(file)
        return found


def pairs(network: str, count: int) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Of one network and number of images: what one process gave, and two."""
    found, start = divided_passes(), f"{network} {count}"
    names = [name.removeprefix(f"{start} one ") for name in found if name.startswith(f"{start} one ")]
    return {name: (found[f"{start} one {name}"], found[f"{start} two {name}"]) for name in names}


def main() -> None:
    """Become both ranks, and print their exit codes."""
    if sys.argv[1] == PASSES:
        from tests.cluster.divided_passes import main as wanted
    else:
        from gradcast.cli.app import main as wanted
    made = [_rank(number, wanted) for number in range(2)]
    sys.stdout.write(json.dumps([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in made]))


def _rank(number: int, wanted: Callable[[], None]) -> int:
    """A process that is one of them."""
    child = os.fork()
    if child:
        return child
    os.environ |= {"RANK": str(number), "LOCAL_RANK": str(number)}
    for kind, handle in (("out", 1), ("err", 2)):
        os.dup2(os.open(f"rank-{number}.{kind}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), handle)
    code: object = 1
    try:
        wanted()
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:  # noqa: BLE001 -- as the interpreter does
        sys.excepthook(*sys.exc_info())
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    main()
