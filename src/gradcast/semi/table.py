"""How many labels, and how long: the table ``semi`` of a specification."""

from pydantic import model_validator

from gradcast.errors import GradcastError
from gradcast.semi.schedule import Schedule
from gradcast.specs.table import Natural, Positive, Rate, Table

TESTS = 20  # a shorter course has so many at least, if the whole one has


class SemiSpec(Table):
    """One task of which few images are labelled; the defaults are the published ones.

    Batch sizes are ``stream.batch`` and ``policy.batch``; learning rate, momentum and weight decay the learner's.
    """

    labels: Positive  # images that keep theirs, equally many of every class
    steps: Positive = 400_000
    warm_up: Natural = 4_000  # steps in which the learning rate rises
    milestones: list[Positive] = [300_000, 350_000]  # steps after which it drops
    factor: Rate = 0.1  # by which it is multiplied then
    ramp: Natural = 4_000  # steps in which the weight of unlabelled images rises
    test_every: Positive = 400  # steps

    @model_validator(mode="after")
    def _course(self) -> "SemiSpec":
        try:
            self.schedule(1.0)
        except GradcastError as error:
            raise ValueError(str(error)) from None
        if self.test_every > self.steps:
            raise ValueError(
                f"the first test shall be after step {self.test_every} and there are {self.steps} steps; "
                "lower semi.test_every"
            )
        return self

    def schedule(self, lr: float) -> Schedule:
        """The course of a run."""
        return Schedule(self.steps, lr, self.warm_up, tuple(self.milestones), self.factor, self.ramp, self.test_every)

    def within(self, steps: int) -> "SemiSpec":
        """The same course in another number of steps; tests are as many, but no nearer together if twenty remain."""
        short = self.schedule(1.0).within(steps)
        return self.model_copy(
            update={
                "steps": steps,
                "warm_up": short.warm_up,
                "milestones": list(short.milestones),
                "ramp": short.ramp,
                "test_every": max(short.test_every, min(self.test_every, steps // TESTS)),
            }
        )
