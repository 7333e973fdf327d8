"""The command as a user calls it."""

import os
import subprocess
import sys
from pathlib import Path

from tests.runs import SMALL


def cli(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """In its own process."""
    command = [sys.executable, "-m", "gradcast", *arguments]
    env = {key: value for key, value in os.environ.items() if key != "GRADCAST_DATA"} | {"COLUMNS": "80"} | environment
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, env=env)


def started(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    """The same, under way."""
    command = [sys.executable, "-m", "gradcast", *arguments]
    return subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def small(*more: str) -> list[str]:
    """Settings of a run of less than a second."""
    return [part for setting in (*SMALL, *more) for part in ("--set", setting)]
