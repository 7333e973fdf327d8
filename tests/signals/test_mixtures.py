import numpy as np
import torch

from gradcast.randomness import numpy_generator
from gradcast.signals.mixtures import Shares, mix, mix_labels
from tests.helpers import CPU


def test_shares_are_drawn_for_those_who_ask_and_keep_their_place_in_memory() -> None:
    like, both, own = torch.zeros(0, dtype=torch.float64, device=CPU), Shares(0.3, [3, 8]), Shares(0.3, [8])
    both.draw([1], 4, like)
    own.draw([0], 4, like)
    first = both.of(4)
    assert not first[0].any()
    assert np.array_equal(first[1].numpy(), numpy_generator(8, "mix-up").beta(0.3, 0.3, 4))
    assert torch.equal(first[1], own.of(4)[0])
    both.draw([0, 1], 4, like)
    assert both.of(4) is first
    assert np.array_equal(first[0].numpy(), numpy_generator(3, "mix-up").beta(0.3, 0.3, 4))


def test_mixtures_by_hand() -> None:
    shares = torch.tensor([[0.25, 1.0]])
    one, other = torch.tensor([[[4.0, 8.0], [1.0, 2.0]]]), torch.tensor([[[8.0, 0.0], [5.0, 5.0]]])
    assert mix(one, other, shares).tolist() == [[[7.0, 2.0], [1.0, 2.0]]]
    label = torch.tensor([[[0.0, 0.5, 0.5], [1.0, 0.0, 0.0]]])
    found = mix_labels(torch.tensor([[2, 1]]), label, shares)
    assert found.tolist() == [[[0.0, 0.375, 0.625], [0.0, 1.0, 0.0]]]


def test_proportions_of_another_number_of_pairs_lie_elsewhere() -> None:
    own, like = Shares(1.0, [3]), torch.zeros(0)
    own.draw([0], 4, like)
    whole = own.of(4)
    own.draw([0], 2, like)
    assert own.of(2).shape == (1, 2)
    assert own.of(4) is whole
