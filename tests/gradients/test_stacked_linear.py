import pytest
import torch

from gradcast.gradients.stacked_linear import Activation, activate, uniform


def test_weights_begin_as_those_of_torchs_linear_layers() -> None:
    torch.manual_seed(3)
    expected = torch.nn.Linear(7, 5, bias=False).weight
    torch.manual_seed(3)
    torch.testing.assert_close(uniform((5, 7), fan_in=7), expected)


@pytest.mark.parametrize(
    ("name", "expected"), [("relu", [0.0, 2.0]), ("tanh", [-0.7616, 0.9640]), ("none", [-1.0, 2.0])]
)
def test_activations_by_name(name: Activation, expected: list[float]) -> None:
    torch.testing.assert_close(activate(torch.tensor([-1.0, 2.0]), name), torch.tensor(expected), atol=1e-4, rtol=0)
