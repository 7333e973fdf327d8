import numpy as np
import pytest
import torch
from torch.nn.functional import kl_div

from gradcast.randomness import numpy_generator
from gradcast.semi.meta_labels import MetaLabels
from gradcast.semi.mix_up import MixUp, divergence, mix, mix_labels
from tests.semi.scene import images, moment, small_model


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


def test_pairs_are_mixed_in_proportions_of_their_own_that_the_seed_draws() -> None:
    model, part = small_model(), MetaLabels()
    mix_up, at = MixUp(part, 0.1, [3, 8]), moment(model)
    mix_up.prepare(at.batch)
    part.watch(at)
    drawn = np.stack([numpy_generator(seed, "mix-up").beta(0.1, 0.1, 4) for seed in (3, 8)])
    assert mix_up.shares is not None
    assert np.array_equal(mix_up.shares.numpy(), drawn)
    x, label = mix_up.mixtures(at)
    assert part.label is not None
    for replica, image in [(0, 1), (1, 3)]:
        share = drawn[replica, image]
        mixed = share * at.batch.x[replica, image] + (1 - share) * at.unlabelled.x[replica, image]
        torch.testing.assert_close(x[replica, image], mixed)
        expected = (1 - share) * part.label[replica, image]
        expected[at.batch.y[replica, image]] += share
        torch.testing.assert_close(label[replica, image], expected)


def test_proportions_keep_their_place_in_memory() -> None:
    mix_up, (batch, _) = MixUp(MetaLabels(), 1.0, [3, 8]), images(small_model())
    mix_up.prepare(batch)
    first = mix_up.shares
    assert first is not None
    before = first.clone()
    mix_up.prepare(batch)
    assert mix_up.shares is first
    assert not torch.equal(first, before)
