import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import Function

import tests.interpreted  # noqa: F401
from gradcast.replicas.passes import batchnorm as norm
from gradcast.replicas.passes import fused, kernels
from tests.replicas.passes.reference import single

REPLICAS, PASSES, IMAGES, CHANNELS = 2, 2, 3, 5
LAST = torch.channels_last


@pytest.fixture
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass's 72 pixels take four parts, its 5 channels three, its 360 numbers three; the last ones are not full."""
    monkeypatch.setattr(fused, "LENGTH", 4)
    monkeypatch.setattr(fused, "WIDTH", 2)
    monkeypatch.setattr(fused, "BLOCK", 128)


def images(seed: int = 0) -> Tensor:
    return single(REPLICAS * PASSES * IMAGES, CHANNELS, 6, 4, seed=seed).contiguous(memory_format=LAST)


def weights(seed: int, dtype: torch.dtype = torch.float32, channels: int = CHANNELS) -> Tensor:
    return single(REPLICAS, 1, channels, seed=seed).to(dtype).expand(-1, PASSES, -1).requires_grad_()


def results(
    function: type[Function], x: Tensor, skip: Tensor | None, dy: Tensor, *, leak: float, dtype: torch.dtype
) -> dict[str, Tensor]:
    """Output, statistics and gradients, computed with weights of ``dtype``."""
    channels = x.shape[1]
    weight, bias = weights(3, dtype, channels), weights(4, dtype, channels)
    leaves = {"x": x.clone().requires_grad_(), "weight": weight, "bias": bias}
    leaves |= {} if skip is None else {"skip": skip.to(x.dtype).requires_grad_()}
    y, mean, var = function.apply(leaves["x"], leaves["weight"], leaves["bias"], leaves.get("skip"), 1e-5, leak)
    gradients = dict(zip(leaves, torch.autograd.grad(y, list(leaves.values()), dy.to(y.dtype)), strict=True))
    return {name: value.detach().double() for name, value in ({"y": y, "mean": mean, "var": var} | gradients).items()}


@pytest.mark.usefixtures("_small_blocks")
@pytest.mark.parametrize("leak", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("with_skip", [False, True])
def test_kernels_give_what_torch_gives(with_skip: bool, leak: float) -> None:
    x, skip, dy = 2 * images() + 3, images(seed=1) if with_skip else None, images(seed=2)
    found = results(fused.FusedNormRelu, x, skip, dy, leak=leak, dtype=torch.float32)
    expected = results(norm.NormRelu, x.double(), skip, dy, leak=leak, dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert ("skip" in found) == with_skip


@pytest.mark.usefixtures("_small_blocks")
@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-4), (torch.bfloat16, 0.05)])
def test_other_layouts_and_types_are_understood(dtype: torch.dtype, error: float) -> None:
    x, skip, dy = images().to(dtype), images(seed=1).contiguous(), images(seed=2).contiguous()
    found = results(fused.FusedNormRelu, x, skip, dy, leak=0.0, dtype=torch.float32)
    expected = results(norm.NormRelu, x.double(), skip, dy, leak=0.0, dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=error, atol=error)
    assert not skip.is_contiguous(memory_format=LAST)


@pytest.mark.usefixtures("_small_blocks")
@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-5), (torch.bfloat16, 0.05)])
@pytest.mark.parametrize("leak", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("with_skip", [False, True])
def test_given_statistics_are_applied_as_torch_applies_them(
    with_skip: bool, leak: float, dtype: torch.dtype, error: float
) -> None:
    mean, var = single(REPLICAS, CHANNELS, seed=5), single(REPLICAS, CHANNELS, seed=6).square() + 0.5
    x, skip, dy = (2 * images() + 3).to(dtype), images(seed=1).to(dtype), images(seed=2)

    def given(own: torch.dtype, weight: torch.dtype) -> list[Tensor]:
        leaves = [x.to(own).requires_grad_(), weights(3, weight), weights(4, weight), skip.to(own).requires_grad_()]
        leaves = leaves if with_skip else leaves[:3]
        statistics, added = (mean.to(weight), var.to(weight)), leaves[3] if with_skip else None
        y = norm.normalised(leaves[0], *statistics, *leaves[1:3], added, 1e-5, leak)
        return [found.double() for found in (y, *torch.autograd.grad(y, leaves, dy.to(y.dtype)))]

    expected = given(torch.float64, torch.float64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fused, "applies_to", lambda _: True)
        found = given(dtype, torch.float32)
    torch.testing.assert_close(found, expected, rtol=error, atol=error)


@pytest.mark.parametrize(("channels", "beside"), [(20, 16), (24, 8), (64, 1), (48, 4), (36, 16), (7, 1)])
def test_pixels_share_rows_that_fill_whole_programs(channels: int, beside: int) -> None:
    cut = fused._cut(64, 1, channels)
    assert (cut.beside, cut.rows * cut.beside, cut.sizes["ROW"] % fused.WIDTH == 0) == (beside, 64, channels > 7)
    assert fused._cut(63, 1, channels).beside == 1


@pytest.mark.parametrize("with_skip", [False, True])
def test_pixels_that_share_rows_have_moments_and_gradients_of_their_channel(with_skip: bool) -> None:
    shape = REPLICAS * PASSES * 4, 20, 8, 8
    x, skip, dy = (single(*shape, seed=seed).contiguous(memory_format=LAST) for seed in range(3))
    added = skip if with_skip else None
    found = results(fused.FusedNormRelu, x, added, dy, leak=0.0, dtype=torch.float32)
    expected = results(norm.NormRelu, x.double(), added, dy, leak=0.0, dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert fused._cut(4 * 8 * 8, REPLICAS * PASSES, 20).beside == 16


def test_a_mean_far_from_zero_costs_no_precision() -> None:
    x = images() + 100
    y, mean, var = fused.FusedNormRelu.apply(x, weights(3), weights(4), None, 1e-5, 1.0)
    passes = x.double().unflatten(0, (REPLICAS, PASSES, IMAGES))
    torch.testing.assert_close(mean.double(), passes.mean((2, 4, 5)), rtol=1e-6, atol=0)
    torch.testing.assert_close(var.double(), passes.var((2, 4, 5), correction=0), rtol=1e-3, atol=0)
    expected = norm.NormRelu.apply(x.double(), weights(3).double(), weights(4).double(), None, 1e-5, 1.0)[0]
    assert (y - expected).abs().max() < 1e-3


@pytest.mark.usefixtures("_small_blocks")
def test_running_statistics_are_those_of_torch() -> None:
    mean, var = single(REPLICAS, CHANNELS), single(REPLICAS, CHANNELS, seed=1).abs()
    seen = single(REPLICAS, 7, CHANNELS, seed=2), single(REPLICAS, 7, CHANNELS, seed=3).abs()
    expected = mean.clone(), var.clone()
    norm.fold_in(*expected, *seen, 0.1, 1.2)
    before = mean.clone()
    fused.fold_in(mean, var, *seen, 0.1, 1.2)
    torch.testing.assert_close((mean, var), expected)
    assert not torch.equal(mean, before)


def test_kernels_apply_to_images_channels_last_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_modern", lambda _: True)
    with FakeTensorMode():
        assert fused.applies_to(torch.empty(4, 3, 5, 6, device="cuda", memory_format=LAST))
        assert not fused.applies_to(torch.empty(4, 3, 5, 6, device="cuda"))
        assert not fused.applies_to(torch.empty(4, 3, 5, 6, device="cuda", memory_format=LAST, dtype=torch.float64))
        assert not fused.applies_to(torch.empty(4, 3, device="cuda"))
    assert not fused.applies_to(images())
