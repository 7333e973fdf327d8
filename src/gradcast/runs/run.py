"""Runs a specification: every row that is not finished yet, all seeds of a row together."""

import json
import warnings
from collections.abc import Mapping, Sequence
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gradcast import devices
from gradcast.data.cache import Cache, default_cache
from gradcast.data.images import Pixels, Source
from gradcast.data.load import Shelf, default_data, untracked
from gradcast.data.own_images import pixels
from gradcast.errors import GradcastError
from gradcast.head_start.make import UNFINISHED, Saving
from gradcast.head_start.store import CURVES, TIMES, HeadStart
from gradcast.results.feature_files import write_feature_map
from gradcast.results.report import write_report
from gradcast.results.result import RowResult, read
from gradcast.runs import environment
from gradcast.runs.checkpoint.attempt import Attempt
from gradcast.runs.checkpoint.keeper import Checkpoints, Safety
from gradcast.runs.checkpoint.stop import Stop
from gradcast.runs.directory import RunDirectory, to_json, write_text
from gradcast.runs.memory_errors import enough_memory
from gradcast.runs.prepared import Display, PreparedRun, RowObserver
from gradcast.runs.recorder import Recorder
from gradcast.runs.survivors import train_survivors
from gradcast.runs.trackers import Tracker
from gradcast.specs import text as specfile
from gradcast.specs.fit import check
from gradcast.specs.spec import Row, Spec
from gradcast.training.grouping import together
from gradcast.training.loop import Position
from gradcast.training.schedule_tables import StepsSpec


def run(
    spec: Spec,
    *,
    out: Path | str = "runs",
    data: Path | str | None = None,
    device: str = "auto",
    source: Source | None = None,
    pool: np.ndarray | torch.Tensor | None = None,
    display: Display | None = None,
    trackers: Sequence[Tracker] = (),
    safety: Safety | None = None,
) -> tuple[RunDirectory, list[RowResult]]:
    """Train what is missing, write result, report and figure, and return where they are and what they say.

    ``data`` is the folder of datasets ($GRADCAST_DATA, else ./data). ``source`` (see ``own_data``) and ``pool``
    (images of any accepted form) take the place of what the specification names. ``trackers`` hear of every number.
    ``safety`` says how often checkpoints are written and what becomes of steps that are not finite. SIGINT and SIGTERM
    end a run after a step and a checkpoint.
    """
    images = None if pool is None else pixels(pool)
    spec = _with_own_data(spec, source, images)
    place = devices.choose_place(device, spec.dtype)
    track = untracked if display is None else display.track
    folder = default_data() if data is None else Path(data)
    shared = PreparedRun(place, Shelf(folder, Cache(default_cache()), track), source, images, display)
    content = [shared.content(row.setting) for row in spec.rows]  # bad data shows before anything is written
    with enough_memory(len(spec.seeds)):
        for row in spec.rows:
            check(row.setting, shared.stream(row.setting), spec.seeds)
    _warn_of_idle_signals(spec, shared)
    safety, stop = safety or Safety(), Stop()
    if safety.start == "resume":
        _need_checkpoint(RunDirectory.named(Path(out), spec, json.dumps(content)), spec)
    directory = RunDirectory.create(Path(out), spec, json.dumps(content))
    with directory.locked(), stop.listening():
        for tracker in trackers:
            tracker.begin(directory.path, {row.name: row.setting.model_dump() for row in spec.rows})
        try:
            for row in spec.rows:
                if not directory.finished(row.name):
                    _train_row(spec, row, directory, shared, trackers, safety, stop)
                elif display is not None:
                    display.skipped(row.label)
        finally:  # what is finished is reported, whatever happened to the rest
            for tracker in trackers:
                tracker.end()
            results = read(directory)
            if results:
                write_text(directory.path / "result.json", to_json([result.as_dict() for result in results]))
                write_report(directory, results)
    return directory, results


def _tell(directory: RunDirectory, row: str, ahead: Mapping[int, HeadStart], trackers: Sequence[Tracker]) -> None:
    """How each seed's head start went, beside its numbers and to whoever tracks them."""
    for seed, made in ahead.items():
        directory.head_start(row, seed, {name: told for name, told in made.told.items() if name not in TIMES})
        for tracker, name in product(trackers, CURVES):
            for step, value in made.told.get(name, []):
                tracker.scalars(row, seed, step, {f"head_start/{name}": value})


def _need_checkpoint(directory: RunDirectory, spec: Spec) -> None:
    """Somebody who asks for the rest of a run would be surprised by a whole one."""
    unfinished = [row.name for row in spec.rows if not directory.finished(row.name)]
    ahead = any(directory.path.glob(f"{UNFINISHED}*"))
    left = {name: [seed for seed in spec.seeds if seed not in directory.diverged(name)] for name in unfinished}
    if not ahead and not any(Attempt.earlier(directory, name, left[name]) for name in unfinished):
        raise GradcastError(
            f"there is no unfinished run of this specification in {directory.path}; run it without --resume"
        )


def _warn_of_idle_signals(spec: Spec, shared: PreparedRun) -> None:
    """A short stream may end before its signal begins: every row is then the base."""
    for setting in (row.setting for row in spec.rows if row.setting.signals):
        data, batch = shared.data(setting, spec.seeds[:1]), setting.stream.batch
        if setting.plateau is not None:
            what, steps = "an epoch", data.length(0, batch)  # where an epoch's batches count
        elif isinstance(setting.schedule, StepsSpec):
            what, steps = "the stream", data.tasks * setting.schedule.steps
        else:
            what, steps = "the stream", setting.stream.epochs * sum(data.length(t, batch) for t in range(data.tasks))
        if setting.policy.start >= steps:
            warnings.warn(
                f"{what} has {steps} steps and policy.start is {setting.policy.start}: no unlabelled image is "
                "used; lower policy.start to see the signal act",
                stacklevel=3,
            )
            return


def _with_own_data(spec: Spec, source: Source | None, images: Pixels | None) -> Spec:
    """The specification says where the caller's own data take the place of named ones."""
    change: dict[str, Any] = {}
    if source is not None:
        change["stream"] = {"source": "python", "path": ""}
    if images is not None:
        change["pool"] = {"name": "python"}
    spec = specfile.override(spec, change)
    if source is None and any(row.setting.stream.source == "python" for row in spec.rows):
        raise GradcastError("the source 'python' needs images from the caller: gradcast.run(spec, source=...)")
    if images is None and any(pool.name == "python" for row in spec.rows for pool in row.setting.pool):
        raise GradcastError("the pool 'python' needs images from the caller: gradcast.run(spec, pool=...)")
    return spec


def _train_row(
    spec: Spec,
    row: Row,
    directory: RunDirectory,
    shared: PreparedRun,
    trackers: Sequence[Tracker],
    safety: Safety,
    stop: Stop,
) -> None:
    """One row; seeds that diverge are written down, and the others trained without them."""

    def of(seeds: list[int]) -> None:
        train(spec.model_copy(update={"seeds": seeds}), row, directory, shared, trackers, safety, stop)

    train_survivors(directory, row.name, spec.seeds, of, fresh=safety.start == "fresh")


def train(
    spec: Spec,
    row: Row,
    directory: RunDirectory,
    shared: PreparedRun,
    trackers: Sequence[Tracker] = (),
    safety: Safety | None = None,
    stop: Stop | None = None,
) -> None:
    """One row, as many seeds at once as memory holds, recorded as it goes, from where an earlier attempt stopped."""
    safety, stop, folder, place = safety or Safety(), stop or Stop(), directory.path / row.name, shared.place
    stream, skips = shared.stream(row.setting), safety.on_nan == "skip"
    attempt = None if safety.start == "fresh" else Attempt.earlier(directory, row.name, spec.seeds)
    with enough_memory(len(spec.seeds)):
        made = shared.head_starts(row.setting, spec.seeds, Saving(directory.path, safety, stop))
        ahead = dict(zip(spec.seeds, made, strict=bool(made)))  # nothing where the row has none
        groups = together(row.setting, stream, spec.seeds, place) if attempt is None else attempt.groups
        left = [group for group in groups if attempt is None or not directory.trained(row.name, group)]
        loops = (shared.loop(row.setting, group, skips=skips) for group in left)
        ready = list(islice(loops, 1))
    attempt = attempt or Attempt.begin(directory, row.name, groups)
    directory.stream(row.name, {**shared.data(row.setting, spec.seeds[:1]).describe(), **shared.content(row.setting)})
    facts, watch, shown = environment.describe(place.device), attempt.watch(), list[RowObserver]()
    for index, group in enumerate(left, len(groups) - len(left)):
        loop = ready.pop() if ready else next(loops)  # nothing else holds it: the next group needs the memory
        recorder = Recorder(directory, row.name, loop.seeds, trackers, every=loop.extent.every)
        parts = {"loop": loop, "recorder": recorder, "watch": watch}
        keeper = Checkpoints(
            folder, safety, stop, seeds=group, parts=parts, log=recorder, facts=facts, device=place.device
        )
        if keeper.position is None:
            directory.clear(row.name, loop.seeds)
            _tell(directory, row.name, {seed: ahead[seed] for seed in group if seed in ahead}, trackers)
        if shared.display is not None and not shown:
            shown.append(shared.display.row(row.label, loop.extent, len(groups), keeper.position))
        for observer in shown:
            observer.begin(index, keeper.position or Position())
        try:
            with enough_memory(len(loop.seeds)):
                loop.run([recorder, watch, *shown], keeper)
            recorder.close()
        finally:
            recorder.flush()
            keeper.close()
        if index == 0 and (found := loop.trainer.feature_map(loop.data)) is not None:
            write_feature_map(directory.seed(row.name, spec.seeds[0]), found)
        state = loop.state()
        for replica, seed in enumerate(loop.seeds):
            directory.weights(row.name, seed, {name: rows[replica].clone() for name, rows in state.items()})
        attempt.group_done(folder, watch)
    batch = len(spec.seeds) * row.setting.stream.batch
    images = None  # where a task ends when it has learned enough
    if isinstance(row.setting.schedule, StepsSpec):
        images = [row.setting.schedule.steps * batch] * len(stream.tasks)
    elif row.setting.plateau is None:
        times = len(spec.seeds) * row.setting.stream.epochs
        images = [times * stream.count(task) for task in range(len(stream.tasks))]
    time_taken = {"started": attempt.started, "seeds_at_once": len(groups[0])} | watch.as_dict(images, batch)
    if made:
        time_taken["head_start"] = [{name: own.told.get(name) for name in TIMES} for own in made]
    directory.finish(row.name, facts | {"time": time_taken})
    attempt.finish(folder)
