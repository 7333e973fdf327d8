import numpy as np
import pytest
import torch
from torch.nn.functional import kl_div

from gradcast.randomness import numpy_generator
from gradcast.signals.mixtures import Shares, divergence, mix, mix_labels
from tests.helpers import CPU


def test_shares_are_drawn_for_those_who_ask_and_keep_their_place_in_memory() -> None:
    like, both, own = torch.zeros(0, dtype=torch.float64, device=CPU), Shares(0.3, [3, 8]), Shares(0.3, [8])
    both.draw([1], 4, like)
    own.draw([0], 4, like)
    first = both.values
    assert first is not None
    assert own.values is not None
    assert not first[0].any()
    assert np.array_equal(first[1].numpy(), numpy_generator(8, "mix-up").beta(0.3, 0.3, 4))
    assert torch.equal(first[1], own.values[0])
    both.draw([0, 1], 4, like)
    assert both.values is first
    assert np.array_equal(first[0].numpy(), numpy_generator(3, "mix-up").beta(0.3, 0.3, 4))


def test_mixtures_by_hand() -> None:
    shares = torch.tensor([[0.25, 1.0]])
    one, other = torch.tensor([[[4.0, 8.0], [1.0, 2.0]]]), torch.tensor([[[8.0, 0.0], [5.0, 5.0]]])
    assert mix(one, other, shares).tolist() == [[[7.0, 2.0], [1.0, 2.0]]]
    label = torch.tensor([[[0.0, 0.5, 0.5], [1.0, 0.0, 0.0]]])
    found = mix_labels(torch.tensor([[2, 1]]), label, shares)
    assert found.tolist() == [[[0.0, 0.375, 0.625], [0.0, 1.0, 0.0]]]


def test_divergence_is_torchs_with_its_gradient_and_rows_of_zeros_count_nothing() -> None:
    z = torch.randn(2, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    label = torch.tensor([[0.2, 0.3, 0.5], [0.0, 1.0, 0.0], [0.0, 0.4, 0.0], [0.0, 0.0, 0.0]]).double()
    expected = torch.stack([kl_div(row.log_softmax(-1), label, reduction="batchmean") for row in z])
    loss, dz = divergence(z.detach(), label.expand(2, 4, 3))
    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(dz, torch.autograd.grad(expected.sum(), z)[0])
    assert not dz[:, 3].any()


def test_the_divergence_of_a_certain_label_is_the_cross_entropy() -> None:
    z = torch.tensor([[[1.0, 2.0, 0.0]]])
    loss, _ = divergence(z, torch.tensor([[[0.0, 1.0, 0.0]]]))
    assert float(loss) == pytest.approx(float(np.log(np.exp([1.0, 2.0, 0.0]).sum()) - 2.0))
