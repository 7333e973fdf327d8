from pathlib import Path

import pytest
import torch

from gradcast.cluster.ranks import LostRankError, Ranks
from tests.cluster.two_ranks import divided_passes


@pytest.mark.parametrize(("count", "size"), [(7, 2), (7, 3), (1, 4), (0, 2), (8, 8)])
def test_shares_cover_everything_once_and_differ_by_one_at_most(count: int, size: int) -> None:
    ranks = [Ranks(number, size, number, Path()) for number in range(size)]
    taken = [place for rank in ranks for place in range(count)[rank.share(count)]]
    assert taken == list(range(count))
    assert max(ranks[0].sizes(count)) - min(ranks[0].sizes(count)) <= 1


def test_other_ranks_have_files_of_their_own(tmp_path: Path) -> None:
    first, second = (Ranks(number, 2, number, tmp_path) for number in range(2))
    assert first.own(Path("a/runs")) == Path("a/runs")
    assert second.own(Path("a/runs")) == tmp_path / "runs"
    assert first.first
    assert not second.first


def test_two_processes_tell_each_other_sums_shares_and_decisions() -> None:
    found = {name.removeprefix("said "): value.tolist() for name, value in divided_passes().items() if "said" in name}
    assert found["summed"] == [3.0, 3.0]
    assert found["gathered"] == [[0], [1], [2], [3], [4]]
    assert found["largest"] == 7
    assert found["first"] == 5


def test_a_collective_that_fails_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("Connection closed by peer")

    monkeypatch.setattr("torch.distributed.all_reduce", broken)
    with pytest.raises(LostRankError, match=r"a process of this run ended .*Connection closed by peer"):
        Ranks(0, 2, 0, Path()).summed(torch.ones(2))
