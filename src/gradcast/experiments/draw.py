"""The pictures of an experiment, by its kind."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gradcast.experiments.cells import ROW, Cell
from gradcast.experiments.experiment import Kind
from gradcast.experiments.outcome import Line
from gradcast.experiments.reproduce import QUICK_LOOK, Request
from gradcast.figures.curves import Curve, courses, curve_panels
from gradcast.figures.matrices import accuracy_matrices, difference, difference_matrix
from gradcast.figures.scatter import Cloud, scatter_panels
from gradcast.figures.style import save_png, svg
from gradcast.figures.sweeps import Sweep, sweep_panels
from gradcast.report.progress import over_seen_tasks
from gradcast.result import COURSES, RowResult, course
from gradcast.store import write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Pictures = dict[str, "Figure"]


def draw(wanted: Request, found: Sequence[Line]) -> list[Path]:
    """Every picture that the rows trained so far allow, as PNG and SVG in the experiment's folder."""
    made = KINDS[wanted.experiment.header.kind](wanted, found)
    for name, figure in made.items():
        if wanted.quick:
            figure.suptitle(QUICK_LOOK, x=0.99, ha="right", fontsize=8)
        save_png(figure, wanted.folder / f"{name}.png")
        write_text(wanted.folder / f"{name}.svg", svg(figure))
    return [wanted.folder / f"{name}.png" for name in made]


def results(wanted: Request, found: Sequence[Line], *, steps: bool) -> list[RowResult]:
    """Each row trained here with its seeds put together, in the order of the table."""
    rows = [
        (line, Cell(line.item.setting, wanted.dtype).results(wanted.cells, steps=steps))
        for line in found
        if line.ours and line.item.setting is not None
    ]
    return [merged(line, wanted.seeds, parts) for line, parts in rows if set(parts) & set(wanted.seeds)]


def merged(line: Line, seeds: Sequence[int], parts: Mapping[int, tuple[object, RowResult]]) -> RowResult:
    """One result out of those its seeds are part of."""
    own = [(parts[seed][1], parts[seed][1].seeds.index(seed)) for seed in seeds if seed in parts]
    shared = [name for name in COURSES if all(name in part.courses for part, _ in own)]
    return RowResult(
        name=line.item.name,
        label=line.item.label,
        seeds=[seed for seed in seeds if seed in parts],
        matrices=np.stack([part.matrices[place] for part, place in own]),
        measures=[part.measures[place] for part, place in own],
        diagnostics={},
        courses={name: np.stack([part.courses[name][place] for part, place in own]) for name in shared},
        paired=line.paired,
    )


def _nothing(wanted: Request, found: Sequence[Line]) -> Pictures:
    return {}


def _sweeps(wanted: Request, found: Sequence[Line]) -> Pictures:
    by_name = {line.item.name: line for line in found}
    groups = list(dict.fromkeys(line.item.sweep for line in found if line.item.sweep))
    drawn = []
    for group in groups:
        lines = [line for line in found if line.item.sweep == group]
        base = by_name.get(lines[0].item.against)
        values = [line.item.name.removeprefix(f"{group}-") for line in lines]
        drawn.append(Sweep(group, values, [line.ours for line in lines], base.ours if base else None))
    return {"figure": sweep_panels(drawn)} if any(line.ours for line in found if line.item.sweep) else {}


def _matrices(wanted: Request, found: Sequence[Line]) -> Pictures:
    rows = {row.name: row for row in results(wanted, found, steps=False)}
    pictures = {"figure": accuracy_matrices(list(rows.values()))} if rows else {}
    for line in found:
        variant, base = rows.get(line.item.name), rows.get(line.item.against)
        if variant is not None and base is not None and variant.seeds == base.seeds:
            limit = float(np.abs(difference(variant, base)).max())
            pictures[f"difference-{line.item.name}"] = difference_matrix(variant, base, max(limit, 0.1))
    return pictures


def _curves(wanted: Request, found: Sequence[Line]) -> Pictures:
    """Losses and cosines from the steps, accuracies from the matrices."""
    rows = results(wanted, found, steps=False)
    if not rows:
        return {}
    items = {line.item.name: line.item for line in found}
    numbers: dict[str, list[Curve]] = {"loss": [], "acc": [], "gain": [], "cosine": []}
    for place, row in enumerate(rows):
        setting = items[row.name].setting
        assert setting is not None
        lying = Cell(setting, wanted.dtype).results(wanted.cells)
        tasks = row.matrices.shape[2]
        lines = [lying[seed][0].metrics(ROW, seed, tasks) for seed in row.seeds]
        for name in ("loss", "gain", "cosine"):
            values = np.stack([course(own, name, tasks) for own in lines])
            if not np.isnan(values).all():
                numbers[name].append(Curve(row.label, place, values))
        numbers["acc"].append(Curve(row.label, place, np.stack([over_seen_tasks(own) for own in row.matrices])))
    titles = {
        "loss": "training loss",
        "acc": "mean accuracy over tasks seen (%)",
        "gain": "what the predicted step would gain in loss",
        "cosine": COURSES["cosine"],
    }
    return {"figure": curve_panels([(titles[name], curves) for name, curves in numbers.items() if curves])}


def _courses(wanted: Request, found: Sequence[Line]) -> Pictures:
    rows = results(wanted, found, steps=True)
    panels = [(COURSES[name], courses(rows, name)) for name in ("cosine", "label_accuracy")]
    panels = [(title, curves) for title, curves in panels if curves]
    return {"figure": curve_panels(panels)} if panels else {}


def _scatter(wanted: Request, found: Sequence[Line]) -> Pictures:
    clouds: dict[str, list[Cloud]] = {"pseudo labels": [], "predicted gradients": []}
    for row in results(wanted, found, steps=True):
        if "cosine" in row.courses:
            group = "pseudo labels" if "label_accuracy" in row.courses else "predicted gradients"
            clouds[group].append(Cloud(row.label, np.nanmean(row.courses["cosine"], 1).tolist(), row.acc()))
    if not any(clouds.values()):
        return {}
    return {"figure": scatter_panels(list(clouds.items()), "mean cosine to the true gradient", "ACC (%)")}


KINDS: dict[Kind, Callable[[Request, Sequence[Line]], Pictures]] = {
    "table": _nothing,
    "sweeps": _sweeps,
    "curves": _curves,
    "courses": _courses,
    "scatter": _scatter,
    "matrices": _matrices,
}
