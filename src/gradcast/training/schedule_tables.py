"""How long a learner stays with a task, and at which rates: the table ``schedule`` of a specification."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from gradcast.specs.table import EpochCount, Natural, Positive, Rate, StepCount, Table, Weight
from gradcast.training.plateau_rates import PlateauRates, Reset

TESTS = 20  # a shorter course has so many at least, if the whole one has


class ConstantSpec(Table):
    """``stream.epochs`` passes through every task at a constant learning rate."""

    name: Literal["constant"] = "constant"


COUNTED = ("steps", "warm_up", "milestones", "ramp", "test_every")  # what a course counts in steps


class StepsSpec(Table):
    """So many steps a task: the learning rate warms up and drops, the weight of ramped signals rises.

    The defaults are those published for learning with few labels. Steps of a task are counted from 1.
    """

    name: Literal["steps"]
    steps: StepCount = 400_000  # a task
    warm_up: Natural = 4_000  # steps in which the learning rate rises from 0 in a straight line
    milestones: list[Positive] = [300_000, 350_000]  # steps after which it drops
    factor: Rate = 0.1  # by which it is multiplied then
    ramp: Natural = 4_000  # steps in which the weight of ramped signals rises from 0 in a straight line
    test_every: Positive = 400  # steps between two looks at the test images

    @model_validator(mode="after")
    def _fits(self) -> "StepsSpec":
        late = [step for step in self.milestones if step >= self.steps]
        if late:
            raise ValueError(
                f"the learning rate drops after step {late[0]}, but there are {self.steps} steps; "
                "lower schedule.milestones, or leave some out"
            )
        if self.test_every > self.steps:
            raise ValueError(
                f"the first test is after step {self.test_every}, but there are {self.steps} steps; "
                "lower schedule.test_every"
            )
        return self

    def rate(self, step: int) -> float:
        """What the learner's learning rate is multiplied with in a step."""
        return _rising(step, self.warm_up) * self.factor ** sum(step > each for each in self.milestones)

    def weight(self, step: int) -> float:
        """How much of a ramped signal counts in a step."""
        return _rising(step, self.ramp)

    def within(self, steps: int) -> "StepsSpec":
        """The same course in another number of steps: all that counts steps shrinks or grows with them.

        In a very short one drops may fall together, or on the end: then they are one, or none. Tests are as many, but
        no nearer together if twenty remain.
        """

        def scaled(count: int) -> int:
            return max(round(count * steps / self.steps), 1) if count else 0

        return self.model_copy(
            update={
                "steps": steps,
                "warm_up": scaled(self.warm_up),
                "milestones": list(dict.fromkeys(step for step in map(scaled, self.milestones) if step < steps)),
                "ramp": scaled(self.ramp),
                "test_every": max(scaled(self.test_every), min(self.test_every, steps // TESTS)),
            }
        )


class PlateauSpec(Table):
    """Many epochs a task; validation decides when the learning rate drops, when a seed stops, and what it keeps.

    The defaults are published for CIFAR-100, miniImageNet has others where it says so. Batch size and learning rate
    are ``stream.batch`` and ``learner.lr``.
    """

    omitted_defaults: ClassVar[tuple[str, ...]] = ("name",)
    name: Literal["plateau"] = "plateau"
    epochs: EpochCount = 200  # at most
    validation: Annotated[float, Field(gt=0, lt=1)] = 0.15  # share of the images set aside; miniImageNet 0.02
    validation_batch: Positive = 9  # images a step of validation; miniImageNet 1
    factor: Annotated[float, Field(gt=1, allow_inf_nan=False)] = 3.0  # by which the learning rate is divided
    smallest: Rate = 1e-6  # learning rate below which a seed stops
    patience: Positive = 5  # epochs without a better validation loss
    reset: Reset = "fixed"  # of a seed at chance in the fifth epoch: restart at a tenth of the rate, as released, never
    above_chance: Weight = 0.02  # what a seed must have reached on its training images in the fifth epoch

    def rates(self, count: int, lr: float) -> PlateauRates:
        """The learning rates of so many replicas."""
        return PlateauRates(count, lr, factor=self.factor, smallest=self.smallest, patience=self.patience)


def _rising(step: int, end: int) -> float:
    return min(step / end, 1.0) if end else 1.0


def _named(raw: Any) -> str:
    """A table without a name is the plateau: its keys tell."""
    return str(raw.get("name", "plateau")) if isinstance(raw, dict) else str(raw.name)


SCHEDULES: dict[str, type[Table]] = {"constant": ConstantSpec, "steps": StepsSpec, "plateau": PlateauSpec}
ScheduleSpec = Annotated[
    Annotated[ConstantSpec, Tag("constant")]
    | Annotated[StepsSpec, Tag("steps")]
    | Annotated[PlateauSpec, Tag("plateau")],
    Discriminator(_named),
]
