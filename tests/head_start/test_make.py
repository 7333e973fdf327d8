import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
import torch

from gradcast.data.cache import Cache
from gradcast.errors import Stopped
from gradcast.head_start import make
from gradcast.head_start.make import Saving, head_starts, stacked
from gradcast.head_start.pretraining import Pretraining
from gradcast.head_start.store import HeadStart, Store
from gradcast.runs.checkpoint.keeper import Safety
from gradcast.runs.checkpoint.stop import Stop
from tests.head_start.scene import course, no_probe, resnet


def made(tmp_path: Path, seeds: Sequence[int], **settings: object) -> list[HeadStart]:
    return head_starts(course(**settings), seeds, Store(Cache(tmp_path)), probe=no_probe)


def test_each_seed_has_its_own_and_none_is_made_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = made(tmp_path, [0, 1])
    asked: list[list[int]] = []
    run = Pretraining.run

    def counted(self: Pretraining, *args: object, **named: object) -> None:
        asked.append(self.seeds)
        run(self, *args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Pretraining, "run", counted)
    again = made(tmp_path, [1, 2, 0])
    assert asked == [[2]]
    for name, rows in stacked(first).items():
        assert torch.equal(rows, stacked(again)[name][[2, 0]])
        assert not torch.equal(rows[0], rows[1])


def test_what_another_process_is_making_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads share torch's generator, so the other one comes when the first has made its networks."""
    asked: list[list[int]] = []
    begun, run = Event(), Pretraining.run

    def counted(self: Pretraining, *args: object, **named: object) -> None:
        asked.append(self.seeds)
        begun.set()
        time.sleep(0.2)  # the other one comes meanwhile
        run(self, *args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Pretraining, "run", counted)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(made, tmp_path, [3])
        assert begun.wait(60)
        other = made(tmp_path, [3])
        one = first.result()
    assert asked == [[3]]
    assert all(torch.equal(one[0].weights[name], other[0].weights[name]) for name in one[0].weights)


def test_one_for_all(tmp_path: Path) -> None:
    found = made(tmp_path, [4, 9], shared=True)
    alone = made(tmp_path, [0])
    for name, rows in stacked(found).items():
        assert torch.equal(rows[0], rows[1])
        assert torch.equal(rows[0], alone[0].weights[name])
    assert len(Cache(tmp_path).entries()) == 2  # asked for in another way


def test_little_memory_makes_groups_and_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together = stacked(made(tmp_path / "a", [0, 1, 2]))
    monkeypatch.setattr(make, "free_memory", lambda device: 1)
    apart = stacked(made(tmp_path / "b", [0, 1, 2]))
    for name, rows in together.items():
        torch.testing.assert_close(rows, apart[name], rtol=1e-10, atol=1e-12)


class AfterSteps(Stop):
    """Asks to stop when so many steps are done."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.left = steps

    def stepped(self, *_: object) -> None:
        self.left -= 1
        self.signal = 2 if self.left == 0 else None

    def begin(self, *_: object) -> None:
        return

    trained = evaluated = begin


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("steps", [1, 4])
def test_an_interrupted_one_ends_at_the_same_bytes(tmp_path: Path, optimizer: str, steps: int) -> None:
    settings = {"optimizer": optimizer, "signal": ["contrastive", "rotation"], "lr": 0.01}
    whole = head_starts(course(resnet, **settings), [0, 1], Store(Cache(tmp_path / "a")), probe=no_probe)  # type: ignore[arg-type]
    own, store, stop = course(resnet, **settings), Store(Cache(tmp_path / "b")), AfterSteps(steps)  # type: ignore[arg-type]

    def go(stop: Stop, show: object) -> list[HeadStart]:
        saving = Saving(tmp_path / "run", Safety(), stop)
        return head_starts(own, [0, 1], store, probe=no_probe, show=show, saving=saving)  # type: ignore[arg-type]

    with pytest.raises(Stopped, match=f"stopped before step {steps}"):
        go(stop, lambda *_: stop)
    assert [path.name[:12] for path in (tmp_path / "run").iterdir()] == [".head-start-"]
    found = go(Stop(), None)
    for one, other in zip(whole, found, strict=True):
        assert all(torch.equal(rows, other.weights[name]) for name, rows in one.weights.items())
        assert one.told["loss"] == other.told["loss"]
    assert list((tmp_path / "run").iterdir()) == []
