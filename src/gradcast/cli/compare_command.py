"""``gradcast compare``: finished rows against each other, the verdict first."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gradcast.cli.console import complain, print_sentence
from gradcast.cli.options import JsonOption
from gradcast.errors import BAD_INPUT
from gradcast.results import comparison
from gradcast.results.comparison import Comparisons
from gradcast.results.quick import QUICK_LOOK
from gradcast.results.report.words import counted, shifted, signed_points
from gradcast.results.verdict import Paired
from gradcast.results.wording import guessed
from gradcast.runs.jsontext import to_json


def compare(
    a: Annotated[Path, typer.Argument(metavar="BASE", help="a run directory, or one row of it as in DIR/base")],
    b: Annotated[Path, typer.Argument(metavar="VARIANT", help="what is compared with it, given in the same way")],
    json: JsonOption = False,
) -> None:
    """Compare finished rows over the seeds they share: difference, intervals, tests, and a verdict in words.

    Two run directories: rows of the same name are paired.
    A row and a run directory: the row is the base of every other row there.
    Verdicts are those of the run: one row or all, they are corrected for every row that makes a claim.
    A row that cannot be read is left out with a sentence, and the exit code is 2.
    """
    found = comparison.compare(a, b)
    if json:
        typer.echo(to_json(found.as_dict()), nl=False)
    else:
        print_comparisons(Console(), found)
    for sentence in found.damage:
        complain(sentence)
    if found.damage:
        raise typer.Exit(BAD_INPUT)


def print_comparisons(console: Console, comparisons: Comparisons) -> None:
    """Each verdict with the numbers behind it, then what was left out."""
    if comparisons.quick:
        console.print(f"[yellow]{QUICK_LOOK}")
    for own in comparisons.found:
        for prefix, paired in (("", own.paired), ("Task unknown: ", own.unknown)):
            if paired is not None:
                settings = _settings(own.settings) if paired is own.paired else []
                _print(console, f"{prefix}{own.title}: {paired.verdict}", [*_lines(paired), *settings])
    for sentence in comparisons.left_out:
        console.print(f"[yellow]note:[/] {escape(sentence)}", soft_wrap=True)


def _print(console: Console, title: str, lines: Sequence[tuple[str, str]]) -> None:
    print_sentence(console, title)
    table = Table.grid(padding=(0, 3))
    for what, value in lines:
        table.add_row(f"  [dim]{what}", value)
    console.print(table)
    console.print()


def _lines(paired: Paired) -> list[tuple[str, str]]:
    mean, seeds = signed_points(paired), paired.shift.seeds
    if seeds == 1:
        return [("difference", f"{mean} points on one seed")]
    confidence = f"{100 * paired.shift.confidence:.3g} % interval" if math.isfinite(paired.shift.low) else "no interval"
    lines = [
        ("Hodges-Lehmann", f"{shifted(paired.shift)} points over {seeds} seeds, {confidence}"),
        ("p (signed rank)", _p(paired.wilcoxon, paired.wilcoxon_holm, paired.family)),
        ("mean ± t interval", f"{mean} points"),
        ("p (t test)", _p(paired.t_test)),
        (
            "effect size",
            "not known, the seeds differ by the same" if (size := paired.effect_size) is None else f"{size:.2f}",
        ),
    ]
    if paired.seeds_needed is not None:
        lines.append(("seeds needed", guessed(paired.seeds_needed, seeds)))
    return lines


def _settings(differ: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """What else the two rows differ in: the base's value, then the variant's."""
    found = [escape(f"{key}: {before} -> {after}") for key, (before, after) in differ.items()]
    return [("settings", found[0]), *(("", each) for each in found[1:])] if found else [("settings", "the same")]


def _p(raw: float, corrected: float | None = None, family: int = 1) -> str:
    own = f"{raw:.3f}" if raw >= 0.001 else "below 0.001"
    return own if corrected is None else f"{own}, corrected for {counted(family, 'claim')} {_p(corrected)}"
