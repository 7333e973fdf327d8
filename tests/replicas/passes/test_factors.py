import torch
from torch import Tensor

from gradcast.replicas.passes.factors import Factor, Factors


def factors(passes: int, images: int, seed: int) -> Factors:
    """Two layers of random inputs and output gradients, the second without a bias."""
    generator = torch.Generator().manual_seed(seed)

    def draw(width: int) -> Tensor:
        return torch.randn(2, passes, images, width, generator=generator, dtype=torch.float64)

    first = Factor(draw(4), draw(3), slice(0, 12), slice(12, 15))
    return Factors((first, Factor(draw(3), draw(2), slice(15, 21), None)), 21, draw(3).flatten(0, 2))


def written_out(one: Factors, replica: int, index: int) -> Tensor:
    """The gradient image by image, outer product by outer product."""
    total = torch.zeros(21, dtype=torch.float64)
    for layer in one.layers:
        for x, d in zip(layer.x[replica, index], layer.d[replica, index], strict=True):
            total[layer.weight] += torch.outer(d, x).flatten()
            if layer.bias is not None:
                total[layer.bias] += d
    return total


def test_rows_are_sums_of_outer_products() -> None:
    one = factors(3, 5, seed=0)
    expected = torch.stack([torch.stack([written_out(one, r, k) for k in range(3)]) for r in range(2)])
    assert torch.allclose(one.rows(), expected, rtol=1e-12)


def test_inner_products_need_no_gradient() -> None:
    past, now, more = factors(3, 5, seed=0), factors(1, 4, seed=1), factors(1, 2, seed=2)
    expected = (past.rows() * (now.rows() + more.rows())).sum(-1)
    assert torch.allclose(past.inner([now, more]), expected, rtol=1e-12)


def test_some_replicas() -> None:
    one = factors(3, 5, seed=0)
    assert torch.equal(one.rows(torch.tensor([False, True])), one.rows()[1:])
    gone = one.where(torch.tensor([False, True])).rows()
    assert not gone[0].any()
    assert torch.equal(gone[1], one.rows()[1])


def test_response_is_what_the_first_layer_would_add() -> None:
    past, now = factors(3, 5, seed=0), factors(1, 4, seed=1)
    weight = now.rows()[:, 0, :12].view(2, 3, 4)
    expected = past.layers[0].x.flatten(1, 2) @ weight.mT + now.rows()[:, :, 12:15]
    assert torch.allclose(past.response([now]), expected, rtol=1e-12)
