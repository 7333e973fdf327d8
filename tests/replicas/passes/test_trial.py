import pytest
import torch
from torch import Tensor, nn

from gradcast.networks.mlp import MLP
from gradcast.randomness import torch_generator
from gradcast.replicas.passes import folded, one_by_one, trial, vmapped
from gradcast.replicas.passes.chance import Noise
from tests.replicas.passes.reference import numbers


def network() -> nn.Module:
    return MLP([6, 5, 3], norm="batch").double()


def noise() -> Noise:
    return Noise([torch_generator(replica, "trial") for replica in range(2)])


def test_plain_passes_are_those_of_scaled_copies_in_turn() -> None:
    module, images = network(), numbers(12, 6)
    found = trial.plainly(module, images, noise())
    second = network()
    second.load_state_dict({k: v * 0.9 if v.is_floating_point() else v for k, v in module.state_dict().items()})
    second.load_state_dict(dict(module.named_buffers()), strict=False)  # buffers are not scaled
    y = second.train()(images[6:9])
    torch.testing.assert_close(found[0][6:9], y.detach())
    torch.testing.assert_close(found[0].shape, torch.Size([12, 3]))
    weights, buffers = list(module.parameters()), list(module.buffers())
    half = 1 + len(weights) + len(buffers)
    assert len(found) == 2 * half
    assert [t.shape for t in found[1 : 1 + len(weights)]] == [(2, 2, *w.shape) for w in weights]
    assert float(found[half - 1][0]) == 2  # num_batches_tracked, the last buffer
    factors = torch.linspace(-1, 1, 36, dtype=torch.float64).view(12, 3)
    expected = torch.autograd.grad((y * factors[6:9]).sum(), list(second.parameters()))
    torch.testing.assert_close([t[1, 0] for t in found[1 : 1 + len(weights)]], list(expected))


@pytest.mark.parametrize("way", [folded.outputs, vmapped.outputs, one_by_one.outputs])
def test_ways_give_what_plain_passes_give(way: trial.Outputs) -> None:
    module, images = network(), numbers(12, 6)
    expected = trial.plainly(module, images, noise())
    assert trial.same(trial.by(way, module, images), expected, 1e-7)


def test_weights_that_are_not_trained_have_no_gradient_to_compare() -> None:
    module, images = network(), numbers(12, 6)
    frozen = next(module.parameters()).requires_grad_(False)
    expected = trial.plainly(module, images, noise())
    assert len(expected) == 2 * (len(list(module.parameters())) + len(list(module.buffers())))
    assert trial.same(trial.by(folded.outputs, module, images), expected, 1e-7)
    assert not frozen.requires_grad


@pytest.mark.parametrize(
    ("found", "expected", "alike"),
    [
        ([1.0, 2.0], [1.0, 2.0 + 1e-8], True),
        ([1.0, 2.0], [1.0, 2.1], False),
        ([0.0, 1e6], [1e-4, 1e6], True),  # rounding of the largest
        ([torch.nan, 1.0], [torch.nan, 1.0], True),
        ([torch.nan, 1.0], [0.0, 1.0], False),
        ([1.0], [1.0, 1.0], False),
    ],
)
def test_sameness_is_to_rounding(found: list[float], expected: list[float], alike: bool) -> None:
    def tensors(values: list[float]) -> list[Tensor]:
        return [torch.tensor(values, dtype=torch.float64), torch.empty(0)]

    assert trial.same(tensors(found), tensors(expected), 1e-7) is alike
