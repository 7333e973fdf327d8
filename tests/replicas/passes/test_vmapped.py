from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from gradcast.replicas.passes import vmapped
from tests.replicas.passes.reference import PASSES, Scaled, images, modules, one_by_one, together


class Shifted(nn.Sequential):
    """Scaled and normalised, with a constant among its buffers."""

    def __init__(self) -> None:
        super().__init__(Scaled(), nn.BatchNorm1d(3, momentum=0.3), nn.ReLU(), nn.LayerNorm(3))
        self.register_buffer("shift", torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.shift


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("build", [Scaled, Shifted, lambda: nn.Sequential(nn.Linear(6, 4), nn.LayerNorm(4))])
def test_vmapped_passes_equal_each_module_alone(build: Callable[[], nn.Module], training: bool) -> None:
    alone, x = [module.train(training) for module in modules(build)], images(6)
    expected, found = one_by_one(alone, x), together(vmapped.outputs, alone, x)
    torch.testing.assert_close(vars(found), vars(expected))
    assert all(gradient.any() for gradient in found.gradients.values())


def test_constants_survive_and_counters_count() -> None:
    alone = modules(Shifted)
    found = together(vmapped.outputs, alone, images(6)).buffers
    assert found["shift"].tolist() == [[1.0, 2.0, 3.0]] * len(alone)
    assert found["1.num_batches_tracked"].tolist() == [PASSES] * len(alone)
