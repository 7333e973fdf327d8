import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gradcast.bench.faults import difference, snapshot
from gradcast.cluster import worker
from gradcast.cluster.cell_task import CellTask, Conditions, unpack
from gradcast.cluster.relay import Progress, Relay
from gradcast.cluster.worker import Outcome, train_cell, versions
from gradcast.runs import run as run_module
from gradcast.runs.cell_key import cell_key
from gradcast.runs.checkpoint.keeper import Checkpoints, Safety
from gradcast.runs.run import ANY_PLACE, prepare, run
from gradcast.runs.seed_store import SeedStore
from gradcast.training.loop import Position
from tests.trained_runs import small


@pytest.fixture(autouse=True)
def _back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(worker, "use_threads", lambda count: torch.set_num_threads(1))


class Here(Relay):
    """The relay without a network."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        self.heard: list[Progress] = []

    def tell(self, task: str, progress: Progress) -> None:
        self.heard.append(progress)


def task(*settings: str) -> CellTask:
    spec = small("seeds=[0, 1]", *settings)
    spec = spec.model_copy(update={"rows": [spec.rows[1]]})
    _, _, (content,) = prepare(spec, ANY_PLACE, data=None, source=None, pool=None, display=None)
    return CellTask(spec, cell_key(spec.rows[0].setting, spec.dtype, content))


def conditions(tmp_path: Path, safety: Safety | None = None) -> Conditions:
    return Conditions(tmp_path, tmp_path / "data", "cpu", 1, safety or Safety(), versions())


def stored(outcome: Outcome, folder: Path) -> SeedStore:
    assert outcome.problem == ""
    unpack(outcome.files, folder)
    return SeedStore(folder)


def test_what_comes_back_is_what_a_run_here_hands_on(tmp_path: Path) -> None:
    own, relay = task(), Here(tmp_path / "relay")
    found = stored(train_cell(own, conditions(tmp_path), relay), tmp_path / "back")
    run(own.spec, out=tmp_path / "runs", device="cpu")
    assert difference(snapshot(tmp_path / "runs" / "store"), snapshot(found.path)) == ""
    assert found.seeds(own.key) == {0, 1}
    assert relay.heard[-1].total == 12
    assert relay.heard[-1].node


def test_a_lost_worker_costs_the_steps_since_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first attempt dies after a checkpoint was sent, the second ends at the bytes of one that nobody stopped."""
    own, relay, often = task(), Here(tmp_path / "relay"), conditions(tmp_path, Safety(minutes=0, steps=2))
    whole = stored(train_cell(own, conditions(tmp_path), Here(tmp_path / "none")), tmp_path / "whole")
    monkeypatch.setattr(worker, "LOOKED_EVERY", 0.01)
    real, resumed = Checkpoints.save, list[Position | None]()

    def dying(self: Checkpoints, position: Position) -> None:
        real(self, position)
        if position.steps >= 6:
            self.writer.wait()
            while not relay.load(own.name):
                pass
            raise RuntimeError("the node is gone")

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", dying)
        with pytest.raises(RuntimeError, match="gone"):
            train_cell(own, often, relay)
    begin = Checkpoints.begin

    def noted(self: Checkpoints) -> Position | None:
        resumed.append(begin(self))
        return resumed[-1]

    monkeypatch.setattr(Checkpoints, "begin", noted)
    found = stored(train_cell(own, often, relay), tmp_path / "found")
    assert resumed[0] is not None
    assert resumed[0].steps > 0
    assert difference(snapshot(whole.path), snapshot(found.path)) == ""


def test_another_version_is_a_sentence_that_names_the_node(tmp_path: Path) -> None:
    other = replace(conditions(tmp_path), versions={**versions(), "torch": "1.0"})
    told = train_cell(task(), other, Here(tmp_path)).problem
    assert told.startswith("node ")
    assert "its torch is another than that of the command" in told
    assert "install the same torch on every node" in told


def test_missing_data_and_a_full_disk_are_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = task()
    missing = own.spec.rows[0].setting.stream.model_copy(update={"source": "mnist"})
    row = own.spec.rows[0]
    changed = row.model_copy(update={"setting": row.setting.model_copy(update={"stream": missing})})
    elsewhere = replace(own, spec=own.spec.model_copy(update={"rows": [changed]}))
    told = train_cell(elsewhere, conditions(tmp_path), Here(tmp_path)).problem
    assert "node " in told
    assert "mnist" in told

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "metrics.jsonl")

    monkeypatch.setattr(run_module, "train_row", full)
    told = train_cell(own, conditions(tmp_path), Here(tmp_path)).problem
    assert "metrics.jsonl: No space left on device; free some space there" in told


def test_seeds_that_all_diverge_come_back_with_the_reason(tmp_path: Path) -> None:
    own = task("learner.lr=1e20", "learner.name=finetune")
    found = stored(train_cell(own, conditions(tmp_path), Here(tmp_path / "relay")), tmp_path / "back")
    kept = found.find(own.key, 1)
    assert kept is not None
    assert "not finite" in kept.diverged


def test_a_folder_that_goes_away_while_it_is_read_is_no_moment_to_send(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(self: Path, pattern: str) -> Iterator[Path]:
        yield tmp_path / "row" / "a.safetensors"
        raise FileNotFoundError(tmp_path / "row" / ".writing")

    monkeypatch.setattr(Path, "rglob", gone)
    assert worker._checkpoints(tmp_path) == set()
