"""Trained settings, found again by what they are: a row that several tables share is trained once.

A cell is a setting and an arithmetic; its seeds lie in one run directory or several, each of one row. Seeds are put
together only where they saw the same data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gradcast.devices import Arithmetic
from gradcast.results.result import RowResult, read
from gradcast.results.sizes import H_PARAMETERS, POOL_IMAGES
from gradcast.runs.cell_key import digest, in_a_word, used_tables
from gradcast.runs.directory import RunDirectory
from gradcast.runs.prepared import Display
from gradcast.runs.run import complete, run
from gradcast.specs.spec import Row, Setting, Spec, describe

ROW = "row"


@dataclass(frozen=True)
class Cell:
    """One setting, to be trained for some seeds."""

    setting: Setting
    dtype: Arithmetic = "float32"

    @property
    def name(self) -> str:
        """What it is in a word, and a hash of what decides the result."""
        return f"{in_a_word(self.setting)}-{digest([used_tables(self.setting), self.dtype])}"

    def spec(self, seeds: Sequence[int], title: str = "") -> Spec:
        """A run of nothing else."""
        row = Row(name=ROW, label=describe(self.setting), setting=self.setting)
        return Spec(name=self.name, title=title, seeds=list(seeds), dtype=self.dtype, rows=[row])

    def directories(self, out: Path) -> list[RunDirectory]:
        """Finished ones that saw the same data, newest first; those that saw others are left out."""
        places = [RunDirectory(path) for path in sorted(out.glob(f"{self.name}-????????")) if path.is_dir()]
        finished = [place for place in places if place.finished(ROW)]
        finished.sort(key=lambda place: (place.path / ROW / "env.json").stat().st_mtime, reverse=True)
        newest = content(finished[0]) if finished else {}
        return [place for place in finished if content(place) == newest]

    def places(self, out: Path) -> dict[int, RunDirectory]:
        """Where each trained seed lies, those that diverged too."""
        newest_last = reversed(self.directories(out))
        return {seed: place for place in newest_last for seed in place.spec.seeds}

    def results(self, out: Path, *, steps: bool = False) -> dict[int, tuple[RunDirectory, RowResult]]:
        """Each trained seed's directory and result; with ``steps``, what its signal did as well."""
        places = self.places(out)
        found = {place: read(place, steps=steps)[0] for place in dict.fromkeys(places.values())}
        return {seed: (place, found[place]) for seed, place in places.items() if seed in found[place].seeds}

    def diverged(self, out: Path) -> dict[int, str]:
        """Seeds whose training diverged, with the reason."""
        places = self.places(out).items()
        return {seed: told[seed] for seed, place in places if seed in (told := place.diverged(ROW))}

    def failure(self, out: Path) -> str:
        """Why no seed was trained to its end, where all of them diverged; empty otherwise."""
        places = [RunDirectory(path) for path in sorted(out.glob(f"{self.name}-????????")) if path.is_dir()]
        reasons = [reason for place in places if not place.finished(ROW) for reason in place.diverged(ROW).values()]
        return f"diverged: {reasons[0]}" if reasons else ""

    def seeds(self, out: Path) -> set[int]:
        """Seeds that are trained."""
        return set(self.places(out))

    def data(self, out: Path) -> str:
        """A digest of all that its trained seeds saw; empty where there are none."""
        places = self.directories(out)
        return digest(content(places[0])) if places else ""

    def train(
        self,
        seeds: Sequence[int],
        out: Path,
        data: Path | None,
        device: str,
        display: Display | None,
        title: str = "",
        *,
        store: Path | None = None,
        elsewhere: Mapping[str, str] | None = None,
    ) -> None:
        """The seeds that are missing; ``title`` is what their reports are headed, ``store`` where others may be.

        Where cells were trained ``elsewhere``, nothing is trained here; it has a sentence for each that failed.

        A run that was killed between its last step and its report is completed first.
        """
        for place in self.directories(out):
            complete(place)
        spec, reuse = self.missing(seeds, out, title), store is not None
        if spec is not None:
            run(
                spec,
                out=out,
                data=data,
                device=device,
                display=display,
                store=store,
                reuse=reuse,
                elsewhere=elsewhere,
            )

    def missing(self, seeds: Sequence[int], out: Path, title: str = "") -> Spec | None:
        """A run of the seeds that are not there yet; None where all are."""
        left = sorted(set(seeds) - self.seeds(out))
        return self.spec(left, title) if left else None


def content(place: RunDirectory) -> dict[str, object]:
    """What was drawn to make its stream, and digests of all data, weights and code of others."""
    shown = ("classes", "images_per_class", POOL_IMAGES, H_PARAMETERS)  # to a person; digests decide what they do
    return {name: value for name, value in place.drawn(ROW).items() if name not in shown}
