import tomllib

import pytest
from pydantic import TypeAdapter, ValidationError

from gradcast.errors import GradcastError
from gradcast.specs.text import dump, load, parse
from gradcast.training.schedule_tables import SCHEDULES, ConstantSpec, PlateauSpec, ScheduleSpec, StepsSpec

COURSE = StepsSpec(name="steps")


def within(steps: int) -> StepsSpec:
    return COURSE.within(steps)


@pytest.mark.parametrize(
    ("step", "rate"),
    [
        (0, 0.0),
        (1, 1 / 4000),
        (1000, 0.25),
        (4000, 1.0),
        (4001, 1.0),
        (300_000, 1.0),
        (300_001, 0.1),
        (350_000, 0.1),
        (350_001, 0.01),
        (400_000, 0.01),
    ],
)
def test_published_learning_rates(step: int, rate: float) -> None:
    assert COURSE.rate(step) == pytest.approx(rate)


@pytest.mark.parametrize(("step", "weight"), [(0, 0.0), (1, 0.00025), (2000, 0.5), (4000, 1.0), (400_000, 1.0)])
def test_published_weights(step: int, weight: float) -> None:
    assert COURSE.weight(step) == pytest.approx(weight)


def test_a_quick_schedule_is_the_same_course() -> None:
    quick = within(40_000)
    assert quick == StepsSpec(
        name="steps", steps=40_000, warm_up=400, milestones=[30_000, 35_000], ramp=400, test_every=400
    )
    for step in range(0, 40_001, 100):
        assert quick.rate(step) == pytest.approx(COURSE.rate(10 * step))
        assert quick.weight(step) == pytest.approx(COURSE.weight(10 * step))
    assert within(100) == StepsSpec(name="steps", steps=100, warm_up=1, milestones=[75, 88], ramp=1, test_every=5)


def test_a_quick_look_has_few_tests() -> None:
    short = StepsSpec(name="steps", steps=4000, warm_up=40, milestones=[3000, 3500], ramp=40, test_every=200)
    assert within(4000) == short
    every = {steps: within(steps).test_every for steps in (400_000, 40_000, 100, 10, 800_000)}
    assert every == {400_000: 400, 40_000: 400, 100: 5, 10: 1, 800_000: 800}
    few = StepsSpec(name="steps", steps=600, warm_up=6, milestones=[450], ramp=6, test_every=60)
    assert [few.within(steps).test_every for steps in (600, 300, 60)] == [60, 30, 6]


@pytest.mark.parametrize(
    ("steps", "milestones"), [(1, []), (2, []), (3, [2]), (4, [3]), (5, [4]), (8, [6, 7]), (10, [8, 9])]
)
def test_in_very_short_courses_drops_fall_together_or_away(steps: int, milestones: list[int]) -> None:
    assert within(steps).milestones == milestones


def test_without_a_rise_everything_is_whole_at_once() -> None:
    own = StepsSpec(name="steps", steps=10, warm_up=0, milestones=[], ramp=0, test_every=5)
    assert (own.rate(0), own.rate(1), own.weight(0), own.weight(9)) == (1.0, 1.0, 1.0, 1.0)
    assert own.within(20).warm_up == 0


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"steps": 320_000}, r"drops after step 350000, but there are 320000 steps; lower schedule.milestones"),
        ({"steps": 600, "milestones": []}, None),
        (
            {"steps": 300, "milestones": []},
            r"first test is after step 400, but there are 300 steps; lower",
        ),
    ],
)
def test_what_lies_beyond_the_end_is_said(keys: dict[str, object], sentence: str | None) -> None:
    if sentence is None:
        assert StepsSpec.model_validate({"name": "steps", **keys}).steps == keys["steps"]
        return
    with pytest.raises(ValidationError, match=sentence):
        StepsSpec.model_validate({"name": "steps", **keys})


def test_the_plateaus_defaults_are_those_published_for_cifar_100() -> None:
    assert PlateauSpec().model_dump() == {
        "epochs": 200,
        "validation": 0.15,
        "validation_batch": 9,
        "factor": 3.0,
        "smallest": 1e-6,
        "patience": 5,
        "reset": "fixed",
        "above_chance": 0.02,
    }


@pytest.mark.parametrize(("key", "value"), [("factor", 1.0), ("validation", 1.0), ("patience", 0), ("reset", "maybe")])
def test_what_would_never_end_or_train_nothing_is_refused(key: str, value: object) -> None:
    with pytest.raises(ValidationError, match=key):
        PlateauSpec.model_validate({key: value})


def test_rates_of_a_plateau_are_its_own() -> None:
    made = PlateauSpec(factor=2.0, smallest=0.01, patience=3).rates(4, 0.5)
    assert (made.lr.tolist(), made.factor, made.smallest, made.most) == ([0.5] * 4, 2.0, 0.01, 3)


def test_a_table_without_a_name_is_the_plateau() -> None:
    adapter = TypeAdapter(ScheduleSpec)
    assert adapter.validate_python({"epochs": 3}) == PlateauSpec(epochs=3)
    for name, kind in SCHEDULES.items():
        assert type(adapter.validate_python({"name": name})) is kind
    assert adapter.validate_python(ConstantSpec()) == ConstantSpec()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["schedule.milestones=[700]"], "the learning rate drops after step 700, but there are 600 steps"),
        (
            ["schedule.test_every=601"],
            "the first test is after step 601, but there are 600 steps; lower",
        ),
        (["schedule.step=3"], "unknown key 'schedule.step' (schedule 'steps'); did you mean 'schedule.steps'?"),
    ],
)
def test_mistakes_are_said(settings: list[str], sentence: str) -> None:
    with pytest.raises(GradcastError) as caught:
        load("digits-100", settings)
    assert sentence in str(caught.value)


def test_specifications_without_a_schedule_say_nothing_of_it_and_others_are_read_back() -> None:
    assert "schedule" not in dump(load("digits"))
    for preset in ("digits-100", "acl-digits"):
        spec = load(preset)
        assert parse(tomllib.loads(dump(spec))) == spec
