"""``gradcast reproduce``: the published tables and figures, run and set beside what was published."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gradcast.cli.console import ProgressDisplay, complain
from gradcast.cli.options import (
    FILES,
    AtOnceOption,
    DataOption,
    DeviceOption,
    JsonOption,
    OnOption,
    OutOption,
    SetOption,
    ThreadsOption,
    data_folder,
    row_names,
)
from gradcast.cli.report_command import warn
from gradcast.cli.reproduce_list import print_list
from gradcast.cli.threads import choose_threads
from gradcast.cluster.cell_task import Cluster
from gradcast.devices import keep_freed_memory
from gradcast.errors import BAD_INPUT, GradcastError
from gradcast.reproduce.correlations import Clouds, as_dict, clouds, in_words
from gradcast.reproduce.course_length import course_settings
from gradcast.reproduce.draw import draw
from gradcast.reproduce.experiment import load
from gradcast.reproduce.measured_tables import courses
from gradcast.reproduce.missing_data import check_data
from gradcast.reproduce.outcome import FAILED, Line
from gradcast.reproduce.render import Saved, places, render
from gradcast.reproduce.reproduce import RESULT, Request, check_known, outcome, request, table_lock, train, unsaved
from gradcast.reproduce.show_table import DIGITS, TITLES, about, difference, gain, heading, label, save, unknown
from gradcast.reproduce.table_notes import notes
from gradcast.reproduce.trained import DEVIATION, PER_IMAGE, UNKNOWN
from gradcast.reproduce.views import lay_out
from gradcast.results.report.words import number
from gradcast.runs.jsontext import to_json

FEW = 10  # names in a sentence
MEASURED = "measured"  # folder of figures of what comes with gradcast
NOISE = {"pairs": "pairs", "seeds": "seeds", "beyond": "neither"}  # in which the published gain is


def reproduce(
    what: Annotated[
        str,
        typer.Argument(
            metavar="list|ID|FILE.json",
            help="[bold]list[/], the ID of a table or figure, e.g. E1 or F7, or the file of a saved table",
        ),
    ] = "list",
    rows: Annotated[
        str | None, typer.Option(help="only these rows and those they are compared with: names, separated by commas")
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="seeds 0 to N-1 (default: the experiment's own)")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", metavar="", help="short, small, two seeds: a look, not a result")
    ] = False,
    show: Annotated[
        bool,
        typer.Option(
            "--show", metavar="", help="train nothing, print what comes with gradcast and what was trained here"
        ),
    ] = False,
    steps: Annotated[
        int | None, typer.Option(min=1, help="train in so many steps; for E6, whose published runs have 400000")
    ] = None,
    settings: SetOption = None,
    known: Annotated[
        Path | None,
        typer.Option(
            help="a result.json from elsewhere: seeds of the same rows are not trained again", rich_help_panel=FILES
        ),
    ] = None,
    data: DataOption = None,
    out: OutOption = Path("runs"),
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    on: OnOption = None,
    at_once: AtOnceOption = None,
    json: JsonOption = False,
) -> None:
    """Run a published table or figure and print published, ours and the difference.

    A seed that was trained for one table is not trained again for another. On a GPU, --set dtype=bf16 is faster.

    Several machines can share one table: give the result.json of one to the next with --known. FILE.json, a saved
    table, is not trained: a page with its verdicts is written beside it.
    """
    if what.lower() == "list" or what.endswith(".json"):
        if rows is not None or seeds or quick or show or steps or known:
            raise GradcastError("gradcast reproduce list takes --out, --set and --json; name an ID for the rest")
        _of_no_experiment(what, out, settings or [], json=json)
        return
    chosen, changes = row_names(rows), settings or []
    if steps is not None:
        if quick:
            raise GradcastError("--quick has a number of steps of its own; leave it or --steps out")
        changes = [*changes, *course_settings(load(what), steps, changes)]
    wanted = request(what, out=out, rows=chosen, seeds=seeds, quick=quick, settings=changes, saved=known)
    check_known(wanted)
    if wanted.unknown:
        warn([f"{known} has {', '.join(wanted.unknown)} with other settings or seeds, which are of no use here"])
    failed: dict[str, str] = {}
    if not show:
        folder = data_folder(data)
        warn(check_data(wanted, folder))
        choose_threads(threads, device, elsewhere=on is not None)
        keep_freed_memory()
        with ProgressDisplay(Console(stderr=True)) as display:
            cluster = None if on is None else Cluster(on, threads, at_once)
            keep = partial(_keep, wanted)
            failed = train(wanted, data=folder, device=device, display=display, cluster=cluster, trained=keep)
    printed = show and not json and _print_measured(Console(), wanted, chosen)
    found = outcome(wanted, failed)
    if printed and not any(line.ours for line in found):
        Console().print(
            f"nothing yet; gradcast reproduce {wanted.experiment.header.id} trains the rows", soft_wrap=True
        )
        return
    _conclude(wanted, found, chosen, json=json, show=show)


def _keep(wanted: Request, failed: dict[str, str]) -> None:
    """Save the table as far as it is: what stops the command leaves its finished rows."""
    found = outcome(wanted, failed)
    if not unsaved(wanted, found):
        with table_lock(wanted):
            save(wanted, found)


def _conclude(wanted: Request, found: list[Line], chosen: list[str], *, json: bool, show: bool) -> None:
    """Save the table with its figure and views, and print it; where it is only shown, a saved one may stay."""
    groups, lost, laid_out = clouds(wanted, found), unsaved(wanted, found), False
    if lost and not show:
        complain(
            f"{wanted.folder / RESULT} has seeds of {', '.join(lost)} that are not here, so it is left as it is; "
            "hand it over with --known, or choose another --out"
        )
    if not lost:
        with table_lock(wanted):
            save(wanted, found, groups)
            draw(wanted, found, groups)
            laid_out = bool(lay_out(wanted, found))
    asked = [line for line in found if not chosen or line.item.name in chosen]
    if json:
        facts = {"id": wanted.experiment.header.id, "quick": wanted.quick, "rows": [line.as_dict() for line in asked]}
        typer.echo(to_json(facts | ({"correlations": as_dict(groups)} if groups else {})), nl=False)
    else:
        _print(Console(), wanted, asked, groups)
        if not lost:
            place = escape(str(wanted.folder))
            page = f" (a page of them: gradcast report {place})" if laid_out else ""
            Console().print(f"Results: {place}{page}", soft_wrap=True)
    reasons = dict.fromkeys(line.state for line in asked if line.state.startswith(FAILED))
    for reason in reasons:
        complain(reason.removeprefix(f"{FAILED}: "))
    if reasons or (lost and not show):
        raise typer.Exit(BAD_INPUT)


def _of_no_experiment(what: str, out: Path, settings: list[str], *, json: bool) -> None:
    """The list of all of them, or the page of a saved table."""
    if what.endswith(".json"):
        typer.echo(render(Path(what)))
    else:
        print_list(out, settings, json=json)


def _print_measured(console: Console, wanted: Request, chosen: list[str]) -> bool:
    """The tables that come with the package, their figures, and where they were measured; whether there is one."""
    found = courses(wanted.experiment.header.id)
    for before in found:
        _print_saved(console, before, wanted, chosen)
    if found:
        console.print("\n[bold]Trained here:", highlight=False)
    return bool(found)


def _print_saved(console: Console, before: Saved, wanted: Request, chosen: list[str]) -> None:
    """One of them, of all rows or those asked for."""
    asked = [line for line in before.lines if not chosen or line.item.name in chosen]
    known, missing = [line for line in asked if line.ours], [line.item.label for line in asked if not line.ours]
    groups = clouds(before.wanted, before.lines)
    console.print("[bold]Comes with gradcast:", highlight=False)
    _print(console, before.wanted, known or asked, groups)
    if known and missing:
        names = f": {', '.join(missing)}" if len(missing) <= FEW else ""
        console.print(f"Rows without numbers: {len(missing)} of {len(asked)}{escape(names)}", soft_wrap=True)
    console.print(f"[dim]{escape(places(before.origins))}", soft_wrap=True)
    with table_lock(wanted):
        for picture in draw(before.wanted, before.lines, groups, wanted.folder / MEASURED):
            console.print(f"Drawn: {escape(str(picture))}", soft_wrap=True)


def _print(console: Console, wanted: Request, found: list[Line], groups: Clouds) -> None:
    console.print(f"[bold]{escape(heading(wanted))}", soft_wrap=True)
    console.print(f"[dim]{escape(about(wanted))}")
    console.print(_table(wanted, found))
    for line in found:
        if line.ours and line.state:
            console.print(f"[yellow]note:[/] {escape(f'{line.item.label}: {line.state}')}", soft_wrap=True)
        if line.paired is not None:
            base = wanted.experiment.item(line.item.against).label
            console.print(escape(f"{line.item.label} against {base}: {line.paired.verdict}"), soft_wrap=True)
    for note in [*notes(wanted, found), *in_words(groups)]:
        console.print(escape(note), soft_wrap=True)


def _table(wanted: Request, found: list[Line]) -> Table:
    """Published and ours side by side; the gain only where rows are compared."""
    table, published = Table(box=SIMPLE_HEAD, padding=(0, 0, 0, 1)), wanted.experiment.published
    table.add_column("", overflow="fold")
    measure = next((name for line in found for name in line.item.published or {}), "acc")  # the published one
    published_too = {name for line in found for name in line.item.published or {}}
    measures = [measure, *([UNKNOWN] if wanted.experiment.header.task == "both" else [])]
    measures += [name for name in (DEVIATION, PER_IMAGE) if name in published_too]
    titles = [title for name in measures for title in ("\npubl.", f"{_broken(TITLES[name])}\nours")]
    compared = any(item.against for item in wanted.experiment.items)
    titles += ["\npubl.", "gain\nours"] * compared
    titles = titles if published else [title.removesuffix("\nours") for title in titles[1::2]]
    judged = any(line.noise for line in found)
    for title in [*titles, *(["publ. gain\nin noise of"] * judged)]:
        table.add_column(title, justify="right", no_wrap=True)
    for line in found:
        cells = [cell for name in measures for cell in _both(line, name)]
        if measure not in line.ours:
            cells[1] = "[dim]" + line.state.partition(":")[0]
        elif compared:
            cells += [gain(line), difference(line)]
        cells = cells if published else cells[1::2]
        table.add_row(escape(label(line, wanted)), *cells, *([NOISE.get(line.noise or "", "")] * bool(line.noise)))
    return table


def _both(line: Line, measure: str) -> tuple[str, str]:
    """A measure as it was published, and ours."""
    digits = DIGITS[measure]
    published = f"{line.published[measure]:.{digits}f}" if measure in line.published else ""
    return published, number(line.ours[measure], digits=digits) if measure in line.ours else unknown(line, measure)


def _broken(title: str) -> str:
    """A long title in two lines, for narrow terminals."""
    return title.replace(", ", ",\n")
