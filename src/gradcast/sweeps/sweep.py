"""``gradcast.sweep``: trials on tuning seeds and held-out images, then the best against the base on fresh seeds."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from gradcast.cluster.cell_task import Cluster
from gradcast.data.images import Source
from gradcast.data.own_tasks import OwnTasks
from gradcast.errors import GradcastError
from gradcast.results.run_result import RunResult
from gradcast.runs.api import progress_display, run, set_threads
from gradcast.runs.cell_key import digest
from gradcast.runs.run import ANY_PLACE, prepare
from gradcast.runs.safe_files import locked, make_folder, write_text
from gradcast.specs.spec import Spec
from gradcast.specs.text import dump
from gradcast.sweeps.candidates import Candidates, best_spec, caution, tuning_spec
from gradcast.sweeps.over import Value, all_over, as_text
from gradcast.sweeps.request import SweepTable, requested, tuned_row
from gradcast.sweeps.search import Listed, Proposals, corners, proposals
from gradcast.sweeps.sweep_files import BEST, PAGE, SweepPlan, stopped_earlier
from gradcast.sweeps.trials import Trial, best_of
from gradcast.sweeps.tuning import Tuning, Where, workers


@dataclass(frozen=True, eq=False)
class SweepResult:
    """A finished sweep.

    Attributes:
        directory: trials.csv, sweep.toml, best.toml, sweep.json and the page sweep.html.
        trials: in the order in which they were made.
        best: the trial with the highest mean accuracy.
        spec: the best setting beside the base, as best.toml has it.
        result: the final comparison, on fresh seeds and the test images.
        caution: what the final comparison does not show, where the base was not tuned; else empty.
    """

    directory: Path
    trials: list[Trial]
    best: Trial
    spec: Spec
    result: RunResult
    caution: str = ""


def sweep(
    spec: Spec,
    over: Mapping[str, Sequence[Value] | str] | Sequence[str],
    *,
    out: Path | str = "runs",
    data: Path | str | None = None,
    device: str = "auto",
    threads: int | None = None,
    progress: bool | None = None,
    source: Source | OwnTasks | None = None,
    pool: np.ndarray | Tensor | None = None,
    on: str | None = None,
    at_once: int | None = None,
    **options: Any,  # noqa: ANN401 -- keys of a table, which checks them
) -> SweepResult:
    """Tune a row of a specification, then compare the best setting with the base.

    Trials have seeds of their own (100, 101, ...) and are tested on training images that are held out of training.
    The best is compared with the first row on seeds 0 to 9 and the test images. The same call never trains a trial
    twice.

    Arguments that are not listed are those of ``gradcast.run``.

    Args:
        spec: what to tune, as ``gradcast.load`` or ``gradcast.parse`` gives it.
        over: values by key, as in ``{"signal.alpha": [0.001, 0.01], "learner.lr": "log:0.01:0.3:5"}``.
        options: ``row``, ``search`` ("grid", "random", "tpe"), ``trials``, ``search_seed``, ``tune_seeds``,
            ``tune_tasks``, ``validation``, ``prune``, ``prune_after``, ``seeds`` and ``parallel``, as the options of
            ``gradcast sweep``.
    """
    set_threads(threads)
    asked = requested({**options, "over": as_text(over)})
    cluster = None if on is None else Cluster(on, threads, at_once)
    where = Where(Path(out), data, device, source, pool, cluster)
    plan, candidates, search, total = planned(spec, asked, where)
    make_folder(where.out)
    taken = f"another process is writing {plan.folder}; wait for it or choose another --out"
    with locked(where.out / f".{plan.folder.name}.lock", taken):
        make_folder(plan.folder)
        plan.begin()
        with progress_display(progress) as display:
            earlier = stopped_earlier(plan.folder)
            after = asked.prune_after if asked.prune else None
            tuning = Tuning(candidates, where, plan.folder, after, earlier, plan.keep, display)
            trials = tuning.run(search, total, batch_size(plan.asked, search, total, cluster))
        best = best_of(trials)
        if best is None:
            raise GradcastError(f"no trial was finished: trial {trials[0].number} {trials[0].state}, {trials[0].note}")
        final = best_spec(spec, plan.row, best.values, asked.final_seeds)
        write_text(plan.folder / BEST, dump(final))
        result = run(
            final,
            out=out,
            data=data,
            device=device,
            threads=threads,
            progress=progress,
            source=source,
            pool=pool,
            on=on,
            at_once=at_once,
        )
        warned = caution(final, plan.keys)
        plan.keep(trials, result, warned)
        from gradcast.sweeps.sweep_page import sweep_page  # here, not above: importing gradcast stays fast

        write_text(plan.folder / PAGE, sweep_page(plan, trials, best, final, result, warned))
    return SweepResult(plan.folder, trials, best, final, result, warned)


def planned(spec: Spec, asked: SweepTable, where: Where) -> tuple[SweepPlan, Candidates, Proposals, int]:
    """Everything that can be known before anything is trained, checked."""
    named, over = all_over(asked.over)
    if named and asked.row and named != asked.row:
        raise GradcastError(f"--over names the row {named!r} and --row {asked.row!r}; leave one of them out")
    row = tuned_row(spec, asked.row or named)
    if asked.prune and where.cluster is not None:
        raise GradcastError(
            "--prune stops a trial by the trials before it, which are not known where trials run side by side; leave "
            "out --prune, or --on"
        )
    if asked.parallel is not None and (asked.search != "tpe" or where.cluster is None):
        raise GradcastError("--parallel is how many trials --search tpe proposes at once with --on ray; leave it out")
    prepared = tuning_spec(spec, row, asked)
    ready, shared, content = prepare(
        prepared, ANY_PLACE, data=where.data, source=where.source, pool=where.pool, display=None
    )
    candidates = Candidates(ready, shared)
    tasks = ready.rows[0].setting.stream.task_count
    if asked.prune and asked.prune_after >= tasks:
        raise GradcastError(f"--prune-after {asked.prune_after} of {tasks} tasks stops no trial; lower it")
    over = [own.for_setting(candidates.present(own)) for own in over]
    search, total = proposals(asked.search, over, asked.trials, asked.search_seed)
    known = list(islice(search.waiting, total)) if isinstance(search, Listed) else list(corners(over))
    candidates.refuse_useless(known)
    if isinstance(search, Listed):
        search = Listed(iter(known))
    facts = {"asked": asked.model_dump(), "spec": spec.model_dump(), "content": content}
    folder = where.out / f"sweep-{spec.name}-{digest(json.loads(json.dumps(facts)))[:8]}"
    return SweepPlan(folder, spec, row, asked, over), candidates, search, total


def batch_size(asked: SweepTable, search: Proposals, total: int, cluster: Cluster | None) -> int:
    """Trials at once: one here; by Ray all that are known beforehand, else as many as there are workers."""
    if cluster is None:
        return 1
    return total if isinstance(search, Listed) else asked.parallel or workers(cluster)
