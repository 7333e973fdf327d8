from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor, nn

from gradcast.replicas.passes import products
from gradcast.replicas.passes.products import LARGE, FasterLinear, affine, product
from tests.replicas.passes.reference import numbers

SIDE = round(LARGE ** (1 / 3)) + 1  # of a cube that is just large enough
needs_onednn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch has no oneDNN here")


@dataclass(frozen=True)
class Library:
    """Which library makes large products, and the products that oneDNN has made."""

    onednn: bool
    made: list[Tensor] = field(default_factory=list)

    def has_made(self, count: int) -> bool:
        """Whether that many products went to oneDNN; none, where torch makes them."""
        return len(self.made) == (count if self.onednn else 0)


@pytest.fixture(params=[pytest.param(True, marks=needs_onednn), False], ids=["onednn", "torch"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Library:
    """Either, on any processor."""
    chosen, real = Library(request.param), products._by_onednn

    def counted(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        chosen.made.append(found := real(x, weight, bias))
        return found

    monkeypatch.setattr(products, "_onednn_is_faster", lambda: chosen.onednn)
    monkeypatch.setattr(products, "_by_onednn", counted)
    return chosen


def close(found: Tensor, expected: Tensor) -> None:
    """Float32 products against the same in float64."""
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("size", [SIDE, 4])
def test_products_are_those_of_float64(count: int, size: int, library: Library) -> None:
    a, b = numbers(count, size, size), numbers(count, size, size)
    close(product(a.float(), b.float()), a @ b)
    turned, cut = a.float().mT, numbers(count, size, size + 1).float()[..., 1:]  # neither is contiguous
    close(torch.stack(list(products.products(turned, cut))), a.mT @ cut.double())
    assert library.has_made(2 * count if size == SIDE else 0)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("size", [SIDE, 4])
@pytest.mark.parametrize("between", [(), (2,)])
@pytest.mark.parametrize("with_bias", [True, False])
def test_affine_is_one_layer_a_share(
    count: int, size: int, between: tuple[int, ...], with_bias: bool, library: Library
) -> None:
    x, weight, bias = numbers(count * size, *between, size), numbers(count, size, size), numbers(count, size)
    found = affine(x.float(), weight.float(), bias.float() if with_bias else None)
    layers = zip(x.chunk(count), weight, bias, strict=True)
    close(found, torch.cat([own @ w.T + (b if with_bias else 0) for own, w, b in layers]))
    assert found._base is None  # a network may go on in place
    assert library.has_made(count if size == SIDE else 0)


def test_an_ordinary_module_multiplies_so_too_where_no_gradient_is_asked_for(library: Library) -> None:
    module = nn.Sequential(nn.Linear(SIDE, SIDE), nn.ReLU(), nn.Linear(SIDE, 3, bias=False))
    x = numbers(SIDE, SIDE)
    with FasterLinear():
        taught = module(x.float())
        assert library.has_made(0)
        with torch.no_grad():
            found = module(x.float())
            vector = torch.nn.functional.linear(x.float(), module[0].weight[0])  # one output, without an axis
    assert taught.requires_grad
    assert library.has_made(1)
    close(vector, x @ module[0].weight[0].double())
    for own in (taught, found):
        close(own.detach(), module.double()(x).detach())


@needs_onednn
@pytest.mark.parametrize(
    ("change", "pays"),
    [
        (lambda x: x, True),
        (lambda x: x[:, : SIDE // 2], False),
        (lambda x: x.double(), False),
        (lambda x: x.bfloat16(), False),
    ],
    ids=["large", "small", "float64", "bfloat16"],
)
def test_only_large_products_in_float32_leave_torch(
    change: Callable[[Tensor], Tensor], pays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "_onednn_is_faster", lambda: True)
    assert products._pays(change(torch.zeros(2, SIDE, SIDE)), SIDE) == pays
    monkeypatch.setattr(products, "_onednn_is_faster", lambda: False)
    assert not products._pays(torch.zeros(2, SIDE, SIDE), SIDE)
