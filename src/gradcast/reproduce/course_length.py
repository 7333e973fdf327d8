"""A table of courses in another number of steps."""

from collections.abc import Sequence

from gradcast.errors import GradcastError
from gradcast.reproduce.experiment import Experiment
from gradcast.training.schedule_tables import COUNTED, StepsSpec


def course_settings(experiment: Experiment, steps: int, settings: Sequence[str]) -> list[str]:
    """Settings that give every row the same course in so many steps: all that counts steps moves with them."""
    name = experiment.header.id
    own = next((each for each in settings if each.startswith("schedule.")), None)
    if own is not None:
        raise GradcastError(f"--set {own} is part of the course that --steps sets; leave one of them out")
    courses = [item.setting.schedule for item in experiment.items if item.setting is not None]
    first = courses[0]
    if not isinstance(first, StepsSpec) or any(course != first for course in courses):
        raise GradcastError(f"the rows of {name} have no common course of steps; leave --steps out")
    course = first.within(steps)
    return [f"schedule.{key}={getattr(course, key)}" for key in COUNTED]
