"""Makes the head starts that nobody has made yet, as many seeds at once as memory holds, and gives them all."""

import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from gradcast.cluster.ranks import Ranks
from gradcast.devices import for_each_rank, free_memory
from gradcast.head_start.course import Course, features
from gradcast.head_start.pretraining import Pretraining
from gradcast.head_start.probe import Probe
from gradcast.head_start.store import HeadStart, Store
from gradcast.runs import environment
from gradcast.runs.checkpoint.keeper import Checkpoints, Safety
from gradcast.runs.checkpoint.stop import Stop
from gradcast.runs.safe_files import locked, make_folder
from gradcast.signals.registry import SIGNALS
from gradcast.specs import build
from gradcast.training.grouping import SHARE, activation_numbers
from gradcast.training.loop import Extent, Observer, Position

UNFINISHED = ".head-start-"  # how folders of unfinished ones begin
SHARED = 0  # the seed of a head start that all seeds share


@runtime_checkable
class Shown(Observer, Protocol):
    """Shows a group of seeds."""

    def begin(self, group: int, position: Position) -> None:
        """It begins, or goes on from there."""
        ...


Show = Callable[[str, Extent, int, Position | None], Shown]


@dataclass(frozen=True)
class Saving:
    """Where unfinished head starts are kept, how often, and who may ask to stop."""

    folder: Path
    safety: Safety
    stop: Stop


def head_starts(
    course: Course,
    seeds: Sequence[int],
    store: Store,
    *,
    probe: Callable[[Sequence[int]], Probe | None],
    show: Show | None = None,
    saving: Saving | None = None,
) -> list[HeadStart]:
    """One a seed, or the same for all; what another process is making is waited for, and not made twice."""
    wanted = [SHARED] if course.spec.shared else list(seeds)
    keys = dict(zip(wanted, course.keys(wanted), strict=True))
    ranks = course.place.ranks
    found = {seed: _stored(store, key, ranks) for seed, key in keys.items()}
    if None in found.values():
        lock = locked(store.cache.root / f"{UNFINISHED}{_digest(list(keys.values()))}.lock")
        with lock if ranks is None or ranks.first else nullcontext():  # the other ranks wait for the first one
            found = {seed: _stored(store, key, ranks) for seed, key in keys.items()}
            found |= _made(course, keys, found, store, probe=probe, show=show, saving=saving)
    whole = {seed: made for seed, made in found.items() if made is not None}
    return [whole[SHARED if course.spec.shared else seed] for seed in seeds]


def _made(
    course: Course,
    keys: Mapping[int, str],
    found: Mapping[int, HeadStart | None],
    store: Store,
    *,
    probe: Callable[[Sequence[int]], Probe | None],
    show: Show | None,
    saving: Saving | None,
) -> dict[int, HeadStart | None]:
    """Train the head starts that are missing."""
    ranks, missing = course.place.ranks, [seed for seed in keys if found[seed] is None]
    made_now: dict[int, HeadStart | None] = {}
    folder = None if saving is None else saving.folder / f"{UNFINISHED}{_digest(list(keys.values()))}"
    groups, shown = _groups(course, missing), list[Shown]()
    for index, group in enumerate(groups):
        made = course.prepare(group, probe(group))
        keeper = None if saving is None or folder is None else _keeper(made, folder, saving, course)
        position = None if keeper is None else keeper.position
        if show is not None and not shown:
            shown.append(show(_label(course, len(missing)), made.extent, len(groups), position))
        for observer in shown:
            observer.begin(index, position or Position())
        try:
            with nullcontext() if keeper is None else keeper.answering():
                made.run(shown, keeper)
        finally:
            if keeper is not None:
                keeper.close()
        for replica, seed in enumerate(group):
            weights = {name: rows[replica].clone() for name, rows in features(made.step.model).items()}
            if ranks is None or ranks.first:
                store.keep(keys[seed], weights, made.told(replica) | {"key": keys[seed], "seed": seed})
            made_now[seed] = _stored(store, keys[seed], ranks)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    return made_now


def _stored(store: Store, key: str, ranks: Ranks | None) -> HeadStart | None:
    """A head start that is there; of several ranks the first one looks."""
    return store.find(key) if ranks is None else ranks.from_first(lambda: store.find(key))


def stacked(made: Sequence[HeadStart]) -> dict[str, Tensor]:
    """Their weights, one row a replica."""
    return {name: torch.stack([each.weights[name] for each in made]) for name in made[0].weights}


class _NoLog:
    """A head start's numbers are in its checkpoint."""

    files: list[Path] = []  # noqa: RUF012 -- never changed


def _keeper(made: Pretraining, folder: Path, saving: Saving, course: Course) -> Checkpoints:
    make_folder(folder)
    device = course.place.device
    return Checkpoints(
        folder,
        saving.safety,
        saving.stop,
        seeds=made.seeds,
        parts={"head start": made},
        log=_NoLog(),
        facts=environment.describe(device, course.place.ranks),
        extent=made.extent,
        device=device,
        ranks=course.place.ranks,
    )


def _digest(keys: list[str]) -> str:
    return hashlib.blake2b(repr(keys).encode(), digest_size=4).hexdigest()


def _label(course: Course, seeds: int) -> str:
    names = " + ".join(SIGNALS[own.name].describe(own) for own in course.spec.signal)
    return f"head start ({names}), {seeds} seed{'s' if seeds > 1 else ''}"


def _groups(course: Course, seeds: Sequence[int]) -> list[list[int]]:
    """Seeds in groups of nearly equal size, each of which fits into memory at once."""
    if not seeds:
        return []
    free = for_each_rank(free_memory(course.place.device), course.place)
    most = max(1, int(SHARE * free) // replica_bytes(course))
    count = -(-len(seeds) // most)
    return [list(seeds[len(seeds) * i // count : len(seeds) * (i + 1) // count]) for i in range(count)]


def replica_bytes(course: Course) -> int:
    """What one seed takes: activations of all views, similarities of all pairs, weights and what is kept of them."""
    network, spec, place = course.network(), course.spec, course.place
    wide, inner = torch.finfo(place.dtype).bits // 8, torch.finfo(place.inner or place.dtype).bits // 8
    views = sum(build.views(own).count for own in spec.signal)
    numbers = activation_numbers(network, course.shape, patches=place.device.type == "cuda")
    weights = sum(parameter.numel() for parameter in network.parameters())
    pairs = max((build.views(own).count * spec.batch) ** 2 for own in spec.signal)
    return 5 * views * spec.batch * numbers * inner // 4 + 8 * pairs * wide + 10 * weights * wide
