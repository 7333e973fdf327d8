"""What a finished run says, as one object: its rows, their comparisons, and a table to look at."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gradcast.errors import GradcastError
from gradcast.results import result
from gradcast.results.comparison import Comparison
from gradcast.results.finished_rows import locate
from gradcast.results.report.words import verdicts
from gradcast.results.result import RowResult
from gradcast.results.summary_table import as_html, as_text
from gradcast.specs.table import nearest


@dataclass(frozen=True, eq=False, repr=False)
class RunResult:
    """The result of a run; ``directory, rows = result`` unpacks it.

    Attributes:
        directory: the run directory, with report.md, result.json, figures and the weights of every seed.
        rows: finished rows in the order of the specification; the first is the base.
    """

    directory: Path
    rows: list[RowResult]

    @classmethod
    def read(cls, directory: str | os.PathLike[str]) -> "RunResult":
        """The result of a run that was finished earlier."""
        named = locate(Path(directory))
        return cls(named.run.path, result.read(named.run))

    @property
    def seeds(self) -> list[int]:
        """The seeds, the same for all rows; a row may have no result of some, see its ``diverged``."""
        return sorted(self.rows[0].sample().seeds)

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """Every row against the first, seed by seed, with the verdicts of the report.

        Rows on another stream than the first are left out. A comparison has ``title``, ``difference`` (with ``mean``,
        ``low`` and ``high``), ``verdict``, ``seeds`` and ``paired``, which has the tests; ``unknown`` is the same
        without the task, where that was measured.
        """
        others = [own for own in self.rows if own.paired is not None]
        if not others:
            return []
        sides = {own.name: own for own in locate(self.directory).rows()[0]}
        base = sides[self.rows[0].name]
        return [
            Comparison(
                base, sides[own.name], own.seeds, own.paired, None if own.unknown is None else own.unknown.paired
            )
            for own in others
            if own.paired is not None
        ]

    def row(self, name: str) -> RowResult:
        """The row of this name."""
        names = [own.name for own in self.rows]
        if name not in names:
            raise GradcastError(f"there is no row {name!r} in {self.directory}{nearest(name, names)}")
        return self.rows[names.index(name)]

    def __iter__(self) -> Iterator[Path | list[RowResult]]:
        return iter((self.directory, self.rows))

    def __repr__(self) -> str:
        return f"{as_text(self.rows, verdicts(self.rows))}\n{self.directory}"

    def _repr_html_(self) -> str:
        """The table and the verdicts as HTML, for notebooks."""
        return str(as_html(self.rows, [*verdicts(self.rows), str(self.directory)]))
