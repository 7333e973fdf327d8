import torch

from gradcast.training.snapshot import Snapshot

FIRST, BOTH = torch.tensor([True, False]), torch.tensor([True, True])


def test_each_replica_as_it_was_when_it_was_kept_last() -> None:
    weights, snapshot = torch.tensor([[1.0, 1.0], [2.0, 2.0]]), Snapshot()
    snapshot.keep({"w": weights}, FIRST)
    weights += 10
    snapshot.keep({"w": weights}, FIRST)
    weights += 10
    place = weights.data_ptr()
    snapshot.put_back({"w": weights}, BOTH)
    assert weights.tolist() == [[11.0, 11.0], [2.0, 2.0]]
    assert weights.data_ptr() == place
    weights += 5
    snapshot.put_back({"w": weights}, FIRST)
    assert weights.tolist() == [[11.0, 11.0], [7.0, 7.0]]


def test_what_is_forgotten_is_kept_anew() -> None:
    weights, snapshot = torch.tensor([[1.0], [2.0]]), Snapshot()
    snapshot.keep({"w": weights}, BOTH)
    snapshot.forget()
    weights += 1
    snapshot.keep({"w": weights}, torch.tensor([False, False]))
    assert snapshot.kept["w"].tolist() == [[2.0], [3.0]]


def test_nothing_comes_back_where_nothing_was_kept() -> None:
    weights = torch.tensor([[1.0], [2.0]])
    Snapshot().put_back({"w": weights}, BOTH)
    assert weights.tolist() == [[1.0], [2.0]]
