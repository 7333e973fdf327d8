"""Whether steps are finite, looked at now and then: every look waits for the device."""

import warnings
from collections.abc import Sequence

import torch
from jaxtyping import Bool
from torch import Tensor

from gradcast.errors import Diverged

CHECKED = 25  # steps between looks, at least
HOPELESS = 10  # steps that were undone one after another: there is no use in more of them


class FiniteCheck:
    """Steps that nobody has looked at yet, ``every`` so many of them; ``remedy`` is for where training diverged."""

    def __init__(self, seeds: Sequence[int], remedy: str, *, every: int = CHECKED) -> None:
        self.seeds, self.remedy, self.every = list(seeds), remedy, max(every, CHECKED)
        self.waiting: list[tuple[int, Bool[Tensor, " r"]]] = []

    def add(self, step: int, finite: Tensor, task: int | None = None, *, skips: bool) -> None:
        """A step is done; look where there are enough of them."""
        self.waiting.append((step, finite))
        if len(self.waiting) == self.every:
            self.look(task, skips=skips)

    def look(self, task: int | None = None, *, skips: bool) -> None:
        """Stop where loss or weights were not finite (the first step is named), or where only such steps are left.

        With ``skips`` such steps were undone. Where there is but one task, it needs no number.
        """
        if not self.waiting:
            return
        spoiled = torch.stack([finite for _, finite in self.waiting]) == 0
        bad = spoiled.nonzero().tolist()
        if bad:
            step, seed = self.waiting[bad[0][0]][0], self.seeds[bad[0][1]]
            own = f"seed {seed}" if task is None else f"task {task}, seed {seed}"
            where = f"loss or weights are not finite at step {step} ({own})"
            if not skips or (len(self.waiting) >= HOPELESS and spoiled.all(0).any()):
                lost = (spoiled.all(0) if skips else spoiled.any(0)).tolist()
                seeds = [seed for seed, own in zip(self.seeds, lost, strict=True) if own]
                raise Diverged(f"{where}: training diverged; {self.remedy}", seeds)
            warnings.warn(f"{where}: {len(bad)} of the latest {spoiled.numel()} steps were undone", stacklevel=3)
        self.waiting.clear()
