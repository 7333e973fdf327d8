"""How fast the model learns, and how much unlabelled images count, at every step."""

from dataclasses import dataclass, replace

from gradcast.errors import GradcastError


@dataclass(frozen=True)
class Schedule:
    """Steps are counted from 1; the defaults are the published ones."""

    steps: int = 400_000
    lr: float = 0.1
    warm_up: int = 4_000  # steps until the learning rate is whole; it rises from 0 in a straight line
    milestones: tuple[int, ...] = (300_000, 350_000)  # after each of these steps it is multiplied by ``factor``
    factor: float = 0.1
    ramp: int = 4_000  # steps until the weight of unlabelled images is whole; it rises from 0 in a straight line
    test_every: int = 400

    def __post_init__(self) -> None:
        late = [step for step in self.milestones if step >= self.steps]
        if late:
            raise GradcastError(
                f"the learning rate shall drop after step {late[0]} and there are {self.steps} steps; "
                "lower semi.milestones, or leave some out"
            )

    def rate(self, step: int) -> float:
        """The learning rate of a step."""
        return self.lr * _rising(step, self.warm_up) * self.factor ** sum(step > each for each in self.milestones)

    def weight(self, step: int) -> float:
        """How much of the unlabelled loss counts in a step."""
        return _rising(step, self.ramp)

    def within(self, steps: int) -> "Schedule":
        """The same course in another number of steps: all that counts steps shrinks or grows with them.

        In a very short one drops may fall together, or on the end: then they are one, or none.
        """

        def scaled(count: int) -> int:
            return max(round(count * steps / self.steps), 1) if count else 0

        return replace(
            self,
            steps=steps,
            warm_up=scaled(self.warm_up),
            milestones=tuple(dict.fromkeys(step for step in map(scaled, self.milestones) if step < steps)),
            ramp=scaled(self.ramp),
            test_every=scaled(self.test_every),
        )


def _rising(step: int, end: int) -> float:
    return min(step / end, 1.0) if end else 1.0
