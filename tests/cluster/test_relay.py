from pathlib import Path

from gradcast.cluster.relay import BUILDING, Progress, Relay


def test_the_newest_checkpoint_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    relay = Relay(str(tmp_path / "unfinished"))
    assert relay.load("cell") == {}
    relay.save("cell", {"run/checkpoint-1": b"1", "run/groups.json": b"{}"})
    relay.save("cell", {"run/checkpoint-2": b"2"})
    relay.save("other", {"run/checkpoint-9": b"9"})
    assert Relay(str(tmp_path / "unfinished")).load("cell") == {"run/checkpoint-2": b"2"}
    assert sorted(path.name for path in (tmp_path / "unfinished").iterdir()) == ["cell", "other"]


def test_what_a_killed_relay_left_half_written_goes(tmp_path: Path) -> None:
    (tmp_path / f"{BUILDING}x").mkdir(parents=True)
    Relay(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_progress_is_known_of_tasks_that_have_begun(tmp_path: Path) -> None:
    relay = Relay(str(tmp_path))
    relay.tell("cell", Progress(1, 10))
    relay.tell("cell", Progress(2, 10, "50 %", "node"))
    assert relay.progress() == {"cell": Progress(2, 10, "50 %", "node")}
