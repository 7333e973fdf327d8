"""One task, few labels: so many steps, with a look at the test images every now and then."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.replicas.replicas import Replicas
from gradcast.semi.schedule import Schedule
from gradcast.semi.step import SemiStep
from gradcast.semi.supply import Supply
from gradcast.training.capture import fastest
from gradcast.training.divergence import FiniteCheck
from gradcast.training.evaluate import Evaluator
from gradcast.training.loop import Extent, Keeper, Observer, Position

REMEDY = "lower learner.lr or the signal's weight, or raise semi.warm_up"
TASK = 0  # the only one


class SemiLoop:
    """Everything one run of R seeds needs; ``judged`` is the network that is tested: the model, or its teacher.

    Observers hear of a row before training and of one at the end, as those of a single task do; tests in between are
    numbers of their step.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("step", "supply")

    def __init__(
        self,
        supply: Supply,
        step: SemiStep,
        evaluator: Evaluator,
        seeds: Sequence[int],
        judged: Replicas | None = None,
    ) -> None:
        self.supply, self.step, self.evaluator, self.seeds = supply, step, evaluator, list(seeds)
        self.judged = step.model if judged is None else judged

    @property
    def schedule(self) -> Schedule:
        """The step's."""
        return self.step.schedule

    @property
    def extent(self) -> Extent:
        """Numbers of the steps that end in a test are kept."""
        return Extent((self.schedule.steps,), told=self.schedule.test_every)

    @property
    def parts(self) -> dict[str, object]:
        """Step and supply."""
        return {"step": self.step, "supply": self.supply}

    def state(self) -> dict[str, Tensor]:
        """Of the step, and which images were labelled."""
        return self.step.state() | {"labelled": torch.from_numpy(self.supply.labelled)}

    def run(self, observers: Sequence[Observer], keeper: Keeper | None = None) -> None:
        """All steps, from where the keeper says."""
        advance, check = fastest(self.step), FiniteCheck(self.seeds, REMEDY, every=self.schedule.test_every)
        start = None if keeper is None else keeper.begin()
        if start is None:
            self._evaluate(0, observers)
            start = Position()
        for count in range(start.steps, self.schedule.steps):
            if keeper is not None and keeper.due(count):
                check.look(skips=self.step.skips)
                keeper.save(Position(TASK, count, count))
            metrics = advance(*self.supply.next())
            check.add(count, metrics.pop("finite"), skips=self.step.skips)
            if (count + 1) % self.schedule.test_every == 0:
                metrics["test_accuracy"] = self._test()
            for observer in observers:
                observer.stepped(count, TASK, metrics)
        check.look(skips=self.step.skips)
        for observer in observers:
            observer.trained(TASK)
        self._evaluate(1, observers)

    def _test(self) -> Float[Tensor, " r"]:
        return self.evaluator(self.judged)[:, TASK]

    def _evaluate(self, tasks_done: int, observers: Sequence[Observer]) -> None:
        accuracy = self._test().unsqueeze(1).cpu()
        for observer in observers:
            observer.evaluated(tasks_done, accuracy)
