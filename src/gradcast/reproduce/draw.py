"""The pictures of an experiment, by its kind."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gradcast.reproduce.correlations import Clouds
from gradcast.reproduce.experiment_tables import Kind
from gradcast.reproduce.outcome import Line
from gradcast.reproduce.over_tasks import LABELS, STREAM, over_tasks
from gradcast.reproduce.reproduce import Request
from gradcast.reproduce.rows import results
from gradcast.results.figures.matrices import accuracy_matrices, difference, difference_matrix
from gradcast.results.figures.scatter import scatter_panels
from gradcast.results.figures.style import save_png, stamp, svg
from gradcast.results.figures.sweeps import MEASURES, Base, Sweep, sweep_panels
from gradcast.results.quick import QUICK_LOOK
from gradcast.results.statistics import Interval
from gradcast.runs.safe_files import make_folder, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Pictures = dict[str, "Figure"]


def draw(wanted: Request, found: Sequence[Line], groups: Clouds, folder: Path | None = None) -> list[Path]:
    """Every picture that the rows allow, as PNG and SVG in this folder, or in the experiment's own.

    ``groups`` are those of a figure of points, which others print too.
    """
    place = wanted.folder if folder is None else folder
    made = _scatter(groups) if groups else KINDS[wanted.experiment.header.kind](wanted, found)
    if made:
        make_folder(place)
    for name, figure in made.items():
        stamp(figure, QUICK_LOOK if wanted.quick else "")
        save_png(figure, place / f"{name}.png")
        write_text(place / f"{name}.svg", svg(figure))
    return [place / f"{name}.png" for name in made]


def _nothing(wanted: Request, found: Sequence[Line]) -> Pictures:
    return {}


def _sweeps(wanted: Request, found: Sequence[Line]) -> Pictures:
    plots: dict[str, list[Sweep]] = {}
    for table in {line.item.sweep.name: line.item.sweep for line in found if line.item.sweep}.values():
        lines = [line for line in found if line.item.sweep == table]
        if not any(line.ours for line in lines):
            continue  # a curve without a point
        against = next((line.item.against for line in lines if line.item.against), "")
        base = next((_base(line) for line in found if line.item.name == against and line.trained), None)
        values = [line.item.value for line in lines]
        measures = [_with_gain(line) for line in lines]
        drawn = Sweep(values, measures, base, table.curve, logarithmic=table.logarithmic)
        plots.setdefault(table.plot or table.name, []).append(drawn)
    return {"figure": sweep_panels(plots, wanted.experiment.header.measures)} if plots else {}


def _with_gain(line: Line) -> Mapping[str, Interval]:
    return line.ours if line.paired is None else {**line.ours, "gain": line.paired.difference}


def _base(line: Line) -> Base:
    seeds = {} if line.trained is None else {name: line.trained.values(name) for name in MEASURES if name in line.ours}
    return Base(line.item.label, seeds | {"gain": [0.0]})


def _matrices(wanted: Request, found: Sequence[Line]) -> Pictures:
    rows = {row.name: row for row in results(found)}
    pictures = {"figure": accuracy_matrices(list(rows.values()))} if rows else {}
    for line in found:
        variant, base = rows.get(line.item.name), rows.get(line.item.against)
        if variant is not None and base is not None and variant.seeds == base.seeds:
            limit = float(np.abs(difference(variant, base)).max())
            pictures[f"difference-{line.item.name}"] = difference_matrix(variant, base, max(limit, 0.1))
    return pictures


def _curves(wanted: Request, found: Sequence[Line]) -> Pictures:
    figure = over_tasks(found, STREAM, base="base")
    return {} if figure is None else {"figure": figure}


def _courses(wanted: Request, found: Sequence[Line]) -> Pictures:
    figure = over_tasks(found, LABELS, base="classes of the task")
    return {} if figure is None else {"figure": figure}


def _scatter(groups: Clouds) -> Pictures:
    return {"figure": scatter_panels(list(groups.items()), "mean cosine to the true gradient", "ACC (%)")}


KINDS: dict[Kind, Callable[[Request, Sequence[Line]], Pictures]] = {
    "table": _nothing,
    "sweeps": _sweeps,
    "curves": _curves,
    "courses": _courses,
    "scatter": _nothing,  # without its points
    "matrices": _matrices,
}
