import torch
from torch import Tensor

from gradcast.learners.acl.losses import orthogonality


def features(seed: int) -> Tensor:
    return torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_value_is_the_mean_over_all_pairs() -> None:
    zs, zp = features(0), features(1)
    loss, _, _ = orthogonality(zs, zp)
    for replica in range(2):
        pairs = [
            (torch.dot(s, p) / ((s.norm() + 1e-6) * (p.norm() + 1e-6))) ** 2 for s in zs[replica] for p in zp[replica]
        ]
        torch.testing.assert_close(loss[replica], torch.stack(pairs).mean())


def test_gradients_are_autograds_with_norms_as_constants() -> None:
    zs, zp = features(0).requires_grad_(), features(1).requires_grad_()
    units = [z / (z.norm(dim=-1, keepdim=True).detach() + 1e-6) for z in (zs, zp)]
    loss = (units[0] @ units[1].mT).square().mean((1, 2))
    expected = torch.autograd.grad(loss.sum(), [zs, zp])
    found, ds, dp = orthogonality(zs.detach(), zp.detach())
    torch.testing.assert_close(found, loss.detach(), rtol=1e-12, atol=0)
    torch.testing.assert_close((ds, dp), expected, rtol=1e-12, atol=1e-15)


def test_orthogonal_features_have_no_loss_and_features_that_are_off_no_infinity() -> None:
    zs, zp = torch.zeros(1, 2, 4), torch.zeros(1, 2, 4)
    zs[..., 0], zp[..., 1] = 3.0, 2.0
    loss, ds, dp = orthogonality(zs, zp)
    assert loss.tolist() == [0.0]
    assert not ds.any()
    assert not dp.any()
    found = orthogonality(torch.zeros(1, 2, 4), zp)
    assert all(torch.isfinite(each).all() for each in found)
