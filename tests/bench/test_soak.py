import json

import pytest

from gradcast.bench import soak
from gradcast.bench.soak import Sample, Soak


def test_growth_compares_early_and_late_runs() -> None:
    steady = Soak(100, [Sample(float(i), 500.0 + (300 if i < 10 else 0), 20, 4) for i in range(100)])
    leaking = Soak(100, [Sample(float(i), 500.0 + i, 20 + i, 4) for i in range(100)])
    assert steady.growth("resident_mb") == (500.0, 500.0)  # what happens before the warm-up is over does not count
    assert leaking.growth("resident_mb") == (524.5, 594.5)
    assert leaking.growth("open_files") == (44.5, 114.5)


def test_runs_go_through_learners_and_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, str]] = []
    monkeypatch.setattr(soak, "_one", lambda learner, signal: seen.append((learner, signal)))
    found = soak.soak(0.002, lambda what: None)
    assert found.runs == len(seen) == len(found.samples)
    learners = [
        "a-gem",
        "bic",
        "cfa",
        "dcl",
        "der",
        "der-plus-plus",
        "er",
        "er-ace",
        "ewc",
        "finetune",
        "gem",
        "hal",
        "icarl",
        "icarl-original",
        "joint",
        "lucir",
        "lwf",
        "mas",
        "x-der",
    ]
    assert seen[: len(learners) + 1] == [*((name, "ada-net") for name in learners), ("a-gem", "co-training")]
    assert len(set(seen)) == len(learners) * 21
    told = json.loads(json.dumps(found.as_dict()))
    assert told["minutes"] >= 0.002
    assert told["open_files"]["early"] > 2


def test_one_run_is_a_whole_run(monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[object] = []
    real = soak.run

    def watched(*args: object, **named: object) -> object:
        trained.append(real(*args, **named)[1])  # type: ignore[arg-type]
        return trained[-1]

    monkeypatch.setattr(soak, "run", watched)
    soak._one("er", "noise")
    soak._one("bic", "noise")
    soak._one("lucir", "noise")
    for results in trained:
        assert isinstance(results, list)
        assert len(results[0].seeds) == 2
