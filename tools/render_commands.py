"""Writes docs/reference/commands.md, every command with its arguments and options, from the command line itself.

python tools/render_commands.py
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_origin

import typer
from annotated_types import Ge, Le
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from gradcast.cli.app import app
from gradcast.specs.type_words import type_words

REFERENCE = Path(__file__).parents[1] / "docs" / "reference" / "commands.md"
INTRODUCTION = """# Every command

`gradcast COMMAND --help` says the same in a terminal, `gradcast --version` prints the version.
`python tools/render_commands.py` writes this page from the code.

Exit codes: 0, all is well; 1, a check found something; 2, a mistake, told in one sentence; 130 and 143, stopped by a
signal, with a checkpoint.
"""


def main() -> None:
    """The whole page."""
    REFERENCE.parent.mkdir(exist_ok=True)
    REFERENCE.write_text(reference(), encoding="utf-8")


def reference() -> str:
    """All commands in the order of ``gradcast --help``."""
    parts = [INTRODUCTION.strip("\n")]
    for name, command in commands():
        parts += [f"## gradcast {name}", f"```text\n{_usage(name, command)}\n```", _marked(command.help or "")]
        arguments = [own for own in command.params if isinstance(own, TyperArgument)]
        options = [own for own in command.params if isinstance(own, TyperOption)]
        if arguments:
            parts.append("\n".join(["| argument | default | meaning |", "|---|---|---|", *map(_argument, arguments)]))
        if options:
            head = ["| option | value | default | meaning |", "|---|---|---|---|"]
            parts.append("\n".join([*head, *map(_option, options)]))
    return "\n\n".join(parts) + "\n"


def commands() -> Iterator[tuple[str, TyperCommand]]:
    """Every command with the words that call it, those of groups among them."""
    whole = typer.main.get_command(app)
    assert isinstance(whole, TyperGroup)
    for name, own in whole.commands.items():
        parts = own.commands.items() if isinstance(own, TyperGroup) else []
        for word, part in parts or [("", own)]:
            assert isinstance(part, TyperCommand)
            yield f"{name} {word}".strip(), part


def _usage(name: str, command: TyperCommand) -> str:
    words = [_placeholder(own) for own in command.params if isinstance(own, TyperArgument)]
    return " ".join(["gradcast", name, *words, "[OPTIONS]"])


def _placeholder(own: TyperArgument) -> str:
    word = (own.metavar or str(own.name).upper()).strip("[]")
    return f"{word}{'...' if own.nargs != 1 else ''}" if own.required else f"[{word}]"


def _argument(own: TyperArgument) -> str:
    word = _placeholder(own).replace("|", " or ")  # a sign that ends a cell
    return f"| `{word}` | {_default(own)} | {_marked(own.help or '')} |".replace("  |", " |")


def _option(own: TyperOption) -> str:
    names = ", ".join(f"`{name}`" for name in [*own.opts, *own.secondary_opts])
    return f"| {names} | {_value(own)} | {_default(own)} | {_marked(own.help or '')} |".replace("  |", " |")


def _value(own: TyperOption) -> str:
    """What stands behind an option; nothing behind a flag."""
    if own.is_flag:
        return ""
    annotation = own.type_descriptor.annotation
    one = get_args(annotation)[0] if get_origin(annotation) is list else annotation
    bounds = [Ge(own.min)] if own.min is not None else []
    bounds += [Le(own.max)] if own.max is not None else []
    words = f"`{own.metavar}`" if own.metavar else "path" if one is Path else type_words(one, bounds)
    return f"{words.replace('|', ' or ')}{', repeatable' if own.multiple else ''}"


def _default(own: TyperArgument | TyperOption) -> str:
    if own.required:
        return "must be given"
    unsaid = own.default is None or own.default is False or own.default == ""
    return "" if unsaid else f"`{own.default}`"


def _marked(text: str) -> str:
    """Help as Markdown has it: bold words are commands and names; lines are joined within a paragraph."""
    plain = re.sub(r"\[bold\](.*?)\[/(?:bold)?\]", r"`\1`", text).replace("|", "\\|")
    return re.sub(r"(?<!\n)\n(?!\n)", " ", plain)


if __name__ == "__main__":
    main()
