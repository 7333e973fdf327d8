import torch
from torch.nn import functional

from gradcast.gradients.cross_entropy import cross_entropy, mean_cross_entropy


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
