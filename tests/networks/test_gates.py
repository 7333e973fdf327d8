import torch
from torch import Tensor, nn

from gradcast.networks.gates import gated, scaled
from gradcast.randomness import seeded
from gradcast.replicas.heads import Heads
from gradcast.replicas.passes import folded
from gradcast.replicas.replicas import Replicas
from tests.helpers import CPU
from tests.replicas.test_replicas import own_module


class Multiplied(nn.Module):
    """Both, on maps and on rows, with dropout between."""

    slope: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 4, 2), nn.Linear(16, 3)
        self.embedding, self.scale = nn.Parameter(torch.randn(4)), nn.Parameter(torch.rand(1))
        self.register_buffer("slope", torch.tensor(2.0))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.second(scaled(gated(self.first(x), self.embedding, self.slope).flatten(1), self.scale))
        return y


def test_by_hand() -> None:
    x, embedding = torch.ones(2, 2, 3), torch.tensor([0.0, 100.0])
    found = gated(x, embedding, torch.tensor(5.0))
    assert found[:, 0].unique().tolist() == [0.5]
    assert found[:, 1].unique().tolist() == [1.0]
    assert scaled(x, torch.tensor([0.25])).unique().tolist() == [0.25]


def test_replicas_fold_them_with_slopes_and_gradients_of_their_own() -> None:
    modules = []
    for seed in range(2):
        with seeded(seed, "model"):
            modules.append(Multiplied())
    model = Replicas(modules, Heads.even(3), device=CPU, dtype=torch.float64)
    model.buffers["slope"].copy_(torch.tensor([0.5, 3.0]))
    x = torch.randn(2, 5, 1, 3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    made = model.forward(x, 0)
    assert model.ways.chosen[model.module] is folded.outputs
    gradient = made.pull(torch.ones_like(made.z)).flat
    for replica in range(2):
        alone = own_module(model, replica)
        z = alone(x[replica])
        torch.testing.assert_close(made.z[replica], z.detach())
        own = torch.cat([g.flatten() for g in torch.autograd.grad(z.sum(), list(alone.parameters()))])
        torch.testing.assert_close(gradient[replica], own)
