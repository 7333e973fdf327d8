import pytest

from gradcast.sweeps.trials import Trial, best_of, concluded


def trial(number: int, *accuracy: float, state: str = "finished") -> Trial:
    own = dict(enumerate(accuracy, 100))
    return Trial(number=number, values={}, state=state, accuracy=own, tasks=2)  # type: ignore[arg-type]


def test_the_best_is_finished_and_the_earlier_of_equals() -> None:
    trials = [trial(1, 0.5, 0.5), trial(2, 0.4, 0.8), trial(3, 0.6, 0.6), trial(4, 1.0, state="stopped")]
    assert best_of(trials) == trials[1]
    assert best_of([trial(4, 1.0, state="diverged")]) is None


def test_a_seed_that_diverged_makes_the_trial_no_result() -> None:
    done = concluded(Trial(number=1, values={}), {100: [0.5, 0.4]}, {101: "not finite"})
    assert (done.state, done.accuracy, done.note, done.told) == ("diverged", {100: 0.4}, "not finite", None)


def test_a_search_is_told_of_finished_and_stopped_trials() -> None:
    done = concluded(Trial(number=1, values={}), {100: [0.5, 0.4], 101: [0.9, 0.2]}, {})
    assert done.told is not None
    assert done.told.accuracy == pytest.approx(0.3)
    assert done.told.stopped_after == 0
    stopped = trial(1, 0.5, state="stopped").told
    assert stopped is not None
    assert stopped.stopped_after == 2
