"""Code blocks of the documentation, run as a reader would run them: page by page, in one folder, in order."""

import glob
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from tools.render_commands import commands

from gradcast.cli.app import app

BLOCK = re.compile(r"(?:^<!-- (not run|tested with): (.*?) -->\n)?^```(python|console)\n(.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """A block with its language, and what its page says to tests in a comment."""

    language: str
    text: str
    skipped: str = ""  # why it is not run
    added: str = ""  # options that make its commands small, of those that have them and print to the screen


def blocks(page: Path) -> Iterator[Block]:
    """All blocks of Python and of a console."""
    for marker, words, language, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        yield Block(
            language,
            text,
            skipped=words if marker == "not run" else "",
            added=words if marker == "tested with" else "",
        )


def run_block(block: Block, names: dict[str, Any], folder: Path) -> None:
    """In the present folder; what Python defines stays for the next block of the page."""
    if block.language == "python":
        exec(compile(block.text, str(folder / "block.py"), "exec"), names)  # noqa: S102 -- code of our own pages
        return
    for line in command_lines(block.text):
        _command(line, block.added)


def command_lines(text: str) -> list[str]:
    """What stands behind the prompt; a line that ends with a backslash goes on."""
    joined = text.replace("\\\n", " ")
    return [line.removeprefix("$ ") for line in joined.splitlines() if line.startswith("$ ")]


def _command(line: str, added: str) -> None:
    """A gradcast command in this process, which is seconds cheaper than a new one."""
    given, _, file = line.partition(" > ")
    words = [part for word in shlex.split(given, comments=True) for part in _expanded(word)]
    assert words[0] == "gradcast", f"only gradcast is run here, so mark the block: {line}"
    known = dict(commands())
    name = " ".join(words[1:3]) if " ".join(words[1:3]) in known else words[1]
    options = {option for own in known[name].params for option in own.opts}
    fits = not file and options.issuperset(word for word in shlex.split(added) if word.startswith("--"))
    more = shlex.split(added) if fits else []
    more += ["--threads", "1"] if "--threads" in options else []
    printed = StringIO()
    run: Callable[..., object] = app
    with redirect_stdout(printed):
        run([*words[1:], *more], standalone_mode=False)
    if file:
        Path(file.split()[0]).write_text(printed.getvalue(), encoding="utf-8")


def _expanded(word: str) -> list[str]:
    return sorted(glob.glob(word)) if "*" in word else [word]
