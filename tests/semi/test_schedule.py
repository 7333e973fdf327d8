import pytest
from gradcast.semi.schedule import Schedule

from gradcast.errors import GradcastError


@pytest.mark.parametrize(
    ("step", "rate"),
    [
        (0, 0.0),
        (1, 0.1 / 4000),
        (1000, 0.025),
        (4000, 0.1),
        (4001, 0.1),
        (300_000, 0.1),
        (300_001, 0.01),
        (350_000, 0.01),
        (350_001, 0.001),
        (400_000, 0.001),
    ],
)
def test_published_learning_rates(step: int, rate: float) -> None:
    assert Schedule().rate(step) == pytest.approx(rate)


@pytest.mark.parametrize(("step", "weight"), [(0, 0.0), (1, 0.00025), (2000, 0.5), (4000, 1.0), (400_000, 1.0)])
def test_published_weights(step: int, weight: float) -> None:
    assert Schedule().weight(step) == pytest.approx(weight)


def test_a_quick_schedule_is_the_same_course() -> None:
    whole, quick = Schedule(), Schedule().within(40_000)
    assert quick == Schedule(40_000, 0.1, 400, (30_000, 35_000), 0.1, 400, 40)
    for step in range(0, 40_001, 100):
        assert quick.rate(step) == pytest.approx(whole.rate(10 * step))
        assert quick.weight(step) == pytest.approx(whole.weight(10 * step))
    assert whole.within(100) == Schedule(100, 0.1, 1, (75, 88), 0.1, 1, 1)


@pytest.mark.parametrize(
    ("steps", "milestones"), [(1, ()), (2, ()), (3, (2,)), (4, (3,)), (5, (4,)), (8, (6, 7)), (10, (8, 9))]
)
def test_in_very_short_courses_drops_fall_together_or_away(steps: int, milestones: tuple[int, ...]) -> None:
    assert Schedule().within(steps).milestones == milestones


def test_without_a_rise_everything_is_whole_at_once() -> None:
    own = Schedule(steps=10, warm_up=0, milestones=(), ramp=0)
    assert (own.rate(0), own.rate(1), own.weight(0), own.weight(9)) == (0.1, 0.1, 1.0, 1.0)
    assert own.within(20).warm_up == 0


def test_a_milestone_beyond_the_end_is_said() -> None:
    with pytest.raises(GradcastError, match=r"drop after step 350000 and there are 320000 steps; lower semi.mil"):
        Schedule(steps=320_000)
