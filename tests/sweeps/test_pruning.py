import pytest
import torch

from gradcast.sweeps.pruning import MedianRule, TrialStopped, TrialWatch, hopeless
from gradcast.training.loop import Extent, Position

FINISHED = [[0.5, 0.4, 0.3], [0.9, 0.8, 0.7], [0.7, 0.2, 0.1]]


@pytest.mark.parametrize(
    ("own", "tasks", "stops"), [(0.69, 1, True), (0.7, 1, False), (0.41, 2, False), (0.39, 2, True)]
)
def test_the_median_after_as_many_tasks_decides(own: float, tasks: int, stops: bool) -> None:
    assert hopeless(own, tasks, FINISHED) is stops  # medians: 0.7 after one task, 0.4 after two


@pytest.mark.parametrize("few", range(3))
def test_without_enough_finished_trials_nothing_stops(few: int) -> None:
    assert not hopeless(0.0, 1, FINISHED[:few])


def test_the_rule_waits_and_compares_the_same_seeds() -> None:
    rule = MedianRule(2, [{100: [0.9, 0.8], 101: [0.1, 0.2]}] * 3)
    assert not rule.stops({100: 0.0, 101: 0.0}, 1)
    assert rule.stops({100: 0.4, 101: 0.4}, 2)  # the mean of 0.8 and 0.2 is 0.5
    assert not rule.stops({101: 0.4}, 2)  # against 0.2
    assert not rule.stops({102: 0.0}, 2)  # nobody has that seed


def test_a_watch_ends_a_hopeless_trial_but_not_after_its_last_task() -> None:
    shares = list[float]()
    rule = MedianRule(1, [{100: [0.5, 0.5]}] * 3)
    watch = TrialWatch(Extent((4, 4)), 1, shares.append, rule)
    watch.begin(0, Position(), [100])
    watch.evaluated(0, torch.zeros(1, 2))  # before training
    watch.stepped(0, 0, {})
    watch.trained(0)
    with pytest.raises(TrialStopped) as stopped:
        watch.evaluated(1, torch.tensor([[0.25, 0.9]]))
    assert (stopped.value.tasks, stopped.value.accuracy) == (1, {100: 0.25})
    watch.trained(1)
    watch.evaluated(2, torch.zeros(1, 2))
    assert shares == [0.0, 0.125, 0.5, 1.0]
