"""A small finished sweep, made once for all tests that only look at it."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from gradcast.data.images import Source
from gradcast.specs.spec import Spec
from gradcast.sweeps.over import Value, as_text
from gradcast.sweeps.request import requested
from gradcast.sweeps.sweep import SweepResult, planned, sweep
from gradcast.sweeps.trials import Trial
from gradcast.sweeps.tuning import Tuning, Where
from tests.trained_runs import small

OVER = {"signal.alpha": [0.001, 0.1], "learner.lr": "log:0.05:0.2:2"}


@cache
def tuned() -> SweepResult:
    """Two keys, two values each, one of them with a logarithmic axis."""
    return sweep(small(), OVER, row="predicted", tune_seeds=2, seeds=2, out=Path(mkdtemp()), device="cpu")


def trials_only(
    spec: Spec, over: Mapping[str, Sequence[Value]], out: Path, *, source: Source | None = None, **asked: object
) -> list[Trial]:
    """The trials of a sweep, without its final comparison and its page."""
    table = requested({**asked, "over": as_text(over)})
    where = Where(out, device="cpu", source=source)
    plan, candidates, search, total = planned(spec, table, where)
    after = table.prune_after if table.prune else None
    return Tuning(candidates, where, plan.folder, after, {}, lambda trials: None).run(search, total, 1)
