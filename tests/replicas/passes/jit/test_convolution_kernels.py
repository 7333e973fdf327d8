import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv2d
from torch.nn.grad import conv2d_weight

import tests.interpreted  # noqa: F401
from gradcast.replicas.passes import jit
from tests.replicas.passes.reference import single

REPLICAS, IMAGES, C, OUTPUTS, H, W = 2, 3, 5, 18, 8, 6  # columns, channels and runs fill no block


def sizes(stride: int) -> dict[str, int]:
    return {"H": H, "W": W, "C": C, "HO": H // stride, "WO": W // stride, "O": OUTPUTS, "STRIDE": stride}


def channels_first(x: Tensor) -> Tensor:
    return x.movedim(-1, -3).double()


@pytest.mark.parametrize("rows", [1, 2, 3, 8])
@pytest.mark.parametrize("stride", [1, 2])
def test_bands_of_a_convolution_join_without_a_seam(stride: int, rows: int) -> None:
    x, filters = single(REPLICAS, IMAGES, H, W, C), single(REPLICAS, OUTPUTS, 3, 3, C, seed=1)
    ho, wo = H // stride, W // stride
    y = torch.full((REPLICAS, IMAGES, ho, wo, OUTPUTS), torch.nan)
    columns, rows = IMAGES * wo, min(rows, ho)
    grid = (-(-columns // 16) * -(-ho // rows), 2, REPLICAS)
    jit.convolution[grid](x, filters, y, columns, rows, **sizes(stride), BP=16, BQ=16, BO=16, PRECISION="ieee")
    each = zip(channels_first(x), channels_first(filters), strict=True)
    expected = torch.stack([conv2d(images, own, None, stride, 1) for images, own in each])
    torch.testing.assert_close(channels_first(y), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("chunk", [16, 48, 160])
@pytest.mark.parametrize("stride", [1, 2])
def test_parts_and_blocks_of_weight_gradients_make_the_whole(stride: int, chunk: int) -> None:
    groups, ho, wo = REPLICAS, H // stride, W // stride
    x, dy = single(groups, IMAGES, H, W, C), single(groups, IMAGES, ho, wo, OUTPUTS, seed=1)
    pixels = IMAGES * ho * wo
    parts = -(-pixels // chunk)
    out = torch.full((parts, groups, OUTPUTS, 3, 3, C), torch.nan)
    slopes, runs = (3 * OUTPUTS, 3 * C) if stride == 1 else (OUTPUTS, 9 * C)
    grid = (groups, parts, -(-runs // 16) * -(-slopes // 32))
    jit.weight_gradient[grid](x, dy, out, pixels, chunk, **sizes(stride), BP=16, BQ=16, BS=32, PRECISION="ieee")
    each = zip(channels_first(x), channels_first(dy), strict=True)
    expected = torch.stack([conv2d_weight(a, (OUTPUTS, C, 3, 3), b, stride, 1) for a, b in each])
    torch.testing.assert_close(channels_first(out.sum(0)), expected, rtol=1e-5, atol=1e-5)
    assert not out.isnan().any()
