from itertools import pairwise

import pytest
import torch

from gradcast.core import Batch
from gradcast.learners.herding import batch_statistics, herd, rows_by_class
from gradcast.networks import MLP
from gradcast.replicas.heads import Heads
from gradcast.replicas.pass_types import Statistics


def test_the_mean_of_the_chosen_comes_as_near_as_one_more_image_allows() -> None:
    x = torch.randn(12, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    chosen = herd(lambda images: 2 * images, x, 5)
    assert len(chosen) == 5
    for number in range(5):
        left = [row for row in x if not any(torch.equal(row, taken) for taken in chosen[:number])]
        away = [(torch.stack([*chosen[:number], row]).mean(0) - x.mean(0)).norm() for row in left]
        assert torch.equal(chosen[number], left[int(torch.stack(away).argmin())])


def test_all_images_of_a_small_class_are_chosen_and_none_of_an_empty_one() -> None:
    x = torch.tensor([[1.0], [5.0], [3.5]])
    assert herd(lambda images: images, x, 9).flatten().tolist() == [3.5, 1.0, 5.0]
    assert herd(lambda images: images, x[:0], 9).shape == (0, 1)


@pytest.mark.parametrize("statistics", ["update", "separate", "frozen"])
def test_only_batchnorm_trains_and_only_where_it_shall(statistics: Statistics) -> None:
    network = torch.nn.Sequential(MLP([4, 6, 3], norm="batch"), torch.nn.Dropout(0.5)).double().eval()
    x = 3 + torch.randn(8, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    before, evaluated = [buffer.clone() for buffer in network.buffers()], network(x)
    with batch_statistics(network, statistics):
        twice = network(x), network(x)
    assert torch.allclose(*twice)
    assert torch.allclose(twice[0], evaluated) == (statistics == "frozen")
    kept = [torch.equal(old, new) for old, new in zip(before, network.buffers(), strict=True)]
    assert all(kept) if statistics != "update" else not any(kept)
    assert not any(module.training for module in network.modules())
    assert all(len(a) == len(b) for a, b in pairwise(twice))


def test_every_replica_has_as_many_rows_of_its_own_classes() -> None:
    heads, y = Heads.of([(0, 1), (2, 3)], "seen"), torch.tensor([[2, 3, 3, 3, 0], [3, 2, 2, 2, 1]])
    own = Batch(torch.zeros(2, 5, 1), y, 1, tasks=torch.tensor([[1, 1, 1, 1, 0]] * 2))
    rows = rows_by_class(heads, own, [2, 2], torch.zeros(2, 5, 1), lambda of, count: torch.arange(len(of))[:count])
    assert rows.tolist() == [[0, 1, 2, 0], [1, 2, 0, 1]]


def test_of_two_images_that_are_equally_far_the_first_is_chosen() -> None:
    x = torch.tensor([[0.0], [1.0 + 1e-6], [0.5]])[[0, 1]]
    for rows in (x, x.flip(0)):
        assert torch.equal(herd(lambda images: images, rows, 1, slack=1e-3), rows[:1])
