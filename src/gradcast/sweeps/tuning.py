"""Runs the trials of a sweep: from the store where their seeds are trained already, here, or by Ray."""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gradcast.cluster.cell_task import Cluster
from gradcast.data.images import Source
from gradcast.data.own_tasks import OwnTasks
from gradcast.errors import Diverged, GradcastError
from gradcast.runs import run as runs
from gradcast.runs.prepared import Display
from gradcast.runs.seed_store import STORE, SeedStore, TrainedSeed
from gradcast.specs.spec import Spec
from gradcast.sweeps.candidates import Candidates
from gradcast.sweeps.pruning import MedianRule, TrialStopped
from gradcast.sweeps.search import Proposals, said
from gradcast.sweeps.trial_display import Progress, TrialDisplay
from gradcast.sweeps.trials import Trial, best_of, concluded, stored_curves

UNFINISHED = "unfinished"  # folder of a sweep: checkpoints of the trial that trains


@dataclass(frozen=True)
class Where:
    """Where runs are written, with which data, and who trains."""

    out: Path
    data: Path | str | None = None
    device: str = "auto"
    source: Source | OwnTasks | None = None
    pool: Any = None
    cluster: Cluster | None = None


@dataclass
class Tuning:
    """The trials of a sweep on their way; ``earlier`` are those that were stopped before the process was."""

    candidates: Candidates
    where: Where
    folder: Path
    prune_after: int | None
    earlier: Mapping[str, Trial]
    keep: Callable[[Sequence[Trial]], None]  # writes down what is known so far
    display: Display | None = None
    trials: list[Trial] = field(default_factory=list)
    finished: list[dict[int, list[float]]] = field(default_factory=list)  # accuracies after each task, by seed

    @property
    def store(self) -> SeedStore:
        """Of all runs below the same folder."""
        return SeedStore(self.where.out / STORE)

    def run(self, proposals: Proposals, total: int, batch: int) -> list[Trial]:
        """All trials, in the order of the search; so many at once."""
        progress = Progress(self.display, total)
        while proposed := proposals.next(batch):
            begun = [Trial(number=len(self.trials) + 1 + place, values=own) for place, own in enumerate(proposed)]
            failed = self._train_ahead(begun)
            for trial in begun:
                done = self._one(trial, failed, progress)
                self.trials.append(done)
                proposals.tell(done.values, done.told)
                best = best_of(self.trials)
                self.keep(self.trials)
                progress.one_more(None if best is None else best.mean)
        shutil.rmtree(self.folder / UNFINISHED, ignore_errors=True)
        return self.trials

    def _train_ahead(self, begun: Sequence[Trial]) -> dict[str, str] | None:
        """Side by side, where there is a cluster; a sentence for each cell that failed."""
        if self.where.cluster is None:
            return None
        from gradcast.cluster.train_ahead import train_ahead  # here: Ray is loaded where it is used

        specs = [self.candidates.spec(own.values) for own in begun if not self.candidates.problem(own.values)]
        where = self.where
        return train_ahead(
            specs,
            self.where.cluster,
            out=where.out,
            data=where.data,
            device=where.device,
            source=where.source,
            pool=where.pool,
            display=self.display,
        )

    def _one(self, trial: Trial, failed: Mapping[str, str] | None, progress: Progress) -> Trial:
        """From the store, from the files of a killed sweep, or trained now."""
        try:
            spec = self.candidates.spec(trial.values)
        except GradcastError as error:
            return trial.model_copy(update={"state": "refused", "note": str(error)})
        key = self.candidates.key(spec)
        if set(spec.seeds) - self.store.seeds(key):
            before = self.earlier.get(said(trial.values))
            if before is not None:
                return before.model_copy(update={"number": trial.number})
            if failed is not None:
                note = failed.get(key.name, "not all seeds were trained")
                return trial.model_copy(update={"state": "failed", "note": note})
            ended = self._train(trial, spec, progress)
            shutil.rmtree(self.folder / UNFINISHED, ignore_errors=True)  # not where a signal stops it: it goes on later
            if ended is not None:
                return ended
        curves, diverged = stored_curves(self.store, key, spec.seeds)
        done = concluded(trial, curves, diverged)
        if done.state == "finished" and (tasks := self._stops(curves)) is not None:
            return _stopped(trial, tasks, {seed: own[tasks - 1] for seed, own in curves.items()}, spec)
        if done.state == "finished":
            self.finished.append(curves)
        return done

    @property
    def rule(self) -> MedianRule | None:
        """The pruning rule of the next trial."""
        return None if self.prune_after is None else MedianRule(self.prune_after, list(self.finished))

    def _stops(self, curves: Mapping[int, Sequence[float]]) -> int | None:
        """After how many tasks the rule stops a trial that some other sweep has trained: it is judged alike."""
        rule, last = self.rule, min(map(len, curves.values()))
        if rule is None:
            return None
        so_far = {tasks: {seed: own[tasks - 1] for seed, own in curves.items()} for tasks in range(1, last)}
        return next((tasks for tasks, own in so_far.items() if rule.stops(own, tasks)), None)

    def _train(self, trial: Trial, spec: Spec, progress: Progress) -> Trial | None:
        """Into the store; the trial where it ends without that."""
        where, scratch = self.where, self.folder / UNFINISHED
        try:
            runs.run(
                spec,
                out=scratch,
                data=where.data,
                device=where.device,
                source=where.source,
                pool=where.pool,
                display=TrialDisplay(progress.part, self.rule),
                store=self.store.path,
                report=False,
            )
        except TrialStopped as stopped:
            return _stopped(trial, stopped.tasks, stopped.accuracy, spec)
        except Diverged as error:  # of all seeds, which the run itself does not hand on
            for seed in spec.seeds:
                lost = TrainedSeed(seed=seed, origin={}, diverged=str(error))
                self.store.keep(self.candidates.key(spec), lost, scratch)
            return None
        except GradcastError as error:
            return trial.model_copy(update={"state": "failed", "note": str(error)})
        return None


def _stopped(trial: Trial, tasks: int, accuracy: Mapping[int, float], spec: Spec) -> Trial:
    note = f"after {tasks} of {spec.rows[0].setting.stream.task_count} tasks"
    return trial.model_copy(update={"state": "stopped", "accuracy": dict(accuracy), "tasks": tasks, "note": note})


def workers(cluster: Cluster) -> int:
    """How many trials this machine trains at once."""
    return max((os.cpu_count() or 1) // (cluster.threads or 1), 1)
