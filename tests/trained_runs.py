"""A finished small run, made once for all tests that only look at it."""

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from gradcast.results.result import RowResult
from gradcast.runs.directory import RunDirectory
from gradcast.runs.run import run
from gradcast.specs.spec import Spec
from gradcast.specs.text import load, parse

SMALL = (
    "stream.tasks=3",
    "stream.samples=40",
    "learner.memory=16",
    "model.hidden=[12]",
    "pool.count=40",
    "policy.p=0.5",
)


def small(*settings: str) -> Spec:
    """The default preset, shrunk to less than a second."""
    return load("digits", [*SMALL, "seeds=[0, 1, 2]", *settings])


@cache
def finished() -> tuple[RunDirectory, list[RowResult]]:
    """Its directory and results."""
    return run(small(), out=Path(mkdtemp()), device="cpu")


@cache
def class_incremental() -> tuple[RunDirectory, list[RowResult]]:
    """A finished run on split digits, whose classes compete in the base; tests know the task and do not."""
    learner = {"name": "er", "memory": 10, "replay": 5}
    rows = [
        {"name": "er"},
        {"name": "finetune", "learner": {"name": "finetune"}},
        {"name": "masked", "model": {"heads": "masked"}},
    ]
    stream = {"scenario": "split", "tasks": 4, "classes_per_task": 2, "samples": 80, "batch": 5}
    model = {"hidden": [16], "heads": "seen"}
    spec = parse({"name": "split", "seeds": [0, 1], "stream": stream, "model": model, "learner": learner, "row": rows})
    return run(spec, out=Path(mkdtemp()), device="cpu")


@cache
def few_labels() -> tuple[RunDirectory, list[RowResult]]:
    """A finished run of one task with few labels, tested after steps 5, 10, 15 and 20, and its results."""
    short = [
        "schedule.steps=20",
        "schedule.warm_up=2",
        "schedule.milestones=[15]",
        "schedule.ramp=2",
        "schedule.test_every=5",
    ]
    spec = load("digits-100", [*short, "seeds=[0, 1, 2]"])
    rows = [row for row in spec.rows if row.name in ("supervised", "mg", "soft", "mean-teacher")]
    return run(spec.model_copy(update={"rows": rows}), out=Path(mkdtemp()), device="cpu")


def begun(out: Path) -> RunDirectory:
    """A directory whose row *base* has just been begun, with the seeds 0 and 7."""
    spec = load("digits", ["seeds=[0, 7]"])
    made = RunDirectory.named(out, spec).begin(spec)
    made.start("base", [0, 7])
    return made
