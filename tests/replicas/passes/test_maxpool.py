from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import max_pool2d

import tests.interpreted  # noqa: F401
from gradcast.replicas.passes import kernels
from gradcast.replicas.passes import maxpool as pooling
from gradcast.replicas.passes.folded import outputs
from gradcast.replicas.passes.maxpool import MaxPool, pooled
from tests.replicas.passes.reference import single

LAST = torch.channels_last


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several programs, the last of them not full."""
    monkeypatch.setattr(pooling, "BLOCK", 32)


def images(kind: str) -> Tensor:
    x = single(3, 5, 6, 4).contiguous(memory_format=LAST)
    if kind == "ties":
        x = x.round()
    if kind == "nan":
        x[1, 2, 3, 1] = x[0, 0, 0, 0] = torch.nan
    if kind == "infinite":
        x[1], x[2] = -torch.inf, torch.inf
    return x


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", ["plain", "ties", "nan", "infinite"])
def test_the_largest_and_its_gradient_are_the_librarys(kind: str, dtype: torch.dtype) -> None:
    x = images(kind).to(dtype).requires_grad_()
    dy = single(3, 5, 3, 2, seed=1).to(dtype)
    expected, found = max_pool2d(x, 2), MaxPool.apply(x)
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
    assert found.is_contiguous(memory_format=LAST)
    gradients = [torch.autograd.grad(y, x, dy)[0] for y in (found, expected)]
    torch.testing.assert_close(*gradients, rtol=0, atol=0)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.pool = nn.Linear(5, 2), nn.MaxPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(self.pool(x).mean((2, 3)))
        return y


def test_a_networks_pooling_takes_this_way(monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = Net(), images("plain")
    weights = {name: weight.detach()[None, None] for name, weight in module.named_parameters()}
    expected = outputs(module, weights, {}, x)
    used: list[Tensor] = []
    monkeypatch.setattr(pooling, "applies_to", lambda x: not used.append(x))
    torch.testing.assert_close(outputs(module, weights, {}, x), expected)
    assert len(used) == 1


@pytest.mark.parametrize(
    ("shape", "options", "ours"),
    [
        ((3, 5, 6, 4), {"kernel_size": 2}, True),
        ((3, 5, 6, 4), {"kernel_size": (2, 2), "stride": (2, 2)}, True),
        ((3, 5, 7, 4), {"kernel_size": 2}, False),
        ((3, 5, 6, 5), {"kernel_size": 2}, False),
        ((3, 5, 6, 4), {"kernel_size": 3}, False),
        ((3, 5, 6, 4), {"kernel_size": 2, "stride": 1}, False),
        ((3, 5, 6, 4), {"kernel_size": 2, "padding": 1}, False),
        ((3, 5, 6, 4), {"kernel_size": 2, "dilation": 2}, False),
        ((3, 5, 6, 4), {"kernel_size": 2, "ceil_mode": True}, False),
        ((3, 5, 6, 4), {"kernel_size": 2, "return_indices": True}, False),
    ],
)
def test_all_else_is_left_to_the_library(
    shape: tuple[int, ...], options: dict[str, Any], ours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "_modern", lambda _: True)
    monkeypatch.setattr(MaxPool, "apply", lambda _: "ours")
    with FakeTensorMode():
        found = pooled(torch.empty(shape, device="cuda", memory_format=LAST), **options)
    assert (found == "ours") if ours else not isinstance(found, str)
