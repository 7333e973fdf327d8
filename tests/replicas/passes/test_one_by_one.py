from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from gradcast.networks.mlp import MLP
from gradcast.randomness import torch_generator
from gradcast.replicas.passes import one_by_one
from gradcast.replicas.passes.chance import Noise
from tests.replicas.passes import reference
from tests.replicas.passes.reference import IMAGES, PASSES, REPLICAS, images, modules, together


class Branching(nn.Linear):
    """Looks at its numbers, which neither folding nor vmap can."""

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return y * 2 if y.sum().item() > 0 else y


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("build", [lambda: Branching(6, 4), lambda: MLP([6, 5, 3], norm="batch")])
def test_passes_equal_each_module_alone(build: Callable[[], nn.Module], training: bool) -> None:
    alone, x = [module.train(training) for module in modules(build)], images(6)
    expected, found = reference.one_by_one(alone, x), together(one_by_one.outputs, alone, x)
    torch.testing.assert_close(vars(found), vars(expected))
    assert all(gradient.any() for gradient in found.gradients.values())


def test_each_replica_draws_from_its_own_numbers() -> None:
    network = nn.Dropout(0.5)
    weights = {"unused": torch.zeros(REPLICAS, PASSES, 1)}
    generators = [torch_generator(seed, "dropout") for seed in range(REPLICAS)]
    x = torch.ones(REPLICAS * PASSES * IMAGES, 50)
    found = one_by_one.outputs(network, weights, {}, x, Noise(generators)).chunk(REPLICAS)
    alone = one_by_one.outputs(
        network, {"unused": weights["unused"][1:]}, {}, x[: PASSES * IMAGES], Noise([torch_generator(1, "dropout")])
    )
    assert torch.equal(found[1], alone)
    assert len({tuple(row) for row in torch.cat(found).tolist()}) == len(x)
