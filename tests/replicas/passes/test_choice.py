import copy
import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import dropout
from torch.utils.checkpoint import checkpoint

from gradcast.errors import GradcastError
from gradcast.networks.mlp import MLP
from gradcast.networks.resnet import SlimResNet18
from gradcast.replicas.passes import folded, one_by_one, vmapped
from gradcast.replicas.passes.choice import choose, only_linear
from tests.replicas.passes.reference import Scaled, numbers
from tests.replicas.passes.test_one_by_one import Branching


class Centred(nn.Linear):
    """Mixes the images of a batch."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x - x.mean(0))


class RarelyNoisy(nn.Linear):
    """The trial may see no difference."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(torch.where(torch.rand_like(x[:, :1]) < 1e-9, 0.0, x))


class Sideways(nn.Linear):
    """Drops from something whose first axis is not the images'."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x * dropout(torch.ones(6, dtype=x.dtype), 0.5, self.training))


class Foreign(nn.Linear):
    """Draws what no seed governs."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * random.random()


class Noisy(nn.Linear):
    """Draws where nobody can see it."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + torch.rand_like(x))


class Reassigned(nn.Linear):
    """Its buffer is another tensor after every pass."""

    def __init__(self) -> None:
        super().__init__(6, 3)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.seen = self.seen + 1
        return super().forward(x) * self.seen


class Twice(nn.Sequential):
    """Computes again on the way back, when its weights are no longer lent."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = checkpoint(super().forward, x, use_reentrant=False)
        return y


class Single(nn.Linear):
    """Knows one type of number."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.float())


FOLDED = {
    "mlp": (lambda: MLP([6, 5, 3]), (6,)),
    "mlp with BatchNorm": (lambda: MLP([6, 5, 3], norm="batch"), (2, 3)),
    "resnet": (lambda: SlimResNet18(2, 3), (3, 8, 8)),
    "in place": (lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(inplace=True), nn.Linear(5, 3)), (6,)),
    "1x1 convolution in place": (
        lambda: nn.Sequential(nn.Conv2d(2, 3, 1), nn.ReLU(inplace=True), nn.Flatten()),
        (2, 3, 4),
    ),
    "float32 alone": (lambda: Single(6, 3), (6,)),
    "dropout": (lambda: nn.Sequential(MLP([6, 5]), nn.Dropout(0.5), nn.Linear(5, 3)), (6,)),
}
VMAPPED = {
    "weights outside of layers": (Scaled, (6,)),
    "images mixed": (lambda: Centred(6, 3), (6,)),
    "layers without folding": (lambda: nn.Sequential(nn.Linear(6, 4), nn.LayerNorm(4)), (6,)),
}
ONE_BY_ONE = {
    "numbers looked at": (lambda: Branching(6, 3), (6,), "cannot be vmapped"),
    "numbers drawn": (lambda: Noisy(6, 3), (6,), "random numbers by other means"),
    "numbers rarely used": (lambda: RarelyNoisy(6, 3), (6,), "random numbers by other means"),
    "dropout across images": (lambda: Sideways(6, 3), (6,), "of something else than images"),
    "dropout where nothing folds": (lambda: nn.Sequential(Scaled(), nn.Dropout(0.5)), (6,), "has dropout"),
}
NETWORKS = FOLDED | VMAPPED
Case = tuple[Callable[[], nn.Module], tuple[int, ...]]


@pytest.mark.parametrize("case", FOLDED.values(), ids=FOLDED)
def test_networks_of_known_layers_are_folded(case: Case) -> None:
    build, shape = case
    assert choose(build(), numbers(5, *shape, dtype=torch.float32)) is folded.outputs


@pytest.mark.parametrize("case", VMAPPED.values(), ids=VMAPPED)
def test_other_networks_are_vmapped(case: Case) -> None:
    build, shape = case
    assert choose(build(), numbers(5, *shape, dtype=torch.float32)) is vmapped.outputs


@pytest.mark.parametrize(("build", "shape", "why"), ONE_BY_ONE.values(), ids=ONE_BY_ONE)
def test_what_cannot_be_vmapped_runs_one_by_one_and_says_so(
    build: Callable[[], nn.Module], shape: tuple[int, ...], why: str
) -> None:
    with pytest.warns(UserWarning, match=why):
        assert choose(build(), numbers(5, *shape, dtype=torch.float32)) is one_by_one.outputs


def test_foreign_random_numbers_are_refused() -> None:
    with pytest.raises(GradcastError, match="Foreign gives other outputs for the same images"):
        choose(Foreign(6, 3), numbers(5, 6, dtype=torch.float32))


@pytest.mark.parametrize("build", [Reassigned, Twice])
def test_networks_that_differ_with_borrowed_weights_are_refused(build: Callable[[], nn.Module]) -> None:
    with pytest.raises(GradcastError, match="behaves differently when its weights are given to it from outside"):
        choose(build(), numbers(5, 6, dtype=torch.float32))


class Deep(nn.Linear):
    """A linear layer over more than one axis."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.unflatten(1, (2, 3))).flatten(1)


class Cut(nn.Sequential):
    """No way back to the first layer."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self[1](self[0](x).detach())
        return y


@pytest.mark.parametrize("build", [lambda: Deep(3, 2), lambda: Cut(nn.Linear(6, 4), nn.Linear(4, 2))])
def test_only_plain_chains_of_linear_layers_count_as_such(build: Callable[[], nn.Module]) -> None:
    assert not only_linear(build(), numbers(5, 6, dtype=torch.float32))
    assert only_linear(MLP([6, 4, 2]), numbers(5, 6, dtype=torch.float32))


def test_a_network_that_does_not_take_the_images_is_refused() -> None:
    with pytest.raises(GradcastError, match=r"Linear fails on images of shape \(7,\) .*stream.size"):
        choose(nn.Linear(6, 3), numbers(5, 7, dtype=torch.float32))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("case", NETWORKS.values(), ids=NETWORKS)
def test_the_trial_leaves_no_trace(case: Case, training: bool) -> None:
    build, shape = case
    module = build().train(training)
    before, chance = copy.deepcopy(module.state_dict()), torch.get_rng_state()
    choose(module, numbers(5, *shape, dtype=torch.float32))
    assert torch.equal(torch.get_rng_state(), chance)
    torch.testing.assert_close(module.state_dict(), before, rtol=0, atol=0)
    assert all(layer.training == training for layer in module.modules())
    assert [layer.p for layer in module.modules() if isinstance(layer, nn.Dropout)] in ([], [0.5])
