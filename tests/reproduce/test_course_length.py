from pathlib import Path

import pytest

from gradcast.errors import GradcastError
from gradcast.reproduce.course_length import course_settings
from gradcast.reproduce.experiment import load
from gradcast.reproduce.reproduce import request
from gradcast.training.schedule_tables import StepsSpec


def test_the_published_course_is_that_of_meta_gradient() -> None:
    """400,000 steps, warm-up 4,000, drops after 300,000 and 350,000: the defaults of a course."""
    wanted = request("E6", out=Path("none"), settings=course_settings(load("E6"), 400_000, []))
    published = StepsSpec(name="steps")
    for item in wanted.experiment.items:
        assert item.setting is not None
        course = item.setting.schedule
        assert isinstance(course, StepsSpec)
        assert course.model_copy(update={"test_every": published.test_every}) == published


@pytest.mark.parametrize(
    ("table", "settings", "message"),
    [
        ("E3", [], "have no common course of steps"),
        ("E6", ["schedule.ramp=5"], "schedule.ramp=5 is part of the course"),
    ],
)
def test_what_has_no_course_is_told(table: str, settings: list[str], message: str) -> None:
    with pytest.raises(GradcastError, match=message):
        course_settings(load(table), 100, settings)
