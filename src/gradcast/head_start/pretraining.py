"""The loop of a head start: batches of the pool, a step each, its loss and what its features are worth."""

import time
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from gradcast.core import Batch
from gradcast.devices import to_device
from gradcast.gradients.optimizer import cosine_rate
from gradcast.head_start.head_start_table import HeadStartSpec
from gradcast.head_start.pretrain_step import PretrainStep
from gradcast.head_start.probe import Probe
from gradcast.streams.draws import Feed
from gradcast.training.capture import fastest
from gradcast.training.divergence import FiniteCheck
from gradcast.training.loop import Extent, Keeper, Observer, Position

POINTS = 200  # losses that are kept
REMEDY = "lower head_start.lr or the signal's weight, or raise head_start.warm_up"


class Pretraining:
    """R seeds' head starts; ``curve`` has the loss of some steps, ``probes`` the accuracy of nearest neighbours."""

    checkpointed: ClassVar[tuple[str, ...]] = ("step", "feeds", "curve", "probed", "seconds")

    def __init__(
        self, spec: HeadStartSpec, step: PretrainStep, feeds: Sequence[Feed], seeds: Sequence[int], probe: Probe | None
    ) -> None:
        self.spec, self.step, self.feeds, self.seeds, self.probe = spec, step, list(feeds), list(seeds), probe
        self.begun = time.perf_counter()
        self.every = max(1, spec.steps // POINTS)
        self.curve: list[tuple[int, list[float]]] = []  # steps done, and a loss a seed
        self.probed: list[tuple[int, list[float]]] = []  # the same with accuracies
        self.waiting: list[tuple[int, Tensor]] = []  # losses that are still on the device
        theta = step.model.theta
        none = torch.zeros(len(seeds), 0, device=theta.device, dtype=theta.dtype)
        self.batch = Batch(none, none.long(), 0)  # no labelled images
        self.check = FiniteCheck(self.seeds, REMEDY)

    @property
    def seconds(self) -> float:
        """Time since it began, interruptions left out."""
        return time.perf_counter() - self.begun

    @seconds.setter
    def seconds(self, taken: float) -> None:
        self.begun = time.perf_counter() - taken

    @property
    def extent(self) -> Extent:
        """How long it is."""
        return Extent((self.spec.steps,), every=self.every)

    def run(self, observers: Sequence[Observer] = (), keeper: Keeper | None = None) -> None:
        """All steps, from where the keeper says."""
        start = None if keeper is None else keeper.begin()
        done = 0 if start is None else start.steps
        advance, used = fastest(self.step), np.ones(len(self.seeds), dtype=bool)
        if done == 0:
            self._look(0)
        for number in range(done, self.spec.steps):
            if keeper is not None and keeper.due(number):
                self._collect()
                keeper.save(Position(0, number, number))
            self._set_rate(number)
            metrics = advance(self.batch, tuple(feed.batch(0, used) for feed in self.feeds))
            self.check.add(number, metrics.pop("finite") != 0, skips=False)
            if (number + 1) % self.every == 0:
                self.waiting.append((number + 1, metrics["loss"]))
            for observer in observers:
                observer.stepped(number, 0, metrics)
            if self._due(number + 1):
                self._look(number + 1)
        self.check.look(skips=False)
        self._collect()

    def _set_rate(self, number: int) -> None:
        spec, rate = self.spec, self.step.rate
        value = cosine_rate(number, steps=spec.steps, warm_up=spec.warm_up, peak=spec.lr)
        rate.copy_(to_device(torch.full((len(rate),), value, dtype=rate.dtype), rate.device))

    def _due(self, done: int) -> bool:
        """Whether the features are looked at after so many steps."""
        times, steps = self.spec.probes, self.spec.steps
        return times > 0 and done * times // steps > (done - 1) * times // steps

    def _look(self, done: int) -> None:
        self._collect()
        if self.probe is not None and self.spec.probes:
            self.probed.append((done, self.probe.accuracy(self.step.model).tolist()))

    def _collect(self) -> None:
        """Losses leave the device."""
        self.curve += [(done, losses.double().tolist()) for done, losses in self.waiting]
        self.waiting = []

    def told(self, replica: int) -> dict[str, object]:
        """One seed's curves, and how long all seeds took together."""
        return {
            "steps": self.spec.steps,
            "seconds": round(self.seconds, 3),
            "seeds_at_once": len(self.seeds),
            "loss": [(done, losses[replica]) for done, losses in self.curve],
            "nearest_neighbour": [(done, found[replica]) for done, found in self.probed],
        }
