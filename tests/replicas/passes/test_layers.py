from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import conv2d

from gradcast.replicas.passes import kernels
from gradcast.replicas.passes.kernels import Options
from gradcast.replicas.passes.layers import Convolution, Linear, pieces, summed_products
from tests.helpers import needs_gpu
from tests.replicas.passes.reference import images, modules, numbers, one_by_one, single, together


def linear(module: nn.Module, weights: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor) -> Tensor:
    y: Tensor = Linear.apply(x, weights["weight"], weights.get("bias"))
    return y


def convolution(module: nn.Module, weights: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor) -> Tensor:
    options = (module.stride, module.padding, module.dilation, module.groups)
    y: Tensor = Convolution.apply(x, weights["weight"], weights.get("bias"), options)
    return y


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(5,), (2, 5)])
def test_linear_equals_each_pass_alone(bias: bool, shape: tuple[int, ...]) -> None:
    alone, x = modules(lambda: nn.Linear(5, 3, bias=bias)), images(*shape)
    expected, found = one_by_one(alone, x), together(linear, alone, x)
    torch.testing.assert_close(vars(found), vars(expected))
    assert ("bias" in found.gradients) == bias


@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-12), (torch.bfloat16, 0.05)])
def test_products_in_pieces_are_the_same(dtype: torch.dtype, error: float) -> None:
    a, b = numbers(3, 8, 5).to(dtype), numbers(3, 8, 2).to(dtype)
    found = summed_products(a, b, 4)
    torch.testing.assert_close(found.double(), a.double().mT @ b.double(), rtol=error, atol=error)
    assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)


def test_a_gpu_cuts_long_sums_and_no_others() -> None:
    with FakeTensorMode():
        assert [pieces(torch.empty(1, n, 3, device="cuda")) for n in (256, 4096, 4097, 3 * 65_536)] == [1, 2, 1, 64]
        assert pieces(torch.empty(1, 65_536, 3)) == 1


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bias": False},
        {"padding": 1, "stride": 2},
        {"padding": (2, 1), "stride": (1, 2), "bias": False},
        {"padding": 2, "dilation": 2},
        {"padding": 1, "groups": 2},
    ],
    ids=str,
)
def test_convolution_equals_each_pass_alone(options: dict[str, Any]) -> None:
    alone, x = modules(lambda: nn.Conv2d(4, 6, 3, **options)), images(4, 6, 8)
    expected, found = one_by_one(alone, x), together(convolution, alone, x)
    torch.testing.assert_close(vars(found), vars(expected))
    assert ("bias" in found.gradients) == options.get("bias", True)


@pytest.mark.parametrize(("function", "shape"), [(Linear, (4,)), (Convolution, (4, 3, 3))])
def test_images_of_another_type_leave_weight_gradients_in_the_weights_type(
    function: type[torch.autograd.Function], shape: tuple[int, ...]
) -> None:
    weight = numbers(2, 1, 5, *shape, dtype=torch.float32).expand(2, 3, 5, *shape).requires_grad_()
    options = () if function is Linear else (((1, 1), (1, 1), (1, 1), 1),)
    size = (12, *shape)
    y = function.apply(numbers(*size).bfloat16(), weight, None, *options)
    y.float().square().sum().backward()
    assert (y.dtype, weight.grad.dtype) == (torch.bfloat16, torch.float32)
    exact = function.apply(numbers(*size).float(), weight, None, *options)
    torch.testing.assert_close(y.float(), exact, rtol=0.05, atol=0.1)


SHAPES = pytest.mark.parametrize(
    ("options", "size"),
    [
        (((1, 1), (1, 1), (1, 1), 1), (3, 3)),
        (((1, 1), (0, 0), (1, 1), 1), (3, 3)),
        (((1, 1), (2, 1), (1, 2), 1), (5, 3)),
        (((1, 1), (1, 0), (1, 1), 1), (1, 1)),  # padding that no filter reaches
        (((2, 1), (1, 1), (1, 1), 1), (3, 3)),
    ],
)


@SHAPES
def test_input_gradients_are_convolutions_with_mirrored_filters(
    options: Options, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def written(x: Tensor, filters: Tensor, options: Options) -> Tensor:
        return torch.cat([conv2d(x, own, None, *options) for x, own in zip(x.chunk(2), filters, strict=True)])

    x, weight = single(8, 3, 7, 6).requires_grad_(), single(2, 1, 5, 3, *size, seed=1).requires_grad_()
    y = Convolution.apply(x, weight, None, options)
    dy = single(*y.shape, seed=2)
    expected = torch.autograd.grad(y, [x, weight], dy)
    monkeypatch.setattr(kernels, "writes", lambda *_: True)
    monkeypatch.setattr(kernels, "written", written)
    again = Convolution.apply(x, weight, None, options)
    torch.testing.assert_close(again, y)
    torch.testing.assert_close(torch.autograd.grad(again, [x, weight], dy), expected)


@needs_gpu
@SHAPES
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_library_writes_convolutions_of_all_replicas_side_by_side(
    options: Options, size: tuple[int, int], dtype: torch.dtype
) -> None:
    x = single(8, 3, 7, 6).to("cuda", dtype).contiguous(memory_format=torch.channels_last)
    filters = single(2, 5, 3, *size, seed=1).to("cuda", dtype)
    assert kernels.writes(x, filters)
    assert not kernels.writes(x, filters[:1])
    assert not kernels.writes(x.cpu(), filters)
    expected = [conv2d(images, own, None, *options) for images, own in zip(x.chunk(2), filters, strict=True)]
    found = kernels.written(x, filters, options)
    torch.testing.assert_close(found, torch.cat(expected))
    assert found.is_contiguous(memory_format=torch.channels_last)
