from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from gradcast.bench import ray_times as module
from gradcast.bench.ray_times import NoRelay, RayTimes, ray_times
from gradcast.cluster.cell_task import CellTask, Conditions
from gradcast.cluster.worker import train_cell


def test_shares_are_of_the_time_without_ray() -> None:
    found = RayTimes(apart=20.0, together=12.0, many=24.0, cell_seconds=1.0, cells=40, workers=2)
    assert found.two == 0.6
    assert found.overhead == pytest.approx(0.2)


def test_every_cell_is_trained_once_and_none_is_found_in_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "use_threads", lambda count: torch.set_num_threads(count))
    monkeypatch.setattr(module, "LONG", 1)
    sent: list[str] = []

    @contextmanager
    def session(on: str, cpus: int) -> Iterator[None]:
        yield

    def fill(_: object, tasks: Sequence[CellTask], conditions: Conditions, *__: object) -> dict[str, str]:
        sent.extend(f"{task.name} {task.spec.seeds}" for task in tasks)
        assert all(train_cell(task, conditions, NoRelay()).problem == "" for task in tasks[:1])
        return {}

    monkeypatch.setattr(module, "ProcessPoolExecutor", lambda workers, _: ThreadPoolExecutor(1))
    monkeypatch.setattr(module, "session", session)
    monkeypatch.setattr(module, "fill_store", fill)
    found = ray_times(lambda _: None, cells=3, seconds=0.01)
    assert len(sent) == 8 + 3 + 4
    assert found.cells == 3
    assert found.cell_seconds > 0
