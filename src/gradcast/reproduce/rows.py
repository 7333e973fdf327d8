"""Rows trained here, each with its seeds put together from wherever they lie."""

from collections.abc import Mapping, Sequence

import numpy as np

from gradcast.reproduce.cells import Cell
from gradcast.reproduce.outcome import Line
from gradcast.reproduce.reproduce import Request
from gradcast.results.result import COURSES, RowResult


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
