from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from gradcast.cluster import train_ahead as module
from gradcast.cluster.cell_task import CellTask, Cluster, Conditions
from gradcast.cluster.train_ahead import train_ahead
from gradcast.runs.checkpoint.keeper import Safety
from gradcast.runs.run import run
from gradcast.runs.seed_store import SeedStore
from gradcast.specs.spec import Spec
from tests.trained_runs import small


class Sent:
    """Takes the place of Ray: notes what it was given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, problems: dict[int, str] | None = None) -> None:
        self.tasks: list[CellTask] = []
        self.conditions: Conditions | None = None

        @contextmanager
        def session(on: str) -> Iterator[SimpleNamespace]:
            yield SimpleNamespace(cluster_resources=dict)

        def fill(
            _: object, tasks: Sequence[CellTask], how: Conditions, store: SeedStore, *__: object
        ) -> dict[str, str]:
            self.tasks, self.conditions = list(tasks), how
            return {tasks[place].name: reason for place, reason in (problems or {}).items()}

        monkeypatch.setattr(module, "session", session)
        monkeypatch.setattr(module, "fill_store", fill)


def ahead(specs: list[Spec], out: Path, at_once: int | None = None, safety: Safety | None = None) -> dict[str, str]:
    return train_ahead(specs, Cluster("ray", None, at_once), out=out, data=None, device="cpu", safety=safety)


def test_only_what_the_store_lacks_is_sent_and_failures_are_known_by_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = Sent(monkeypatch, {0: "node a: full"})
    run(small("seeds=[0, 1]"), out=tmp_path, device="cpu")
    problems = ahead([small("seeds=[0, 1, 2, 3]")], tmp_path, 1)
    assert [task.spec.seeds for task in sent.tasks] == [[2], [3]] * 3
    assert problems == {sent.tasks[0].key.name: "node a: full"}
    assert sent.conditions is not None
    assert sent.conditions.threads == 1


def test_nothing_is_sent_where_nothing_is_missing_unless_it_shall_start_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = Sent(monkeypatch)
    run(small("seeds=[0]"), out=tmp_path, device="cpu")
    assert ahead([small("seeds=[0]")], tmp_path) == {}
    assert sent.tasks == []
    ahead([small("seeds=[0]")], tmp_path, safety=Safety(start="fresh"))
    assert len(sent.tasks) == 3
    assert sent.conditions is not None
    assert sent.conditions.safety.start == "auto"


def test_what_two_specifications_share_is_sent_once_and_one_without_data_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = Sent(monkeypatch)
    ahead([small("seeds=[0]"), small("seeds=[0]", "title=again"), small("stream.source=svhn")], tmp_path)
    assert len(sent.tasks) == 3
