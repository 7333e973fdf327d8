"""The command as a user calls it."""

import io
import os
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import torch

from gradcast.cli.app import main
from tests.trained_runs import SMALL

Done = subprocess.CompletedProcess[str]
ALONE = ("--threads", "1")  # see conftest.py


def cli(*arguments: str, cwd: Path) -> Done:
    """In its own process: seconds of start-up, for what only a process can show."""
    command = [sys.executable, "-m", "gradcast", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, env=_environment())


def called(*arguments: str, cwd: Path) -> Done:
    """The same within this process, from the words of the command line to the exit code."""
    command, threads = ["gradcast", *arguments], torch.get_num_threads()
    out, err = io.StringIO(), io.StringIO()
    with (
        chdir(cwd),
        redirect_stdout(out),
        redirect_stderr(err),
        mock.patch.object(sys, "argv", command),
        mock.patch.dict(os.environ, _environment(), clear=True),
    ):
        try:
            main()
            code: object = 0
        except SystemExit as ended:
            code = ended.code or 0
        finally:
            torch.set_num_threads(threads)  # commands choose their own
    assert isinstance(code, int)
    return Done(command, code, out.getvalue(), err.getvalue())


def started(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    """The same, under way."""
    command = [sys.executable, "-m", "gradcast", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=cwd, stdout=pipe, stderr=pipe, text=True, env=_environment())


def small(*more: str) -> list[str]:
    """Options of a run of less than a second."""
    return ["digits", *ALONE, *(part for setting in (*SMALL, *more) for part in ("--set", setting))]


def _environment() -> dict[str, str]:
    """Eighty columns, and no datasets but those named."""
    return {key: value for key, value in os.environ.items() if key != "GRADCAST_DATA"} | {"COLUMNS": "80"}
