"""Every learner with every signal, and with every schedule and number of labels: what is not refused trains."""

from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path

import pytest
import torch

from gradcast.data.cache import Cache
from gradcast.data.load import Shelf, untracked
from gradcast.devices import Place
from gradcast.errors import GradcastError
from gradcast.learners.registry import LEARNERS
from gradcast.runs.prepared import PreparedRun
from gradcast.signals.registry import SIGNALS
from gradcast.specs.compatibility import contradiction
from gradcast.specs.fit import check
from gradcast.specs.spec import Setting
from gradcast.streams.stream import Stream
from tests.streams.uneven import uneven_stream

pytestmark = pytest.mark.usefixtures("known_passes")
OTHERS = ("python",)  # tested by themselves
SOME = ("none", "predicted", "contrastive", "meta-gradient", "mean-teacher")
SCHEDULES = {
    "constant": {"name": "constant"},
    "steps": {"name": "steps", "steps": 2, "warm_up": 1, "milestones": [1], "ramp": 1, "test_every": 1},
    "plateau": {"name": "plateau", "epochs": 1, "validation": 0.25, "validation_batch": 3},
}
MLP = {"name": "mlp", "hidden": [8]}
SMALL = {"name": "alexnet-like", "latent": 8, "widths": [8, 8], "channels": [2, 2, 2]}
MEMORIES = {"memory": 4, "replay": 2, "reference": 4, "updates": 1, "private_width": 2, "head_units": 4, "epochs": 1}
MEMORIES |= {"images": 4}


@cache
def prepared() -> PreparedRun:
    place = Place(torch.device("cpu"), torch.float32)
    return PreparedRun(place, Shelf(Path("no data"), Cache(Path("no cache")), untracked))


class UnevenRun(PreparedRun):
    """Tasks of different numbers of classes, some of which return."""

    def stream(self, setting: Setting) -> Stream:
        labels = setting.stream.labels
        return uneven_stream(samples=60, labels=None if labels == "all" else labels)


def setting(learner: str, signal: str, schedule: str, labels: int | str, heads: str = "auto") -> Setting:
    own = LEARNERS[learner]
    big = "alexnet-like" in getattr(own, "models", ())
    fields = own.table.model_fields
    memories = MEMORIES | ({"memory": 20} if learner == "icarl" else {})  # which all classes of all tasks share
    pool = "unlabelled" if labels != "all" else "held-out" if signal == "true-labels" else "patches"
    order = "seeded" if schedule == "plateau" else "natural"
    tasks = {"scenario": "split", "classes_per_task": 2, "class_order": order, "samples": 16, "labels": labels}
    if "same-classes" in own.traits:
        tasks = {"scenario": "rotated", "samples": 80, "labels": labels if labels == "all" else 10}
    return Setting.model_validate(
        {
            "stream": tasks | {"tasks": 2, "batch": 4, "size": 12 if big else "own"},
            "model": SMALL if big else MLP | ({} if "own-network" in own.traits else {"heads": heads}),
            "learner": {"name": learner} | {key: value for key, value in memories.items() if key in fields},
            "signal": {"name": signal} | ({"latent": 4, "widths": [5]} if signal == "tnar" else {}),
            "policy": {"p": 1.0, "batch": 4},
            "pool": {"name": pool} | ({"count": 8} if pool == "patches" else {}),
            "schedule": SCHEDULES[schedule],
        }
    )


def names(registry: object) -> list[str]:
    return [name for name in registry.own if name not in OTHERS]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("schedule", "labels"), list(product(SCHEDULES, ("all", 8))))
@pytest.mark.parametrize("learner", sorted(names(LEARNERS)))
def test_what_is_not_refused_trains(learner: str, schedule: str, labels: int | str) -> None:
    own_network = "own-network" in LEARNERS[learner].traits
    if (schedule, labels) == ("constant", "all"):
        assert trains_with_signals(prepared(), learner, schedule, labels) >= (7 if own_network else 17)
    else:
        signals = SOME if labels != "all" else SOME[:3]
        some = trains_with_signals(prepared(), learner, schedule, labels, signals=signals)
        assert some >= (2 if own_network else len(signals) - 1)


@pytest.mark.parametrize(
    ("learner", "schedule", "labels", "heads"),
    [
        *((name, "constant", 8, "seen") for name in ("gem", "dcl", "a-gem", "der", "ewc")),
        ("joint", "plateau", "all", "all"),
    ],
)
def test_classes_of_several_tasks_compete(learner: str, schedule: str, labels: int | str, heads: str) -> None:
    assert trains_with_signals(prepared(), learner, schedule, labels, heads, SOME) >= 4


@pytest.mark.parametrize(
    ("learner", "heads"), [("a-gem", "auto"), ("joint", "auto"), ("gem", "seen"), ("icarl", "auto"), ("x-der", "seen")]
)
def test_tasks_of_different_numbers_of_classes_train(learner: str, heads: str) -> None:
    run = UnevenRun(prepared().place, prepared().shelf)
    assert trains_with_signals(run, learner, "constant", 8, heads, SOME) >= 4


def test_teachers_of_different_numbers_of_classes_train_a_student() -> None:
    run = UnevenRun(prepared().place, prepared().shelf)
    assert trains_with_signals(run, "cfa", "constant", 8, "seen", signals=("none", "predicted")) == 2


def trains_with_signals(
    run: PreparedRun,
    learner: str,
    schedule: str,
    labels: int | str,
    heads: str = "auto",
    signals: Sequence[str] = tuple(sorted(SIGNALS.own - {*OTHERS})),
) -> int:
    """With how many signals the learner trained."""
    trained = 0
    for signal in signals:
        own = setting(learner, signal, schedule, labels, heads)
        if contradiction(own) is not None:
            continue
        try:
            check(own, run.stream(own))
        except GradcastError as error:
            if "linear layer" not in str(error):  # a network without features of its own
                raise
            continue
        loop = run.loop(own, [0, 1])
        before = loop.trainer.model.theta.clone()
        loop.run([])
        after = loop.trainer.model.theta
        assert torch.isfinite(after).all(), signal
        assert not torch.equal(before, after), signal
        trained += 1
    return trained
