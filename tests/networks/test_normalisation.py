from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from gradcast.networks.normalisation import NormRelu, batch_norm_relu, needs_several


@pytest.mark.parametrize("leak", [0.0, 0.1])
@pytest.mark.parametrize("with_skip", [False, True])
def test_it_is_batch_norm_sum_and_relu(with_skip: bool, leak: float) -> None:
    ours, theirs = NormRelu(3, leak=leak).double(), nn.BatchNorm2d(3).double()
    nn.init.normal_(theirs.weight)
    nn.init.normal_(theirs.bias)
    ours.load_state_dict(theirs.state_dict())
    for training in (True, True, False):
        x, skip = torch.randn(2, 4, 3, 5, 5, dtype=torch.float64)
        norm = theirs.train(training)(x)
        expected = norm + skip if with_skip else norm
        expected = expected.clamp_min(0) + leak * expected.clamp_max(0)
        torch.testing.assert_close(ours.train(training)(x, skip if with_skip else None), expected)
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())
    assert ours.num_batches_tracked == 2


def test_its_weights_have_the_names_of_batch_norm() -> None:
    assert list(NormRelu(3).state_dict()) == list(nn.BatchNorm2d(3).state_dict())


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((3, 4, 4), True),  # one number a channel after both strides
        ((3, 8, 8), False),
    ],
)
def test_a_pass_of_one_image_has_a_variance_where_every_layer_sees_several_values(
    shape: tuple[int, ...], expected: bool
) -> None:
    layers = [nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3, 2, 1), NormRelu(4), nn.Flatten()]
    network = nn.Sequential(*layers)
    before = torch.get_rng_state()
    assert needs_several(network, shape) is expected
    assert torch.equal(torch.get_rng_state(), before)
    assert network.training
    assert network.state_dict()["1.num_batches_tracked"] == 0
    with pytest.raises(ValueError, match="more than 1 value per channel") if expected else nullcontext():
        network(torch.rand(1, *shape))  # torch's own answer


def test_networks_without_batch_norm_take_single_images() -> None:
    assert not needs_several(nn.Linear(3, 2), (3,))
    assert needs_several(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)), (3,))


class Taking(TorchFunctionMode):
    """Answers for ``batch_norm_relu``, and notes what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is batch_norm_relu:
            self.asked.append((args, kwargs or {}))
            return torch.zeros(())
        return func(*args, **(kwargs or {}))


def test_a_function_mode_may_take_it_over() -> None:
    layer, x, skip = NormRelu(3, leak=0.125, eps=0.5, momentum=0.25), torch.randn(4, 3, 5, 5), torch.randn(4, 3, 5, 5)
    with Taking() as mode:
        found: Tensor = layer(x, skip)
    assert found.shape == ()
    ((tensors, options),) = mode.asked
    expected = (x, skip, layer.running_mean, layer.running_var)
    assert all(mine is theirs for mine, theirs in zip(tensors, expected, strict=True))
    assert options.pop("weight") is layer.weight
    assert options.pop("bias") is layer.bias
    assert options == {"training": True, "momentum": 0.25, "eps": 0.5, "leak": 0.125}
