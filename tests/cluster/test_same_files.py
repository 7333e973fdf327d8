from collections.abc import Callable
from pathlib import Path

import pytest

from gradcast.cluster import same_files
from gradcast.cluster.ranks import Ranks
from gradcast.cluster.same_files import hand_out


def test_every_rank_has_the_files_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (Ranks(number, 2, number, tmp_path / "scratch") for number in range(2))
    run, store = tmp_path / "run", tmp_path / "store"
    (run / "row").mkdir(parents=True)
    (run / "row" / "groups.json").write_text("{}")
    sent: list[object] = []

    def heard(ranks: Ranks, make: Callable[[], object]) -> object:
        if ranks.first:
            sent.append(make())
            return sent[-1]
        return sent.pop(0)

    monkeypatch.setattr(Ranks, "from_first", heard)
    hand_out(first, [run, store])
    hand_out(second, [second.own(run), second.own(store)])
    assert (tmp_path / "scratch" / "run" / "row" / "groups.json").read_text() == "{}"
    assert not (tmp_path / "scratch" / "store").exists()


def test_a_single_process_sends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(same_files, "packed", lambda folder: pytest.fail("nobody asked"))
    hand_out(None, [tmp_path])
