"""Two processes as torchrun starts them, on this machine."""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

ROOT = Path(__file__).parents[2]


def started(
    command: Sequence[str], cwd: Path, more: Mapping[str, str] | None = None, size: int = 2
) -> list[subprocess.Popen[str]]:
    """The ranks of one command, under way; every one of them tells its exit code, as torchrun does not."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = environment() | {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    made = []
    for rank in range(size):
        own = shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)} | dict(more or {})
        made.append(
            subprocess.Popen(
                [sys.executable, *command],
                cwd=cwd,
                env=own,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )
    return made


def ended(ranks: Sequence[subprocess.Popen[str]], seconds: float = 100) -> list[subprocess.CompletedProcess[str]]:
    """What became of them; one that hangs is killed and fails the test."""
    try:
        told = [rank.communicate(timeout=seconds) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    return [subprocess.CompletedProcess([], rank.returncode, *own) for rank, own in zip(ranks, told, strict=True)]


def environment() -> dict[str, str]:
    """One thread, eighty columns, and the tests' own modules."""
    more = {"OMP_NUM_THREADS": "1", "COLUMNS": "80", "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    return {**os.environ, **more}


@cache
def divided_passes() -> dict[str, torch.Tensor]:
    """What ``divided_passes.py`` found: the same passes by one process and by two."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "found.pt"
        for rank in ended(started(["-m", "tests.cluster.divided_passes", str(file)], Path(folder))):
            assert rank.returncode == 0, rank.stderr
        found: dict[str, torch.Tensor] = torch.load(file)
        return found


def pairs(network: str, count: int) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Of one network and number of images: what one process gave, and two."""
    found, start = divided_passes(), f"{network} {count}"
    names = [name.removeprefix(f"{start} one ") for name in found if name.startswith(f"{start} one ")]
    return {name: (found[f"{start} one {name}"], found[f"{start} two {name}"]) for name in names}
