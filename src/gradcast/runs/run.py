"""Runs a specification: every row that is not finished yet, all seeds of a row together."""

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gradcast import devices
from gradcast.cluster.ranks import Ranks
from gradcast.cluster.same_files import hand_out
from gradcast.data.cache import Cache, default_cache
from gradcast.data.images import Inputs, Source
from gradcast.data.load import Shelf, default_data, task_places, untracked
from gradcast.data.own_images import inputs
from gradcast.data.own_tasks import OwnTasks
from gradcast.errors import Diverged, GradcastError
from gradcast.head_start.make import UNFINISHED
from gradcast.results.report import write_report
from gradcast.results.result import RowResult, read
from gradcast.runs.cautions import warn_of_surprises
from gradcast.runs.cell_key import cell_key
from gradcast.runs.checkpoint.attempt import Attempt, tidy
from gradcast.runs.checkpoint.keeper import Safety
from gradcast.runs.checkpoint.stop import Stop
from gradcast.runs.directory import GROUPS, RunDirectory
from gradcast.runs.jsontext import to_json
from gradcast.runs.manifest import check_all
from gradcast.runs.memory_errors import enough_memory
from gradcast.runs.prepared import Display, Planning, PreparedRun
from gradcast.runs.reuse import Reuse
from gradcast.runs.row_training import assemble_row, train_row
from gradcast.runs.safe_files import write_text
from gradcast.runs.seed_store import STORE, SeedStore
from gradcast.runs.survivors import train_survivors
from gradcast.runs.trackers import Tracker
from gradcast.specs import text as specfile
from gradcast.specs.fit import check
from gradcast.specs.spec import Row, Spec, StreamSpec

RESULT = "result.json"
ANY_PLACE = devices.Place(torch.device("cpu"), torch.float32)  # where nothing is trained


def run(
    spec: Spec,
    *,
    out: Path | str = "runs",
    data: Path | str | None = None,
    device: str = "auto",
    source: Source | OwnTasks | None = None,
    pool: np.ndarray | torch.Tensor | None = None,
    display: Display | None = None,
    trackers: Sequence[Tracker] = (),
    safety: Safety | None = None,
    store: Path | None = None,
    reuse: bool = True,
    elsewhere: Mapping[str, str] | None = None,
    report: bool = True,
    ranks: Ranks | None = None,
) -> tuple[RunDirectory, list[RowResult]]:
    """Train what is missing, write result, report and figure, and return where they are and what they say.

    ``data`` is the folder of datasets ($GRADCAST_DATA, else ./data). ``source`` (see ``own_data`` and ``own_tasks``)
    and ``pool`` (images of any accepted form) take the place of what the specification names. ``trackers`` hear of
    every number. ``safety`` says how often checkpoints are written and what becomes of steps that are not finite.
    SIGINT and SIGTERM end a run after a step and a checkpoint. Seeds that any run has trained are taken from the
    ``store`` (a folder below ``out`` by default) and handed on to it; not where ``reuse`` is false. Nothing is trained
    where cells were trained ``elsewhere``, which has a sentence for each that failed, by its name. Without ``report``
    only seeds and rows are written: somebody else tells what they say. Of several ``ranks`` the first one writes here.
    """
    place = devices.choose_place(device, spec.dtype, ranks) if elsewhere is None else ANY_PLACE
    with nullcontext() if ranks is None else ranks.one_here_first():
        spec, shared, content = prepare(spec, place, data=data, source=source, pool=pool, display=display)
    warn_of_surprises(spec, shared)
    safety, stop, failed = safety or Safety(), Stop(), list[str]()
    skips = safety.on_nan == "skip"
    keys = [cell_key(row.setting, spec.dtype, own, skips=skips) for row, own in zip(spec.rows, content, strict=True)]
    out, store = (own if ranks is None else ranks.own(own) for own in (Path(out), store or Path(out) / STORE))
    directory = RunDirectory.named(out, spec, json.dumps(content))
    seeds = SeedStore(store) if reuse else None
    if safety.start == "resume" and (ranks is None or ranks.first):
        _need_checkpoint(directory, spec)
    with directory.locked(), stop.listening():
        hand_out(ranks, [directory.path, *([] if seeds is None else [store / key.name for key in keys])])
        directory.begin(spec)
        _plan(display, spec, directory)
        for tracker in trackers:
            tracker.begin(directory.path, {row.name: row.setting.model_dump() for row in spec.rows})
        try:
            for row, key in zip(spec.rows, keys, strict=True):
                known = Reuse(key, seeds)
                if not directory.finished(row.name):
                    fresh = safety.start == "fresh" and elsewhere is None
                    known = Reuse.of(seeds, key, spec.seeds, fresh=fresh)
                    if elsewhere is not None and set(known.found) != set(spec.seeds):
                        failed.append(f"row {row.name!r}: {elsewhere.get(key.name, 'not all seeds were trained')}")
                        continue
                    _train_row(spec, row, directory, shared, known, trackers, safety, stop)
                else:
                    check_all(directory.path / row.name)
                    tidy(directory.path / row.name)
                    if display is not None:
                        display.skipped(row.label)
                known.keep(directory, row.name)
        finally:  # what is finished is reported, whatever happened to the rest
            for tracker in trackers:
                tracker.end()
            first = ranks is None or ranks.first
            results = conclude(directory) if report and first else read(directory) if report else []
    if failed:
        raise GradcastError(failed[0] + (f" (and {len(failed) - 1} more rows failed)" if failed[1:] else ""))
    gone = [row.name for row in spec.rows if not directory.finished(row.name)]
    if gone:
        raise GradcastError(
            f"{directory.path / gone[0]} was deleted while other rows were trained; the same command trains it again"
        )
    return directory, results


def prepare(
    spec: Spec,
    place: devices.Place,
    *,
    data: Path | str | None,
    source: Source | OwnTasks | None,
    pool: np.ndarray | torch.Tensor | None,
    display: Display | None,
) -> tuple[Spec, PreparedRun, list[dict[str, str]]]:
    """The specification as it will be trained, its streams and pools, and digests of each row's data; all checked."""
    images = None if pool is None else inputs(pool)
    spec = _with_own_data(spec, source, images)
    track = untracked if display is None else display.track
    folder = default_data() if data is None else Path(data)
    shelf = Shelf(folder, Cache(default_cache()), track)
    spec = _with_counted_tasks(spec, shelf)
    shared = PreparedRun(place, shelf, source, images, display)
    with enough_memory(len(spec.seeds)):
        content = [shared.content(row.setting) for row in spec.rows]  # bad data shows before anything is written
        for row in spec.rows:
            check(row.setting, shared.stream(row.setting), spec.seeds)
    return spec, shared, content


def conclude(directory: RunDirectory) -> list[RowResult]:
    """The results of all finished rows, written beside them; result.json comes last, so that it tells of all files."""
    results = read(directory)
    if results:
        write_report(directory, results)
        write_text(directory.path / RESULT, to_json([result.as_dict() for result in results]))
    return results


def complete(directory: RunDirectory) -> None:
    """Write what a run that was killed after its last step could not: its results, its report, its pictures."""
    finished = [directory.path / row.name for row in directory.spec.rows if directory.finished(row.name)]
    if (directory.path / RESULT).is_file() and not any((row / GROUPS).exists() for row in finished):
        return
    with directory.locked():
        for row in finished:
            tidy(row)
        conclude(directory)


def _need_checkpoint(directory: RunDirectory, spec: Spec) -> None:
    """Somebody who asks for the rest of a run would be surprised by a whole one."""
    unfinished = [row.name for row in spec.rows if not directory.finished(row.name)]
    ahead = any(directory.path.glob(f"{UNFINISHED}*"))
    left = {name: [seed for seed in spec.seeds if seed not in directory.diverged(name)] for name in unfinished}
    if not ahead and not any(Attempt.earlier(directory, name, left[name]) for name in unfinished):
        raise GradcastError(
            f"there is no unfinished run of this specification in {directory.path}; run it without --resume"
        )


def _with_counted_tasks(spec: Spec, shelf: Shelf) -> Spec:
    """The specification says how many tasks of the user's own there are, so that nobody has to look again."""
    rows = []
    for row in spec.rows:
        own = row.setting.stream
        if own.tasks == "own":
            own = own.model_copy(update={"tasks": len(task_places(own.path, shelf))})
        rows.append(row.model_copy(update={"setting": row.setting.model_copy(update={"stream": own})}))
    return spec.model_copy(update={"rows": rows})


def _with_own_data(spec: Spec, source: Source | OwnTasks | None, images: Inputs | None) -> Spec:
    """The specification says where the caller's own data take the place of named ones."""
    change: dict[str, Any] = {}
    if source is not None:
        change["stream"] = {"source": "python", "path": ""}
    if isinstance(source, OwnTasks):
        default = {key: StreamSpec.model_fields[key].default for key in specfile.OF_SCENARIOS}
        change["stream"] |= default | {"scenario": "own", "tasks": len(source.names)}
    if images is not None:
        change["pool"] = {"name": "python"}
    spec = specfile.override(spec, change)
    if source is not None:
        words = f"{source.name}, with the settings of {spec.name}"
        spec = spec.model_copy(update={"name": specfile.run_name(source.name), "title": words})
    if source is None and any(row.setting.stream.source == "python" for row in spec.rows):
        raise GradcastError("the source 'python' needs images from the caller: gradcast.run(spec, source=...)")
    if images is None and any(pool.name == "python" for row in spec.rows for pool in row.setting.pool):
        raise GradcastError("the pool 'python' needs images from the caller: gradcast.run(spec, pool=...)")
    return spec


def _plan(display: Display | None, spec: Spec, directory: RunDirectory) -> None:
    """Which rows will be trained, for the time left of all."""
    if isinstance(display, Planning):
        display.plan([row.label for row in spec.rows if not directory.finished(row.name)])


def _train_row(
    spec: Spec,
    row: Row,
    directory: RunDirectory,
    shared: PreparedRun,
    known: Reuse,
    trackers: Sequence[Tracker],
    safety: Safety,
    stop: Stop,
) -> None:
    """One row; seeds that diverge are written down, and the others trained without them."""
    lost = {} if safety.start == "fresh" else directory.diverged(row.name)
    directory.lose(row.name, lost | known.diverged)
    missing = [seed for seed in spec.seeds if seed not in known.trained]

    def of(seeds: list[int]) -> None:
        own = spec.model_copy(update={"seeds": seeds})
        train_row(own, row, directory, shared, known, trackers, safety, stop)

    if shared.display is not None and known.trained:
        _tell(shared.display, row.label, known, missing)
    try:
        if not known.trained or not all(seed in lost | known.diverged for seed in missing):
            train_survivors(directory, row.name, missing, of, fresh=safety.start == "fresh")
            return
    except Diverged:
        if not known.trained:
            raise
    assemble_row(row, directory, shared, known)


def _tell(display: Display, label: str, known: Reuse, missing: Sequence[int]) -> None:
    """What other runs have trained of a row."""
    if missing:
        named = ", ".join(map(str, known.trained))
        display.note(f"{label}: {'seed' if len(known.trained) == 1 else 'seeds'} {named} trained earlier, not again")
    else:
        display.skipped(label)
