import tomllib

import pytest
from gradcast.semi.schedule import Schedule
from gradcast.semi.table import SemiSpec

from gradcast.errors import GradcastError
from gradcast.specs.text import dump, load, parse


def test_the_defaults_are_the_published_course() -> None:
    assert SemiSpec(labels=1000).schedule(0.1) == Schedule()


def test_a_quick_look_is_the_same_course_with_few_tests() -> None:
    short = SemiSpec(labels=1000).within(4000)
    assert short == SemiSpec(labels=1000, steps=4000, warm_up=40, milestones=[3000, 3500], ramp=40, test_every=200)
    every = {steps: SemiSpec(labels=1000).within(steps).test_every for steps in (400_000, 40_000, 100, 10, 800_000)}
    assert every == {400_000: 400, 40_000: 400, 100: 5, 10: 1, 800_000: 800}
    few = SemiSpec(labels=100, steps=600, warm_up=6, milestones=[450], ramp=6, test_every=60)
    assert [few.within(steps).test_every for steps in (600, 300, 60)] == [60, 30, 6]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["semi.milestones=[700]"], "the learning rate shall drop after step 700 and there are 600 steps"),
        (["semi.test_every=601"], "the first test shall be after step 601 and there are 600 steps; lower semi.test_ev"),
        (["semi.label=3"], "unknown key 'semi.label'; did you mean 'semi.labels'?"),
        (["semi.labels=0"], "semi.labels = 0 is not valid: input should be greater than or equal to 1"),
        (["row.mg.schedule.epochs=3"], "row 'mg': a [schedule] has many tasks and [semi] has one"),
    ],
)
def test_mistakes_are_said(settings: list[str], sentence: str) -> None:
    with pytest.raises(GradcastError) as caught:
        load("digits-100", settings)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["learner.name=mg"], "the learner 'mg' learns one task from few labels: add a [semi], as in semi.labels=100"),
        (["learner.momentum=0.5"], "learner.momentum and learner.decay belong to a [schedule] or [semi]"),
        (["signal.objective=meta"], "signal.objective = 'meta' is for few labels: add a [semi]"),
        (["row.base.semi.labels=50"], "some rows have a [semi] and others have none"),
    ],
)
def test_what_belongs_to_few_labels_is_said_elsewhere(settings: list[str], sentence: str) -> None:
    with pytest.raises(GradcastError) as caught:
        load("digits", settings)
    assert sentence in str(caught.value)


def test_specifications_without_it_say_nothing_of_it_and_others_are_read_back() -> None:
    assert "semi" not in dump(load("digits"))
    spec = load("digits-100")
    assert parse(tomllib.loads(dump(spec))) == spec
