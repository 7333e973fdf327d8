"""A row whose seeds may diverge: those that do are written down with the reason, the others are trained on."""

from collections.abc import Callable, Sequence

from gradcast.errors import Diverged, warn
from gradcast.runs.checkpoint.attempt import Attempt
from gradcast.runs.directory import RunDirectory


def train_survivors(
    directory: RunDirectory, row: str, seeds: Sequence[int], train: Callable[[list[int]], None], *, fresh: bool = False
) -> None:
    """Train the seeds that are left until none of them diverges; ``Diverged`` where none is left.

    How seeds are grouped changes no result, so that the others lose nothing but time. ``fresh`` forgets what diverged
    before.
    """
    lost = {} if fresh else directory.diverged(row)
    directory.lose(row, lost)
    while left := [seed for seed in seeds if seed not in lost]:
        try:
            train(left)
            return
        except Diverged as error:
            gone = [seed for seed in error.seeds if seed in left]
            if not gone:
                raise
            lost |= dict.fromkeys(gone, str(error))
            directory.lose(row, lost)
            Attempt.without(directory, row, left, gone)
            if len(gone) < len(left):
                named = ", ".join(map(str, gone))
                warn(f"row {row!r}: seeds lost: {named} ({error}); the others start over")
    raise Diverged(next(iter(lost.values())), seeds)
