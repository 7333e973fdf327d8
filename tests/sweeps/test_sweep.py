from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import gradcast
from gradcast.data.images import Source
from gradcast.errors import GradcastError
from gradcast.runs import run as runs
from gradcast.runs.seed_store import STORE, SeedStore
from gradcast.specs.text import load
from gradcast.sweeps.sweep import sweep
from gradcast.sweeps.tuning import Tuning
from tests.sweeps.tuned import OVER, trials_only, tuned
from tests.trained_runs import small


def test_the_best_setting_is_compared_on_fresh_seeds_and_the_test_images() -> None:
    found = tuned()
    assert [own.values for own in found.trials] == [
        {"signal.alpha": alpha, "learner.lr": lr} for alpha in (0.001, 0.1) for lr in (0.05, 0.2)
    ]
    assert found.best.mean == max(own.mean or 0.0 for own in found.trials)
    assert found.result.seeds == [0, 1]
    assert all(row.setting.stream.validation == 0 for row in found.spec.rows)
    assert gradcast.sweep is sweep


def test_the_best_specification_is_the_run_of_the_sweep_itself() -> None:
    found = tuned()
    spec = load(str(found.directory / "best.toml"))
    directory, rows = runs.run(spec, out=found.result.directory.parent, device="cpu", report=False)
    assert directory.path == found.result.directory
    assert rows == []
    fresh, _ = runs.run(spec, out=found.directory / "fresh", device="cpu", report=False)
    for file in ("accuracy.csv", "weights.safetensors"):
        seeds = [(path / "predicted" / "seed-1" / file).read_bytes() for path in (directory.path, fresh.path)]
        assert seeds[0] == seeds[1]


def test_the_same_sweep_again_trains_nothing() -> None:
    found = tuned()
    files = {name: (found.directory / name).read_bytes() for name in ("trials.csv", "sweep.json", "sweep.html")}
    with mock.patch.object(Tuning, "_train", side_effect=AssertionError("trained again")):
        again = sweep(small(), OVER, row="predicted", tune_seeds=2, seeds=2, out=found.directory.parent, device="cpu")
    assert again.trials == found.trials
    assert {name: (again.directory / name).read_bytes() for name in files} == files


def stripes(*, shift: int) -> Source:
    """Four easy classes; test labels are shifted, so that whoever looks at test images has another accuracy."""
    y = np.arange(200) % 4
    x = np.random.default_rng(0).integers(0, 60, (200, 4, 4)).astype(np.uint8)
    x[np.arange(200), y] += 190
    return gradcast.own_data(x[40:], y[40:], x[:40], (y[:40] + shift) % 4, name="stripes")


def test_no_test_image_is_seen_in_tuning(tmp_path: Path) -> None:
    spec = small("stream.scenario=permuted", "stream.tasks=2", "stream.samples=120", "stream.epochs=2")
    places = {tmp_path / str(shift): stripes(shift=shift) for shift in (0, 1)}
    over = {"learner.lr": [0.05, 0.2]}
    one, other = (
        trials_only(spec, over, out, source=own, row="predicted", tune_seeds=1) for out, own in places.items()
    )
    assert one == other  # to the last digit
    assert max(own.mean or 0.0 for own in one) > 0.8  # it has learned: looking would show
    cells = [{cell.name for cell in SeedStore(out / STORE).cells()} for out in places]
    assert cells[0] == cells[1]  # the digest of what they were trained with is the same
    alone = spec.model_copy(update={"rows": spec.rows[:1], "seeds": [0]})
    made = [runs.run(alone, out=out, source=own, device="cpu", report=False)[0] for out, own in places.items()]
    right, wrong = (own.accuracy("base", 0)[-1].mean() for own in made)
    assert right > 0.8 > 0.2 > wrong  # the ordinary run does look


@pytest.mark.parametrize(
    ("over", "options", "sentence"),
    [
        ({"learner.lrr": [1]}, {}, "did you mean 'learner.lr'"),
        ({"learner.lr": [-1, -2]}, {}, "learner.lr = -1 is not valid"),
        ({"learner.lr": "log:0.1:1"}, {"search": "tpe", "trials": 2, "row": "nobody"}, "there is no row 'nobody'"),
        ({"signal.alpha": [1]}, {"row": "base"}, "unknown key 'signal.alpha'"),
        ({"stream.validation": [0.0]}, {}, "cannot be swept over"),
        ({"learner.lr": [0.1]}, {"prune": True, "prune_after": 3}, "stops no trial"),
        ({"learner.lr": [0.1]}, {"prune": True, "on": "ray"}, "leave out --prune, or --on"),
        ({"learner.lr": [0.1]}, {"parallel": 2}, "--parallel is how many"),
        ({"row.random.learner.lr": [0.1]}, {}, "leave one of them out"),
    ],
)
def test_mistakes_are_sentences_before_anything_is_trained(
    tmp_path: Path, over: dict[str, list[float] | str], options: dict[str, object], sentence: str
) -> None:
    with pytest.raises(GradcastError, match=sentence):
        sweep(small(), over, **{"row": "predicted", "out": tmp_path / "out", "device": "cpu", **options})  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()
