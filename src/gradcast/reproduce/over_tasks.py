"""Figures of what happens task by task: a column a host, a strip a number."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gradcast.reproduce.cells import ROW, Cell, content
from gradcast.reproduce.columns import columns
from gradcast.reproduce.outcome import Line
from gradcast.reproduce.reproduce import Request
from gradcast.reproduce.rows import results
from gradcast.results.figures.curves import Curve
from gradcast.results.figures.grids import Strip, curve_grid
from gradcast.results.report.progress import over_all_tasks, over_seen_tasks
from gradcast.results.result import COURSES, Courses, courses
from gradcast.signals.pseudo_labels import PseudoLabelsSpec

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Number:
    """What a strip shows: one number in solid lines, perhaps another of the same kind in dashed ones."""

    title: str
    solid: str
    dashed: str = ""
    words: str = ""  # that tell the dashed ones
    logarithmic: bool = False


STREAM = (
    Number("training loss", "loss"),
    Number("mean accuracy (%)\nover tasks seen; dashed: all", "seen", "all", "all tasks"),
    Number("CE − fitness loss / λ", "gain", logarithmic=True),  # the losses themselves are the same to the eye
    Number("cosine of h(z) and\nthe true logit gradient", "cosine"),
)
LABELS = (
    Number("cosine to the true\nlogit gradient", "cosine"),
    Number("accuracy of\npseudo labels (%)", "label_accuracy"),
)


def over_tasks(wanted: Request, found: Sequence[Line], numbers: Sequence[Number], base: str) -> "Figure | None":
    """All hosts that were run; None where nothing can be shown. ``base`` is what rows compared with none are called."""
    titles: list[str] = []
    sides: list[list[tuple[str, Courses]]] = []
    for column in columns(found, base):
        side = [(called + _among(wanted, line), values(wanted, line)) for called, line in column.lines.items()]
        if any(number.solid in own for number in numbers for _, own in side):
            titles.append(column.title)
            sides.append(side)
    labels = list(dict.fromkeys(label for side in sides for label, _ in side))
    strips = [
        Strip(number.title, [_panel(number, side, labels) for side in sides], number.logarithmic) for number in numbers
    ]
    strips = [strip for strip in strips if not strip.empty]
    return curve_grid(titles, strips) if strips else None


def values(wanted: Request, line: Line) -> Courses:
    """Every number of a row, seed by seed and task by task: of steps their mean, of accuracies those after the task."""
    setting, rows = line.item.setting, results(wanted, [line], steps=False)
    if setting is None or not rows:  # known from elsewhere: there are no steps
        return {}
    (row,) = rows
    places = Cell(setting, wanted.dtype).places(wanted.cells)
    logs = [places[seed].metrics(ROW, seed, setting.stream.task_count) for seed in row.seeds]
    return courses(setting, logs, ("loss", "gain", *COURSES)) | {
        "seen": np.stack([over_seen_tasks(matrix) for matrix in row.matrices]),
        "all": np.stack([over_all_tasks(matrix) for matrix in row.matrices]),
    }


def _among(wanted: Request, line: Line) -> str:
    """How many classes m a pseudo label is chosen among: accuracies mean little without it."""
    setting = line.item.setting
    labelling = [] if setting is None else [own for own in setting.signals if isinstance(own, PseudoLabelsSpec)]
    if setting is None or not labelling:
        return ""
    places = Cell(setting, wanted.dtype).directories(wanted.cells)
    if not places:
        return ""
    fewest = int(str(content(places[0])["classes_per_task"]))
    most = fewest * setting.stream.task_count if labelling[0].outputs == "seen" else fewest
    return f" (m = {fewest})" if most == fewest else f" (m = {fewest} to {most})"


def _panel(number: Number, side: Sequence[tuple[str, Courses]], labels: Sequence[str]) -> list[Curve]:
    """A row has the same colour in all columns."""
    kinds = [(number.solid, "", False), (number.dashed, f", {number.words}", True)]
    return [
        Curve(label + words, labels.index(label), own[name], dashed=dashed)
        for name, words, dashed in kinds
        for label, own in side
        if name in own
    ]
