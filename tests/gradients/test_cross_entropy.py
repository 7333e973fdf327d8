import numpy as np
import pytest
import torch
from torch.nn import functional
from torch.nn.functional import kl_div

from gradcast.gradients.cross_entropy import (
    cross_entropy,
    divergence,
    entropy,
    mean_cross_entropy,
    soft_cross_entropy,
    squared_distance,
)


def test_loss_and_gradient_equal_the_librarys() -> None:
    z = torch.randn(3, 5, 4, dtype=torch.float64, requires_grad=True)
    y = torch.randint(4, (3, 5))
    expected = torch.stack([functional.cross_entropy(each, labels) for each, labels in zip(z, y, strict=True)])
    loss, dz = cross_entropy(z.detach(), y)
    assert torch.allclose(loss, expected.detach(), rtol=1e-12)
    assert torch.allclose(dz, torch.autograd.grad(expected.sum(), z)[0], rtol=1e-12, atol=1e-15)


def test_the_mean_is_one_a_batch_and_has_a_graph() -> None:
    z, y = torch.randn(3, 5, 4, dtype=torch.float64, requires_grad=True), torch.randint(4, (3, 5))
    loss, dz = cross_entropy(z.detach(), y)
    found = mean_cross_entropy(z, y)
    torch.testing.assert_close(found.detach(), loss)
    torch.testing.assert_close(torch.autograd.grad(found.sum(), z)[0], dz)


def test_large_logits_stay_finite() -> None:
    loss, dz = cross_entropy(torch.tensor([[1e4, 0.0], [0.0, 1e4]]), torch.tensor([0, 0]))
    assert loss == 5e3
    assert dz.tolist() == [[0.0, 0.0], [-0.5, 0.5]]


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


def test_the_gradient_of_the_squared_distance_is_autograds() -> None:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(2, 5, 3, dtype=torch.float64, generator=generator).requires_grad_()
    label = torch.randn(2, 5, 3, dtype=torch.float64, generator=generator).softmax(-1)
    loss, dz = squared_distance(z.detach(), label)
    expected = (z.softmax(-1) - label).square().sum(-1).mean(-1)
    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(dz, torch.autograd.grad(expected.sum(), z)[0])


def test_soft_labels_of_one_class_are_that_class() -> None:
    z = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = torch.tensor([[0, 1, 2, 0], [2, 2, 1, 0]])
    label = functional.one_hot(y, 3).to(z.dtype)
    torch.testing.assert_close(soft_cross_entropy(z, label).mean(-1), mean_cross_entropy(z, y))
    half = soft_cross_entropy(z, (label + label.roll(1, -1)) / 2)
    torch.testing.assert_close(2 * half, soft_cross_entropy(z, label) + soft_cross_entropy(z, label.roll(1, -1)))


def test_the_gradient_of_the_entropy_is_autograds_and_absent_classes_have_none() -> None:
    z = torch.randn(2, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    p = z.softmax(-1)
    expected = -(p * p.log()).sum(-1).mean(-1)
    loss, dz = entropy(z.detach())
    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(dz, torch.autograd.grad(expected.sum(), z)[0])
    wider = torch.nn.functional.pad(z.detach(), (0, 1), value=-30_000.0)
    torch.testing.assert_close(entropy(wider)[0], loss)
    torch.testing.assert_close(entropy(wider)[1][..., :3], dz)
    assert not entropy(wider)[1][..., 3].any()
