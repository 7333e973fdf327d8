"""Figures of what happens task by task: a column a host, a strip a number."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gradcast.reproduce.columns import columns
from gradcast.reproduce.outcome import Line
from gradcast.reproduce.rows import result
from gradcast.results.figures.curves import Curve
from gradcast.results.figures.grids import Strip, curve_grid
from gradcast.results.report.progress import over_all_tasks, over_seen_tasks
from gradcast.results.result import Courses
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


def over_tasks(found: Sequence[Line], numbers: Sequence[Number], base: str) -> "Figure | None":
    """All hosts that were run; None where nothing can be shown. ``base`` is what rows compared with none are called."""
    titles: list[str] = []
    sides: list[list[tuple[str, Courses]]] = []
    for column in columns(found, base):
        side = [(called + _among(line), values(line)) for called, line in column.lines.items()]
        side = [(called, own) for called, own in side if own]
        if any(number.solid in own for number in numbers for _, own in side):
            titles.append(column.title)
            sides.append(side)
    labels = list(dict.fromkeys(label for side in sides for label, _ in side))
    strips = [
        Strip(number.title, [_panel(number, side, labels) for side in sides], number.logarithmic) for number in numbers
    ]
    strips = [strip for strip in strips if not strip.empty]
    return curve_grid(titles, strips) if strips else None


def values(line: Line) -> Courses:
    """Every number of a row, seed by seed and task by task: of steps their mean, of accuracies those after the task."""
    row = result(line)
    if row is None:
        return {}
    return row.courses | {
        "seen": np.stack([over_seen_tasks(matrix) for matrix in row.matrices]),
        "all": np.stack([over_all_tasks(matrix) for matrix in row.matrices]),
    }


def _among(line: Line) -> str:
    """How many classes m a pseudo label is chosen among: accuracies mean little without it."""
    setting, fewest = line.item.setting, None if line.trained is None else line.trained.classes_per_task
    labelling = [] if setting is None else [own for own in setting.signals if isinstance(own, PseudoLabelsSpec)]
    if setting is None or fewest is None or not labelling:
        return ""
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
