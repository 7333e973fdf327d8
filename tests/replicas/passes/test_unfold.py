from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from gradcast.replicas.passes.kernels import Options
from gradcast.replicas.passes.unfold import LARGEST, convolved, pay
from tests.replicas.passes.reference import images, modules, one_by_one, together

PLAIN: Options = ((1, 1), (0, 0), (1, 1), 1)


@pytest.mark.parametrize(
    "options",
    [{}, {"bias": False}, {"stride": 2}, {"stride": (1, 2), "kernel_size": (2, 4)}, {"stride": 2, "kernel_size": 1}],
    ids=str,
)
def test_products_of_patches_equal_each_pass_alone(options: dict[str, Any]) -> None:
    settings = {"kernel_size": 3, **options}
    alone, x = modules(lambda: nn.Conv2d(4, 6, **settings)), images(4, 6, 8)

    def product(module: nn.Module, weights: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor) -> Tensor:
        assert isinstance(module, nn.Conv2d)
        stride = module.stride
        assert len(stride) == 2
        return convolved(x, weights["weight"], weights.get("bias"), (stride[0], stride[1]))

    expected, found = one_by_one(alone, x), together(product, alone, x)
    torch.testing.assert_close(vars(found), vars(expected))


def test_channels_stay_side_by_side() -> None:
    found = convolved(torch.rand(4, 3, 5, 5), torch.rand(2, 1, 6, 3, 2, 2), None, (1, 1))
    assert found.shape == (4, 6, 4, 4)
    assert found.is_contiguous(memory_format=torch.channels_last)


def test_they_pay_for_several_passes_on_a_gpu_without_padding() -> None:
    with FakeTensorMode():
        x, filters = torch.empty(320, 64, 14, 14, device="cuda"), torch.empty(5, 1, 128, 64, 3, 3)
        assert pay(x, filters, PLAIN)
        assert not pay(x, filters[:1], PLAIN)
        assert not pay(torch.empty(320, 64, 14, 14), filters, PLAIN)
        assert not pay(x, filters, ((1, 1), (1, 1), (1, 1), 1))
        assert not pay(x, filters, ((1, 1), (0, 0), (2, 2), 1))
        assert not pay(x, filters, ((1, 1), (0, 0), (1, 1), 2))


def test_filters_of_one_pixel_are_products_everywhere() -> None:
    x, filters = torch.rand(2, 3, 4, 4), torch.rand(1, 1, 5, 3, 1, 1)
    assert pay(x, filters, PLAIN)
    assert not pay(x, filters, ((1, 1), (1, 1), (1, 1), 1))
    assert not pay(x, filters, ((1, 1), (0, 0), (1, 1), 3))


@pytest.mark.parametrize(("images", "fits"), [(LARGEST // (9 * 4), True), (LARGEST // (9 * 4) + 1, False)])
def test_rows_have_a_largest_size(images: int, fits: bool) -> None:
    with FakeTensorMode():
        x, filters = torch.empty(images, 1, 4, 4, device="cuda"), torch.empty(2, 1, 1, 1, 3, 3)
        assert pay(x, filters, PLAIN) == fits


def test_long_passes_are_left_to_the_library() -> None:
    with FakeTensorMode():
        filters = torch.empty(3, 1, 512, 256, 3, 3)
        assert not pay(torch.empty(3 * 128, 256, 8, 8, device="cuda"), filters, PLAIN)
        assert pay(torch.empty(3 * 64, 256, 8, 8, device="cuda"), filters, PLAIN)
