"""Trajectories of the published reference implementation: how a file is read, and how far ours is from it."""

import math
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradcast.data.arrays import UNREADABLE, read_npz
from gradcast.errors import GradcastError, told

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Replay:
    """How one trace went."""

    path: Path
    steps: int
    difference: float  # largest relative difference of all compared weights and statistics
    where: str  # where it is
    tolerance: float

    @property
    def agrees(self) -> bool:
        """Whether the difference stays within the tolerance (not a number does not)."""
        return self.difference <= self.tolerance


@dataclass
class Worst:
    """The largest relative difference so far, and where it was."""

    difference: float = 0.0
    where: str = "nowhere"

    def add(self, ours: Tensor, recorded: np.ndarray | None, where: str) -> None:
        """Compare with what the trace recorded, if it did: largest difference over largest weight."""
        if recorded is None:
            return
        theirs = torch.from_numpy(recorded).double().to(ours.device)
        if ours.shape != theirs.shape:
            raise ValueError(f"{theirs.numel()} numbers recorded for {where}, the network has {ours.numel()}")
        found = float((ours - theirs).abs().max() / theirs.abs().max().clamp_min(1e-300))
        found = float("inf") if math.isnan(found) else found
        if found > self.difference:
            self.difference, self.where = found, where


def load(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise GradcastError(f"the trajectory {path} does not exist" if not path.exists() else f"{path} is not a file")
    if not zipfile.is_zipfile(path):
        raise GradcastError(f"{path} is not an .npz archive, or it is cut off")
    try:
        return read_npz(path)
    except UNREADABLE as error:
        raise GradcastError(f"{path} cannot be read ({told(error)}); fetch it again") from None
