import pytest
import torch
from torch import Tensor

import tests.interpreted  # noqa: F401
from gradcast.replicas.passes import jit
from tests.replicas.passes.reference import single

GROUPS, PARTS, LENGTH, CHUNK, C = 2, 10, 38, 4, 3  # the last part is half empty
SIZES = {"C": C, "BC": 4}
BESIDE = pytest.mark.parametrize("beside", [1, 2])  # pixels of a row; two have more numbers than a program takes


def images() -> Tensor:
    return single(GROUPS, LENGTH, C) + 5


def in_parts(beside: int, *values: Tensor) -> Tensor:
    """``[GROUPS, PARTS, values, beside, C]``."""
    each = [[part.unflatten(1, (-1, beside)).sum(1) for part in value.split(CHUNK, dim=1)] for value in values]
    return torch.stack([torch.stack(parts, 1) for parts in each], 2)


def cut(beside: int) -> tuple[tuple[int, int], tuple[int, int], dict[str, int]]:
    """Programs, rows with those of a part, and sizes of a summing kernel."""
    row = beside * C
    return (GROUPS * -(-row // 4), PARTS), (LENGTH // beside, CHUNK // beside), {**SIZES, "ROW": row, "BL": 2}


def unwritten(*shape: int) -> Tensor:
    return torch.full(shape, torch.nan)


@BESIDE
def test_moments_are_sums_of_deviations_from_the_first_pixel(beside: int) -> None:
    x, out = images(), unwritten(GROUPS, PARTS, 2, beside, C)
    grid, rows, sizes = cut(beside)
    jit.moments[grid](x, out, *rows, **sizes)
    away = x - x[:, :1]
    torch.testing.assert_close(out, in_parts(beside, away, away**2))
    assert not out.isnan().any()


@BESIDE
def test_finished_moments_are_mean_variance_scale_and_shift(beside: int) -> None:
    x, away = images(), images() - images()[:, :1]
    weight, bias, found = single(1, C, seed=1), single(1, C, seed=2), unwritten(5, GROUPS, C)
    sums = in_parts(beside, away, away**2)
    arguments = (x, sums, weight, bias, *found, LENGTH, 1e-3, PARTS, beside, GROUPS, C, C)
    jit.finish_moments[(GROUPS,)](*arguments, **SIZES)
    mean, var = x.mean(1), x.var(1, correction=0)
    scale = weight / (var + 1e-3).sqrt()
    expected = torch.stack([mean, var, 1 / (var + 1e-3).sqrt(), scale, bias - mean * scale])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert not torch.equal(found[:, 0], found[:, 1])


@pytest.mark.parametrize("leak", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("gate", [False, True])
@BESIDE
def test_sums_are_of_slopes_behind_the_relu(beside: int, gate: bool, leak: float) -> None:
    x, dy, y, mean = images(), single(GROUPS, LENGTH, C, seed=1), single(GROUPS, LENGTH, C, seed=2), images().mean(1)
    scale, shift = single(GROUPS, C, seed=3), single(GROUPS, C, seed=4)
    gated, out = unwritten(GROUPS, LENGTH, C), unwritten(GROUPS, PARTS, 2, beside, C)
    grid, rows, sizes = cut(beside)
    jit.sums[grid](x, dy, y, gated, mean, scale, shift, out, *rows, **sizes, GATE=gate, LEAK=leak)
    before = y if gate else x * scale.unsqueeze(1) + shift.unsqueeze(1)
    slopes = torch.where(before > 0, dy, leak * dy)
    expected = in_parts(beside, slopes, slopes * (x - mean.unsqueeze(1)))
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(gated, slopes) if gate else gated.isnan().all()


@BESIDE
def test_finished_sums_lead_to_the_gradients_of_batch_norm(beside: int) -> None:
    x, dy = images().requires_grad_(), single(GROUPS, LENGTH, C, seed=1)
    weight, bias = single(GROUPS, C, seed=2).requires_grad_(), single(GROUPS, C, seed=3).requires_grad_()
    mean, rstd = x.mean(1), x.var(1, correction=0).rsqrt()
    centred = x - mean.unsqueeze(1)
    y = centred * (weight * rstd).unsqueeze(1) + bias.unsqueeze(1)
    dx, *others = torch.autograd.grad(y, [x, weight, bias], dy)
    found, scale = unwritten(4, GROUPS, C), (weight * rstd).detach()
    sums = in_parts(beside, dy, dy * centred.detach())
    arguments = (sums, mean.detach(), rstd.detach(), scale, *found, LENGTH, PARTS, beside)
    jit.finish_sums[(GROUPS,)](*arguments, **SIZES)
    dweight, dbias, slope, level = found.unsqueeze(2)
    blended = dy * scale.unsqueeze(1) + x.detach() * slope + level
    torch.testing.assert_close(blended, dx, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close([dweight.squeeze(1), dbias.squeeze(1)], others, rtol=1e-5, atol=1e-5)
    assert not found.isnan().any()


def test_fold_moves_running_statistics_pass_by_pass() -> None:
    mean, var, seen = single(2, C), single(2, C, seed=1).abs(), single(2, 2, PARTS, C, seed=2).abs()
    expected_mean, expected_var = mean.clone(), var.clone()
    for index in range(PARTS):
        expected_mean = 0.7 * expected_mean + 0.3 * seen[0, :, index]
        expected_var = 0.7 * expected_var + 0.3 * 1.5 * seen[1, :, index]
    jit.fold[(2,)](mean, var, seen[0], seen[1], PARTS, 0.3, 1.5, **SIZES)
    torch.testing.assert_close((mean, var), (expected_mean, expected_var))
    assert (var > 0).all()


BLOCKS = [(3, 8, 2), (12, 8, 1), (20, 8, 3), (32, 8, 2), (5, 16, 1)]  # channels, a block, how many of them


def elementwise(channels: int, block: int, repeat: int) -> tuple[tuple[int, int], dict[str, int]]:
    period = next(n for n in range(1, channels + 1) if n * block % channels == 0)
    programs = -(-LENGTH * channels // (period * block * repeat)) * period
    return (programs, GROUPS), {"C": channels, "PERIOD": period, "BLOCK": block, "REPEAT": repeat}


@pytest.mark.parametrize("leak", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("summed", [False, True])
@pytest.mark.parametrize(("channels", "block", "repeat"), BLOCKS)
def test_affine_meets_every_channel_with_its_own_factors(
    channels: int, block: int, repeat: int, summed: bool, leak: float
) -> None:
    x, skip = single(GROUPS, LENGTH, channels), single(GROUPS, LENGTH, channels, seed=1) if summed else None
    scale, shift = single(GROUPS, channels, seed=2), single(GROUPS, channels, seed=3)
    y = unwritten(GROUPS, LENGTH, channels)
    grid, constants = elementwise(channels, block, repeat)
    jit.affine[grid](x, scale, shift, skip, y, LENGTH * channels, **constants, LEAK=leak)
    value = x * scale.unsqueeze(1) + shift.unsqueeze(1) + (0 if skip is None else skip)
    torch.testing.assert_close(y, torch.where(value > 0, value, leak * value))


@pytest.mark.parametrize("leak", [0.0, 0.25, 1.0])
@pytest.mark.parametrize(("channels", "block", "repeat"), BLOCKS)
def test_blend_meets_every_channel_with_its_own_factors(channels: int, block: int, repeat: int, leak: float) -> None:
    x, dy = single(GROUPS, LENGTH, channels), single(GROUPS, LENGTH, channels, seed=1)
    factors = [single(GROUPS, channels, seed=2 + k) for k in range(4)]
    scale, shift, slope, level = (factor.unsqueeze(1) for factor in factors)
    dx = unwritten(GROUPS, LENGTH, channels)
    grid, constants = elementwise(channels, block, repeat)
    jit.blend[grid](x, dy, *factors, dx, LENGTH * channels, **constants, LEAK=leak)
    gated = torch.where(x * scale + shift > 0, dy, leak * dy)
    torch.testing.assert_close(dx, gated * scale + x * slope + level)
