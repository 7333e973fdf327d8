"""The command line: all commands, and what becomes of a mistake."""

import errno
import signal
import sys
import warnings
from inspect import cleandoc
from typing import Annotated

import typer

import gradcast
from gradcast.cli import data_command, runs_command
from gradcast.cli.bench_command import bench
from gradcast.cli.compare_command import compare
from gradcast.cli.console import complain, show_warning
from gradcast.cli.methods_command import methods
from gradcast.cli.pretrain_command import pretrain
from gradcast.cli.report_command import report
from gradcast.cli.reproduce_command import reproduce
from gradcast.cli.run_command import presets, run
from gradcast.cli.ssl_command import ssl
from gradcast.cli.suite_command import suite
from gradcast.cli.sweep_command import sweep
from gradcast.cli.verify_command import verify
from gradcast.cli.watch import watch
from gradcast.cluster.torchrun import ranks_started, silence_others
from gradcast.errors import BAD_INPUT, GradcastError, Stopped

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Semi-supervised continual learning: does a pool of unlabelled images help? Answered over paired seeds.",
)
COMMANDS = {
    "Train": (run, sweep, suite, ssl, pretrain, reproduce),
    "Look at results": (report, compare, watch),
    "Find out": (presets, methods),
    "Check gradcast itself": (verify, bench),
}
DIVIDED = ("run", "ssl", "pretrain")  # commands that torchrun may start


def _paragraphs(text: str) -> str:
    """A docstring whose lines may be broken again: the terminal's width is not the source's."""
    return "\n\n".join(" ".join(part.split()) for part in cleandoc(text).split("\n\n"))


for panel, commands in COMMANDS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
for group in (data_command.app, runs_command.app):
    app.add_typer(group, rich_help_panel="Data and trained runs")
for own in (app, data_command.app, runs_command.app):
    for known in own.registered_commands:
        known.help = _paragraphs((known.callback and known.callback.__doc__) or "")


def _version(asked: bool) -> bool:
    if asked:
        typer.echo(f"gradcast {gradcast.__version__}")
        raise typer.Exit()
    return asked


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", metavar="", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Options of all commands."""


def _refuse_torchrun() -> None:
    """A sentence where torchrun started a command whose passes are not divided."""
    name = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    if ranks_started() > 1 and name and name not in DIVIDED:
        raise GradcastError(
            f"torchrun is for gradcast {', '.join(DIVIDED[:-1])} and {DIVIDED[-1]}; start gradcast {name} without it"
        )


def main() -> None:
    """Entry point: a mistake becomes one sentence and exit code 2."""
    silence_others()
    try:
        with warnings.catch_warnings():
            warnings.showwarning = show_warning
            _refuse_torchrun()
            app()
    except GradcastError as error:
        complain(str(error))
        sys.exit(BAD_INPUT)
    except Stopped as stopped:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # an impatient second one would only spoil the last line
        typer.echo(str(stopped), err=True)
        sys.exit(stopped.code)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        closed = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)
        elsewhere = bool(error.filename) and (full or closed)
        remedies = ["free some space"] * full + ["choose another place with --out"] * elsewhere
        remedy = f"; {' or '.join(remedies)}" if remedies else ""
        complain(f"{error.filename or 'the output'}: {error.strerror or error}{remedy}")
        sys.exit(BAD_INPUT)
