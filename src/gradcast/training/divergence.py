"""Checks now and then whether steps were finite; every check waits for the device."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from jaxtyping import Bool
from torch import Tensor

from gradcast.errors import Diverged, warn

CHECKED = 25  # steps between looks, at least
HOPELESS = 10  # steps that were undone one after another: there is no use in more of them


class FiniteCheck:
    """Steps that nobody has looked at yet, ``every`` so many of them; ``remedy`` is for where training diverged.

    What was undone is counted seed by seed, over all looks and interruptions.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("steps", "undone", "on_end")

    def __init__(self, seeds: Sequence[int], remedy: str, *, every: int = CHECKED) -> None:
        self.seeds, self.remedy, self.every = list(seeds), remedy, max(every, CHECKED)
        self.waiting: list[tuple[int, Bool[Tensor, " r"]]] = []
        self.steps = 0  # looked at
        self.undone = [0] * len(self.seeds)  # of these
        self.on_end = [0] * len(self.seeds)  # the latest of them without one that stayed in between

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
        steps, spoiled = [step for step, _ in self.waiting], torch.stack([own for _, own in self.waiting]) == 0
        self.waiting.clear()
        self.steps += len(steps)
        bad = spoiled.nonzero().tolist()
        if not bad:
            self.on_end = [0] * len(self.seeds)
            return
        where = self._where(steps[bad[0][0]], self.seeds[bad[0][1]], task)
        longest = [self._count(replica, own) for replica, own in enumerate(spoiled.T.tolist())]
        lost = [seed for seed, own in zip(self.seeds, longest, strict=True) if own >= (HOPELESS if skips else 1)]
        if lost:
            raise Diverged(f"{where}: training diverged; {self.remedy}", lost)
        warn(f"{where}: {len(bad)} of the latest {spoiled.numel()} steps were undone")

    def shares(self) -> dict[int, float]:
        """The share of its steps that each seed undid."""
        return {seed: own / max(self.steps, 1) for seed, own in zip(self.seeds, self.undone, strict=True)}

    def _count(self, replica: int, spoiled: list[bool]) -> int:
        """Add a seed's steps; how many of them, with those before, were undone on end at most."""
        longest = 0
        for undone in spoiled:
            self.undone[replica] += undone
            self.on_end[replica] = self.on_end[replica] + 1 if undone else 0
            longest = max(longest, self.on_end[replica])
        return longest

    def _where(self, step: int, seed: int, task: int | None) -> str:
        own = f"seed {seed}" if task is None else f"task {task}, seed {seed}"
        return f"loss or weights are not finite at step {step} ({own})"
