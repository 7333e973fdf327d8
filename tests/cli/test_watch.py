import os
import signal
import subprocess
import sys
from pathlib import Path

import typer
from typer.testing import CliRunner

from gradcast.cli.watch import watch
from tests.results.report.copies import copy_of_run, unfinish

app = typer.Typer()
app.command()(watch)
PROGRAM = """
import signal, typer
from gradcast.cli.watch import watch
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
typer.run(watch)
"""


def test_an_interrupt_ends_it_well(tmp_path: Path) -> None:
    unfinish(copy_of_run(tmp_path / "digits-1"), "random", lines=2)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), "--every", "1"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"}
    ) as run:
        assert run.stdout is not None
        try:
            lines = [run.stdout.readline() for _ in range(2)]
            run.send_signal(signal.SIGINT)
            rest, _ = run.communicate(timeout=60)
        finally:
            run.kill()  # nothing is left of it that way, where it went on
    assert lines[0] == f"Page: {tmp_path / 'report.html'}\n"
    assert "2 of 3 rows finished; GEM + random directions: 1 of 3 tasks" in lines[1]
    assert rest.splitlines() == ["stopped"]
    assert run.returncode == 0
    assert "<li>GEM + random directions: 1 of 3 tasks" in (tmp_path / "report.html").read_text()


def test_every_is_at_least_a_second(tmp_path: Path) -> None:
    assert CliRunner().invoke(app, [str(tmp_path), "--every", "0"]).exit_code == 2
