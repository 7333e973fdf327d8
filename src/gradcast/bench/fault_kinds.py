"""Small runs of every kind, to be hit by faults: one group of seeds and two, few labels, ACL, a published table."""

import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import torch

from gradcast.bench.faults import Attempt, Trial, strike
from gradcast.runs import row_training
from gradcast.runs.checkpoint.keeper import Safety
from gradcast.runs.run import run
from gradcast.specs import text as specfile
from gradcast.specs.spec import Spec

STREAM = (
    "stream.tasks=2",
    "stream.samples=20",
    "learner.memory=8",
    "model.hidden=[8]",
    "pool.count=20",
    "policy.p=0.5",
)
COURSE = (
    "schedule.steps=8",
    "schedule.warm_up=2",
    "schedule.milestones=[6]",
    "schedule.ramp=2",
    "schedule.test_every=4",
)
CONVOLUTIONS = (
    "model.latent=8",
    "model.widths=[8, 8, 8]",
    "model.channels=[2, 4, 4]",
    "schedule.epochs=1",
    "pool.count=40",
)
TABLE, TABLE_ROWS = "E1", "gem,gem-predicted"


def small(preset: str, settings: tuple[str, ...], seeds: list[int], rows: int) -> Spec:
    """The first rows of a preset, shrunk."""
    spec = specfile.load(preset, [*settings, f"seeds={seeds}"])
    return spec.model_copy(update={"rows": spec.rows[:rows]})


def trained(spec: Spec) -> Attempt:
    """A run with a checkpoint every three steps."""

    def attempt(out: Path) -> None:
        with warnings.catch_warnings(action="ignore"):
            run(spec, out=out, device="cpu", safety=Safety(minutes=0, steps=3))

    return attempt


def in_two_groups(attempt: Attempt) -> Attempt:
    """The same where memory holds but one seed at a time."""

    def split(out: Path) -> None:
        def apart(_: object, __: object, seeds: list[int], ___: object) -> list[list[int]]:
            return [seeds[:1], seeds[1:]]

        with patch.object(row_training, "together", apart):
            attempt(out)

    return split


def table(out: Path) -> None:
    """Two rows of a published table, on embedded digits."""
    from gradcast.cli.reproduce_command import reproduce

    settings = ["stream.source=digits", "pool.name=patches", *STREAM]
    with warnings.catch_warnings(action="ignore"):
        reproduce(TABLE, rows=TABLE_ROWS, seeds=1, settings=settings, out=out, device="cpu")


def all_faults(say: Callable[[str], None]) -> list[Trial]:
    """Every kind of run, hit by every fault at each of its file operations."""
    load_libraries()
    torch.set_num_threads(1)  # threads do not survive a fork
    with TemporaryDirectory() as folder:
        return list(strike(kinds(), Path(folder).resolve(), say=say))


def load_libraries() -> None:
    """What runs import when they need it, once for all forks."""
    import torch._dynamo  # noqa: F401 -- optimizers import it


def kinds() -> dict[str, Attempt]:
    """All of them by name."""
    streams = trained(small("digits", STREAM, [0, 1], 2))
    made: dict[str, Callable[[Path], None]] = {
        "one-group": streams,
        "two-groups": in_two_groups(streams),
        "few-labels": trained(small("digits-100", COURSE, [0], 2)),
        "acl": trained(small("acl-digits", CONVOLUTIONS, [0], 1)),
        "table": table,
    }
    return made
