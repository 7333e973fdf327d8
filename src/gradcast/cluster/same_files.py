"""All ranks begin with the same files, so that they come to the same decisions: what is finished, where to go on."""

from collections.abc import Sequence
from pathlib import Path

from gradcast.cluster.cell_task import packed, unpack
from gradcast.cluster.ranks import Ranks


def hand_out(ranks: Ranks | None, folders: Sequence[Path]) -> None:
    """The first rank's files of these folders for every other rank, whose folders are its own (``Ranks.own``)."""
    if ranks is None:
        return
    for number in range(len(folders)):
        files = ranks.from_first(lambda folder=folders[number]: packed(folder))  # type: ignore[misc]
        if not ranks.first:
            unpack(files, folders[number])
