import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import conv2d

import tests.interpreted  # noqa: F401
from gradcast.replicas.passes import kernels
from gradcast.replicas.passes.layers import Convolution
from tests.helpers import CPU
from tests.replicas.passes.reference import single

Pair = tuple[int, int]
ORDINARY = (1, 1), (1, 1), (1, 1), 1


def ordinary(x: Tensor, filters: Tensor, dy: Tensor, stride: int, groups: int) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs, input gradient and one weight gradient a group of images, in float64."""
    found = []
    passes = groups // len(filters)
    for index, (images, slopes) in enumerate(zip(x.chunk(groups), dy.chunk(groups), strict=True)):
        images = images.double().requires_grad_()
        own = filters[index // passes].double().requires_grad_()
        y = conv2d(images, own, stride=stride, padding=own.shape[-1] // 2)
        found.append((y.detach(), *torch.autograd.grad(y, [images, own], slopes.double())))
    y, dx, dw = zip(*found, strict=True)
    return torch.cat(y).float(), torch.cat(dx).float(), torch.stack(dw).float()


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(
    ("shares", "images", "channels", "pixels"),
    [((2, 4), 3, (20, 40), (6, 10)), ((1, 2), 1, (3, 5), (4, 2)), ((1, 1), 3, (2, 3), (18, 14))],
)
def test_convolution_and_its_weight_gradients(
    shares: Pair, images: int, channels: Pair, pixels: Pair, stride: int
) -> None:
    replicas, groups = shares
    x = single(groups * images, channels[0], *pixels)
    filters = single(replicas, channels[1], channels[0], 3, 3, seed=1)
    dy = single(len(x), channels[1], pixels[0] // stride, pixels[1] // stride, seed=2)
    y, _, dw = ordinary(x, filters, dy, stride, groups)
    torch.testing.assert_close(kernels.convolve(x, filters, stride=stride), y, rtol=1e-4, atol=1e-4)
    dy = dy.contiguous(memory_format=torch.channels_last)
    found = kernels.weight_gradients(x, dy, filters, groups=groups, stride=stride)
    torch.testing.assert_close(found, dw, rtol=1e-4, atol=1e-4)
    assert found.dtype == torch.float32


@pytest.mark.parametrize("stride", [1, 2])
def test_a_layer_by_kernels_equals_the_librarys(stride: int, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[Tensor] = []
    ours = kernels.convolve
    monkeypatch.setattr(kernels, "_fits", lambda *_: True)
    monkeypatch.setattr(kernels, "agree", lambda *_: True)
    monkeypatch.setattr(kernels, "convolve", lambda x, *rest, **named: used.append(x) or ours(x, *rest, **named))
    x = single(8, 3, 4, 6).requires_grad_()
    weight = single(2, 1, 5, 3, 3, 3).expand(2, 2, -1, -1, -1, -1).requires_grad_()
    y = Convolution.apply(x, weight, None, ((stride, stride), (1, 1), (1, 1), 1))
    dy = single(*y.shape, seed=2).contiguous(memory_format=torch.channels_last)
    dx, dw = torch.autograd.grad(y, [x, weight], dy)
    expected = ordinary(x.detach(), weight[:, 0].detach(), dy, stride, 4)
    torch.testing.assert_close((y.detach(), dx, dw.flatten(0, 1)), expected, rtol=1e-4, atol=1e-4)
    assert len(used) == (1 if stride == 2 else 2)  # the library's input gradient is the faster one


TRIAL = torch.Size([3, 4, 6]), 5, 1, torch.float32, CPU


@pytest.mark.parametrize("name", ["convolve", "weight_gradients"])
def test_kernels_that_agree_with_the_library_are_believed(name: str) -> None:
    assert kernels.agree.__wrapped__(name, *TRIAL)


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        ("convolve", 0.9),
        ("convolve", torch.nan),
        ("weight_gradients", 0.9),
        ("weight_gradients", torch.nan),
    ],
)
def test_kernels_that_err_are_reported_and_left_out(name: str, factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = getattr(kernels, name)
    monkeypatch.setattr(kernels, name, lambda *args, **named: factor * ours(*args, **named))
    with pytest.warns(UserWarning, match="3 x 3 convolution"):
        assert not kernels.agree.__wrapped__(name, *TRIAL)


def test_kernels_too_large_for_a_gpu_are_reported_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_large(*_: object, **__: object) -> Tensor:
        raise kernels.jit().OutOfResources(262_144, 101_376, "shared memory")

    monkeypatch.setattr(kernels, "convolve", too_large)
    with pytest.warns(UserWarning, match=r"too large for this GPU \(out of resource: shared memory"):
        assert not kernels.agree.__wrapped__("convolve", *TRIAL)


def fits(
    options: kernels.Options = ORDINARY, *, size: int = 3, dtype: torch.dtype = torch.float32, channels: int = 3
) -> bool:
    """The answer for images on a GPU; they need not be there to be asked about."""
    with FakeTensorMode(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "agree", lambda *_: True)
        patch.setattr(kernels, "_modern", lambda _: True)
        x = torch.empty(4, channels, 7, 8, device="cuda", dtype=dtype)
        filters = torch.empty(2, 5, channels, size, size, device="cuda")
        found = kernels.differentiates(x, filters, options, groups=1)
        assert kernels.convolves(x, filters, options) == (found and channels <= kernels.FEW)
        return found


def test_ordinary_convolutions_on_a_gpu_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    assert fits()
    assert fits(dtype=torch.bfloat16)
    assert fits(channels=kernels.FEW + 1)


def test_other_convolutions_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    assert not fits(dtype=torch.float64)
    assert not fits(((1, 1), (2, 2), (1, 1), 1), size=5)
    assert not fits(((1, 1), (0, 0), (1, 1), 1), size=1)  # a product, see folded.py
    assert not fits(((2, 2), (1, 1), (1, 1), 1))  # seven rows
    assert not fits(((1, 1), (0, 0), (1, 1), 1))
    assert not fits(((1, 1), (1, 1), (2, 2), 1))
    assert not fits(((1, 1), (1, 1), (1, 1), 3))
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    assert not fits()
    assert fits(dtype=torch.bfloat16)


@pytest.mark.parametrize(
    ("channels", "groups", "ours"), [(128, 3, False), (128, 60, True), (kernels.FEW, 3, True), (kernels.FEW, 60, True)]
)
def test_long_passes_with_many_channels_are_left_to_the_library(channels: int, groups: int, ours: bool) -> None:
    with FakeTensorMode(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "_fits", lambda *_: True)
        patch.setattr(kernels, "agree", lambda *_: True)
        x = torch.empty(3 * 128, channels, 32, 32, device="cuda")
        assert kernels.differentiates(x, torch.empty(3, 128, channels, 3, 3), ORDINARY, groups) == ours


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_nothing_fits_on_the_cpu(dtype: torch.dtype) -> None:
    x, filters = torch.zeros(4, 3, 8, 8, dtype=dtype), torch.zeros(2, 5, 3, 3, 3, dtype=dtype)
    assert not kernels.ready(x)
    assert not kernels.convolves(x, filters, ORDINARY)
    assert not kernels.differentiates(x, filters, ORDINARY, groups=1)
