"""``gradcast data``: what is known and found, is it whole, fetch it, look at it."""

from pathlib import Path
from typing import Annotated, Literal, get_args

import torch
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from gradcast.cli.console import ProgressDisplay
from gradcast.cli.options import DataOption, SetOption, data_folder
from gradcast.data.cache import Cache, Entry, default_cache
from gradcast.data.catalogue import Dataset
from gradcast.data.check import check as check_dataset
from gradcast.data.check import own_folder
from gradcast.data.check_tasks import check_tasks
from gradcast.data.extract import extract
from gradcast.data.fetch import download
from gradcast.data.load import Shelf
from gradcast.data.registry import DATASETS
from gradcast.data.sheet import contact_sheet
from gradcast.devices import Place
from gradcast.errors import GradcastError, printable
from gradcast.head_start.store import NAME as HEAD_START
from gradcast.head_start.store import TOLD
from gradcast.runs.jsontext import parse_json
from gradcast.specs import build, build_stream
from gradcast.specs import text as specfile
from gradcast.specs.spec import Setting, Spec
from gradcast.specs.table import nearest

app = typer.Typer(name="data", no_args_is_help=True, help="Datasets: list, check, fetch, show, and the cache.")
CacheKind = Literal["images", "head-starts"]


@app.command("list")
def list_datasets(data: DataOption = None) -> None:
    """List every dataset that gradcast knows, and where it was found."""
    folder = data_folder(data)
    table = Table(box=SIMPLE_HEAD)
    for heading in ("name", "what", "found", "licence"):
        table.add_column(heading, overflow="fold")
    for dataset in DATASETS.values():
        paths = dataset.find(folder)
        found = f"{_place(paths)}, {_size(paths)}" if paths else "[dim]no"
        table.add_row(f"[bold]{dataset.name}", dataset.title, found, dataset.licence)
    table.add_row("[bold]digits", "1,797 handwritten digits of 8x8, grey", "embedded", "BSD (scikit-learn)")
    table.add_row("[bold]patches", "crops of two photographs, a pool", "embedded", "CC BY 2.0 (scikit-learn)")
    table.add_row("[bold]grey, pixels", "images of one grey, of random pixels; pools to compare with", "made", "")
    console = Console()
    console.print(f"Data folder: {folder.resolve()}", soft_wrap=True)
    console.print(table)
    console.print("gradcast data fetch NAME downloads a dataset, where its publisher allows it.")
    console.print("Your own images: stream.source = folder, npz or tasks, with stream.path;")
    console.print("without labels: pool.name = folder, with pool.path.")


@app.command()
def check(
    name: Annotated[str, typer.Argument(help="a dataset, or 'folder' or 'tasks' for your own")],
    data: DataOption = None,
    path: Annotated[str, typer.Option(help="your folder or zip archive of images, or folder of tasks")] = "",
) -> None:
    """Verify a dataset: completeness, counts a class, checksums where published, every bad file by name.

    Exit code 1 when there are problems; an incomplete dataset that can be used is not one.
    """
    if (name in ("folder", "tasks")) != bool(path):
        raise GradcastError("--path belongs to the names 'folder' and 'tasks': gradcast data check folder --path DIR")
    with ProgressDisplay(Console(stderr=True)) as display:
        shelf = Shelf(data_folder(data), Cache(default_cache()), display.track)
        if name == "tasks":
            found = check_tasks(shelf.find(path, "--path"), shelf)
        else:
            found = check_dataset(own_folder(shelf.find(path, "--path")) if path else _dataset(name), shelf)
    problems = found.unreadable + found.problems
    for kind, sentences in (("", found.facts), ("note: ", found.notes), ("problem: ", problems)):
        for sentence in sentences:
            typer.echo(f"{name}: {kind}{printable(sentence)}")
    typer.echo(f"{name}: {found.verdict}")
    if problems:
        raise typer.Exit(1)


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="of the dataset, as gradcast data list has it")], data: DataOption = None
) -> None:
    """Download a dataset from its publisher, verify it and unpack it; an interrupted download goes on where it was."""
    dataset, folder = _dataset(name), data_folder(data)
    if not dataset.downloads:
        raise GradcastError(
            f"{name} has no direct download: get it from {dataset.home} and lay it out as {dataset.layout}"
        )
    target = folder if any(item.unpack for item in dataset.downloads) else folder / name
    target.mkdir(parents=True, exist_ok=True)
    with ProgressDisplay(Console(stderr=True)) as display:
        for item in dataset.downloads:
            archive = download(item, target, progress=display.transfer(item.file))
            if item.unpack:
                extract(archive, target)
    typer.echo(f"{name} is in {_place(dataset.find(folder))} ({dataset.licence})")


@app.command()
def show(
    what: Annotated[str, typer.Argument(metavar="NAME", help="a dataset, or a preset or specification file")],
    settings: SetOption = None,
    data: DataOption = None,
    out: Annotated[Path, typer.Option(help="the picture to write")] = Path("contact-sheet.png"),
) -> None:
    """Draw a contact sheet: samples of the tasks and of the pool as the model will see them."""
    spec = _sheet_spec(what, settings or [])
    setting = next((row.setting for row in spec.rows if row.setting.signals), spec.rows[0].setting)
    with ProgressDisplay(Console(stderr=True)) as display:
        shelf = Shelf(data_folder(data), Cache(default_cache()), display.track)
        draw_sheet(setting, shelf, out)
    typer.echo(f"wrote {out}")


@app.command()
def cache(
    action: Annotated[
        Literal["check"] | None, typer.Argument(help="check: compare every byte with what was written")
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", metavar="", help="delete what is shown")] = False,
    only: Annotated[CacheKind | None, typer.Option(help="decoded images, or head starts alone")] = None,
) -> None:
    """Show the cache of decoded images and of head starts and its size, check it, or empty it.

    Damaged entries are named and deleted, exit code 1: they are made again when needed.
    """
    store, shown = Cache(default_cache()), list[Entry]()
    if action == "check":
        _check_cache(store)
        return
    for kind in get_args(CacheKind) if only is None else (only,):
        found = [entry for entry in store.entries() if (entry.name == HEAD_START) == (kind == "head-starts")]
        if found:
            typer.echo(f"{kind.replace('-', ' ')}:")
        for entry in found:
            typer.echo(f"{entry.size / 2**20:9.1f} MB  {entry.path.name}{_of_head_start(entry)}")
        shown += found
    typer.echo(f"{sum(entry.size for entry in shown) / 2**20:9.1f} MB  in {store.root}")
    if clear:
        typer.echo(f"freed {store.clear(shown) / 2**20:.1f} MB")


def _check_cache(store: Cache) -> None:
    entries, damaged = store.entries(), list[Entry]()
    with ProgressDisplay(Console(stderr=True)) as display:
        for entry in display.track(entries, "reading the cache", len(entries)):
            fault = entry.fault()
            if fault is not None:
                damaged.append(entry)
                typer.echo(f"{entry.path}: {printable(fault)}")
    store.clear(damaged)
    typer.echo(f"{len(entries) - len(damaged)} of {len(entries)} entries are as they were written")
    if damaged:
        typer.echo(f"deleted {len(damaged)}; they are made again when needed")
        raise typer.Exit(1)


def _of_head_start(entry: Entry) -> str:
    """How long one is and whose, where its file says so."""
    told = entry.path / TOLD
    try:
        facts = parse_json(told.read_text(encoding="utf-8")) if told.is_file() else None
    except (OSError, ValueError):
        return "  damaged"
    return f"  {facts['steps']} steps, seed {facts['seed']}" if isinstance(facts, dict) and "seed" in facts else ""


def draw_sheet(setting: Setting, shelf: Shelf, out: Path) -> None:
    """The contact sheet of a setting's stream and pool."""
    place = Place(torch.device("cpu"), torch.float32)
    stream = build_stream.stream(setting.stream, shelf)
    pools = [build.pool(own, stream, shelf, place, data_seed=setting.stream.data_seed) for own in setting.pool]
    contact_sheet(stream, pools, out)


def _sheet_spec(what: str, settings: list[str]) -> Spec:
    """A preset or file as it is; a dataset as a stream split into tasks, or as a pool beside the embedded digits."""
    if what not in DATASETS:
        return specfile.load(what, settings)
    dataset = DATASETS[what]
    if dataset.labelled and dataset.pool is None:
        classes = dataset.expected[2] if dataset.expected else 10
        own = [
            f"stream.source={what}",
            "stream.scenario=split",
            f"stream.tasks={max(classes // 5, 1)}",
            "stream.samples=all",
        ]
    else:
        own = [f"pool.name={what}", "stream.colour=rgb", "stream.size=32"]
    return specfile.load("digits", [*own, *settings])


def _dataset(name: str) -> Dataset:
    if name not in DATASETS:
        raise GradcastError(f"there is no dataset {name!r}{nearest(name, DATASETS)}")
    return DATASETS[name]


def _place(paths: list[Path]) -> str:
    return str(paths[0] if len(paths) == 1 else paths[0].parent)


def _size(paths: list[Path]) -> str:
    files = [file for path in paths for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file()]
    return f"{sum(file.stat().st_size for file in files) / 2**20:,.0f} MB"
