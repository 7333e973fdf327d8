from itertools import product

import pytest
import torch
from torch import Tensor, nn

from gradcast.replicas.passes.batchnorm import NormRelu, fold_in, norm_relu, normalised
from tests.replicas.passes.reference import IMAGES, PASSES, REPLICAS, images, modules, numbers, one_by_one, together

CASES = pytest.mark.parametrize(("with_skip", "leak"), list(product([False, True], [0.0, 0.1, 1.0])))
CHANNELS = 3


class Block(nn.BatchNorm2d):
    """The ordinary spelling; what is added comes as further channels of ``x``."""

    def __init__(self, with_skip: bool, leak: float) -> None:
        super().__init__(CHANNELS, eps=1e-3)
        self.with_skip, self.leak = with_skip, leak

    def apart(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        return (x[:, :CHANNELS], x[:, CHANNELS:]) if self.with_skip else (x, None)

    def forward(self, x: Tensor) -> Tensor:
        own, skip = self.apart(x)
        y = super().forward(own)
        y = y if skip is None else y + skip
        return torch.where(y > 0, y, self.leak * y)


def by_pass(module: Block, weights: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor) -> Tensor:
    own, skip = module.apart(x)
    y: Tensor = NormRelu.apply(own, weights["weight"], weights["bias"], skip, module.eps, module.leak)[0]
    return y


def by_given(module: Block, weights: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor) -> Tensor:
    own, skip = module.apart(x)
    statistics = buffers["running_mean"], buffers["running_var"]
    return normalised(own, *statistics, weights["weight"], weights["bias"], skip, module.eps, module.leak)


@CASES
@pytest.mark.parametrize("training", [True, False])
def test_norm_sum_and_relu_equal_ordinary_layers(with_skip: bool, leak: float, training: bool) -> None:
    alone = [module.train(training) for module in modules(lambda: Block(with_skip, leak))]
    x = images(CHANNELS * (2 if with_skip else 1), 2, 5)
    expected, found = one_by_one(alone, x), together(by_pass if training else by_given, alone, x)
    torch.testing.assert_close(found.y, expected.y)
    torch.testing.assert_close(found.dx, expected.dx)
    torch.testing.assert_close(found.gradients, expected.gradients)
    assert (found.y.min() >= 0) == (leak == 0)


def test_vectors_have_moments_of_their_pass() -> None:
    x, one = images(CHANNELS), torch.ones(REPLICAS, PASSES, CHANNELS, dtype=torch.float64)
    y, mean, var = norm_relu(x, one, 0 * one, None, 0.0, 1.0)
    passes = x.view(REPLICAS, PASSES, IMAGES, CHANNELS)
    torch.testing.assert_close(mean, passes.mean(2))
    torch.testing.assert_close(var, passes.square().mean(2) - passes.mean(2).square())
    torch.testing.assert_close(y, ((passes - mean.unsqueeze(2)) / var.sqrt().unsqueeze(2)).flatten(0, 2))
    assert y.shape == x.shape


@pytest.mark.parametrize("momentum", [0.1, 0.7])
def test_running_statistics_end_where_passes_one_after_another_leave_them(momentum: float) -> None:
    alone = modules(lambda: nn.BatchNorm2d(CHANNELS, momentum=momentum))
    mean = torch.stack([module.running_mean for module in alone])
    var = torch.stack([module.running_var for module in alone])
    before = mean.clone()
    passes = numbers(REPLICAS, PASSES, IMAGES, CHANNELS, 2, 5)
    count = IMAGES * 2 * 5
    seen = passes.mean((2, 4, 5)), passes.var((2, 4, 5), correction=0)
    fold_in(mean, var, *seen, momentum, count / (count - 1))
    for replica, module in enumerate(alone):
        for batch in passes[replica]:
            module(batch)
        torch.testing.assert_close(mean[replica], module.running_mean)
        torch.testing.assert_close(var[replica], module.running_var)
    assert not torch.equal(mean, before)
