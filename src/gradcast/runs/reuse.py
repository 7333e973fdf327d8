"""Seeds of a row that some run has trained already: found in the store, put in their place, and handed on to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gradcast.errors import GradcastError
from gradcast.results.stored import RATIO, mean_ratio
from gradcast.runs import manifest
from gradcast.runs.cell_key import ON_NAN, CellKey
from gradcast.runs.directory import UNDONE, RunDirectory
from gradcast.runs.jsontext import parse_json
from gradcast.runs.seed_store import SeedStore, TrainedSeed

REUSED, CELL = "reused", "cell"  # keys of env.json
OF_THE_ROW = (REUSED, UNDONE, RATIO)  # keys of env.json that belong to all seeds of a row, not to one training


@dataclass(frozen=True)
class Reuse:
    """What the store has of a row; without a store nothing."""

    key: CellKey
    store: SeedStore | None
    found: Mapping[int, TrainedSeed] = field(default_factory=dict)

    @classmethod
    def of(cls, store: SeedStore | None, key: CellKey, seeds: Sequence[int], *, fresh: bool = False) -> "Reuse":
        """All seeds that are there; none where everything is trained again."""
        if store is None or fresh:
            return cls(key, store)
        each = {seed: store.find(key, seed) for seed in seeds}
        return cls(key, store, {seed: own for seed, own in each.items() if own is not None})

    @property
    def diverged(self) -> dict[int, str]:
        """Seeds that are known to diverge, with the reason."""
        return {seed: own.diverged for seed, own in self.found.items() if own.diverged}

    @property
    def trained(self) -> dict[int, TrainedSeed]:
        """Seeds that were trained to their end."""
        return {seed: own for seed, own in self.found.items() if not own.diverged}

    def put_in_place(self, directory: RunDirectory, row: str) -> manifest.Entries:
        """The files of these seeds in a row's folder; what the row's manifest says of them."""
        entries: manifest.Entries = {}
        for seed, own in self.trained.items():
            assert self.store is not None
            first = seed == directory.spec.seeds[0]
            linked = self.store.link(self.key, own, directory.seed(row, seed), first=first)
            entries |= {f"seed-{seed}/{name}": entry for name, entry in linked.items()}
        return entries

    def finish(
        self,
        directory: RunDirectory,
        row: str,
        told: Mapping[str, object] | None,
        files: manifest.Entries,
        undone: Mapping[int, float],
    ) -> None:
        """Say where the row's seeds were trained, and mark it as complete.

        ``told`` are facts of the training of those that the store did not have; None where it had all.
        """
        found = {**files, **self.put_in_place(directory, row)}
        entries = {name: found[name] for name in manifest.seed_files(directory.spec.seeds) if name in found}
        base = dict(told if told is not None else next(iter(self.trained.values())).origin)
        facts = {**base, CELL: self.key.name}
        elsewhere = [own for own in self.trained.values() if told is not None or own.origin != base]
        if elsewhere:
            facts[REUSED] = [{"seed": own.seed, **_origin(own.origin)} for own in elsewhere]
        shares = {**undone, **{seed: own.undone for seed, own in self.trained.items()}}
        if any(shares.values()):
            facts[UNDONE] = {str(seed): share for seed, share in sorted(shares.items()) if share}
        present = [seed for seed in directory.spec.seeds if f"seed-{seed}/{manifest.ACCURACY}" in entries]
        facts[RATIO] = mean_ratio([directory.metrics(row, seed) for seed in present])
        directory.finish(row, facts, entries)

    def keep(self, directory: RunDirectory, row: str) -> None:
        """Hand on to the store what a finished row has and it lacks."""
        if self.store is None:
            return
        known, lost = self.store.seeds(self.key), directory.diverged(row)
        missing = [seed for seed in directory.spec.seeds if seed not in known]
        if not missing:
            return
        facts, undone = _facts(directory, row), directory.undone(row)
        origin = {name: value for name, value in facts.items() if name not in OF_THE_ROW}
        for seed in missing:
            files, share, reason = _entries(directory, row, seed), undone.get(seed, 0.0), lost.get(seed, "")
            undone_by_choice = not share or ON_NAN in self.key.facts  # of another cell otherwise
            if (reason or manifest.ACCURACY in files) and undone_by_choice:
                own = TrainedSeed(seed=seed, origin=origin, undone=share, diverged=reason, files=files)
                self.store.keep(self.key, own, directory.seed(row, seed))


def _entries(directory: RunDirectory, row: str, seed: int) -> dict[str, manifest.Entry]:
    """The files of a seed of a finished row; rows that were finished before there were manifests are described now."""
    found = manifest.read_manifest(directory.path / row)
    names = manifest.seed_files([seed])
    files = manifest.describe(directory.path / row, names) if found is None else found.files
    return {name.partition("/")[2]: files[name] for name in names if name in files}


def _facts(directory: RunDirectory, row: str) -> dict[str, Any]:
    try:
        facts = parse_json(directory.read(row, "env.json"))
        if not isinstance(facts, dict):
            raise ValueError("it is no table")
    except (OSError, ValueError) as error:
        raise GradcastError(f"{directory.path / row / 'env.json'} cannot be read ({error}); delete the row") from None
    return facts


def _origin(facts: Mapping[str, Any]) -> dict[str, object]:
    """Device, version, day and commit of a training."""
    time, versions = facts.get("time", {}), facts.get("versions", {})
    return {
        "device": facts.get("device"),
        "torch": versions.get("torch"),
        "started": time.get("started"),
        "commit": facts.get("commit"),
    }
