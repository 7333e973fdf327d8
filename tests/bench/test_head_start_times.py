import pytest
import torch

from gradcast.bench import head_start_times
from gradcast.bench.head_start_times import HeadStartTime, course
from gradcast.bench.head_start_times import head_start_times as measured
from gradcast.bench.step_times import Timing
from gradcast.devices import Place
from tests.helpers import CPU


def test_seeds_at_once_count_as_so_many() -> None:
    own = HeadStartTime("tf32", 10, 512, 400.0, 200.0)
    assert own.images_a_second == pytest.approx(12_800)
    assert own.plain_images_a_second == pytest.approx(2_560)
    assert own.ratio == 5.0
    assert own.hours() == pytest.approx(6_000 * 0.4 / 3600)
    assert own.plain_hours() == pytest.approx(10 * 6_000 * 0.2 / 3600)
    assert HeadStartTime("tf32", 4, 512, 400.0, 200.0).hours() == pytest.approx(3 * 6_000 * 0.4 / 3600)


def test_one_seed_several_and_the_plain_formulation_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[int] = []

    def timed(place: Place, steps: int, *advances: object) -> list[Timing]:
        turns.append(steps)
        assert [advance(0) for advance in advances] == [False] * 3  # type: ignore[operator]
        return [Timing(milliseconds, None, 0.0) for milliseconds in (30.0, 10.0, 15.0)]

    small = course(Place(CPU, torch.float32), batch=4, width=2, size=8, images=10)
    monkeypatch.setattr(head_start_times, "time_steps", timed)
    monkeypatch.setattr(head_start_times, "course", lambda place, batch: small)
    found = measured(Place(CPU, torch.float32), "float32", 150)
    assert turns == [2]
    assert [(own.seeds, own.milliseconds, own.ratio) for own in found] == [(1, 10.0, 3.0), (2, 15.0, 4.0)]


def test_little_memory_leaves_fewer_seeds_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    small = course(Place(CPU, torch.float32), batch=4, width=2, size=8, images=10)
    monkeypatch.setattr(head_start_times, "course", lambda place, batch: small)
    monkeypatch.setattr(head_start_times, "free_memory", lambda device: 1)
    found = measured(Place(CPU, torch.float32), "float32", 1)
    assert [own.seeds for own in found] == [1]
    assert found[0].milliseconds > 0


def test_the_network_is_that_of_the_image_experiments() -> None:
    made = course(Place(CPU, torch.float32), batch=16, images=16)
    assert sum(parameter.numel() for parameter in made.network().parameters()) == 1_109_240 - 90 * 161
    assert (made.shape, made.spec.batch, [own.name for own in made.spec.signal]) == ((3, 32, 32), 16, ["contrastive"])
