from pathlib import Path

from gradcast.cluster.cell_task import Cluster
from gradcast.runs.seed_store import STORE, SeedStore
from gradcast.sweeps.trials import Trial, best_of
from gradcast.sweeps.tuning import workers
from tests.sweeps.tuned import trials_only
from tests.trained_runs import small

OVER = {"learner.lr": [0.3, 0.2, 0.25, 0.00001]}  # the last hardly learns


def trained(out: Path, *, prune: bool) -> list[Trial]:
    return trials_only(small(), OVER, out, row="predicted", tune_seeds=2, prune=prune, prune_after=1)


def test_a_hopeless_trial_is_stopped_and_never_taken_for_a_finished_one(tmp_path: Path) -> None:
    trials = trained(tmp_path, prune=True)
    *others, last = trials
    assert (last.state, last.tasks, last.note) == ("stopped", 1, "after 1 of 3 tasks")
    assert sorted(last.accuracy) == [100, 101]
    assert [own.state for own in others] == ["finished"] * 3
    assert len(SeedStore(tmp_path / STORE).cells()) == 3
    assert not list(tmp_path.glob("sweep-*/unfinished"))


def test_a_trial_that_another_sweep_has_trained_is_stopped_alike(tmp_path: Path) -> None:
    whole = trained(tmp_path, prune=False)
    assert [own.state for own in whole] == ["finished"] * 4
    assert trained(tmp_path, prune=True) == trained(tmp_path / "alone", prune=True) != whole


def test_a_trial_that_diverges_is_named_and_not_the_best(tmp_path: Path) -> None:
    spec = small("learner.name=finetune", "stream.tasks=2")
    for _ in range(2):  # the second time it is known
        trials = trials_only(spec, {"learner.lr": [1e30, 0.1]}, tmp_path, row="base", tune_seeds=1)
        assert [own.state for own in trials] == ["diverged", "finished"]
        assert "finite" in trials[0].note
        assert best_of(trials) == trials[1]


def test_workers_share_the_cores() -> None:
    assert workers(Cluster("ray")) >= workers(Cluster("ray", threads=2)) >= 1
    assert workers(Cluster("ray", threads=10_000)) == 1
