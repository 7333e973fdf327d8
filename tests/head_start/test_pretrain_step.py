from functools import partial

import pytest
import torch
from torch import nn

from gradcast.core import Unlabelled
from gradcast.gradients.sgd import Sgd
from gradcast.head_start.pretrain_step import PretrainStep
from gradcast.signals.head import Head
from gradcast.signals.pseudo import Attached
from gradcast.signals.vicreg import Vicreg
from tests.head_start.scene import course
from tests.signals.scene import scene


def test_gradients_of_all_signals_add_up() -> None:
    at = scene(views=2, norm="batch")
    before = at.model.theta.clone()
    made = [
        Vicreg(Head([5, 4], [0, 1], str(name), at.model.theta, lr=0.1), weight=1.0, variance=1.0, covariance=0.1)
        for name in range(2)
    ]
    alone = [signal.gradient(at.model, at.unlabelled, 0)[0].flat for signal in made]
    for number, signal in enumerate(made):  # their heads took a step
        signal.head = Head([5, 4], [0, 1], str(number), at.model.theta, lr=0.1)
    rate = torch.full((2,), 0.5, dtype=torch.float64)
    step = PretrainStep(at.model, [Attached(made[0], 0, "one"), Attached(made[1], 0, "other")], Sgd(), rate)
    found = step(at.batch, (at.unlabelled,))
    torch.testing.assert_close(at.model.theta, before - 0.5 * (alone[0] + alone[1]), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(found["loss"], found["signal_loss"] + found["other_signal_loss"])
    assert found["finite"].all()


class Frozen(nn.Module):
    """Its first layer asks for no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(192, 5), nn.Linear(5, 3)
        self.first.weight.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x.flatten(1)).relu())  # type: ignore[no-any-return]


def test_frozen_weights_do_not_decay() -> None:
    made = course(Frozen, weight_decay=0.5, steps=2).prepare([0], None)
    before = made.step.model.parameters(made.step.model.theta.clone())
    made.run()
    after = made.step.model.parameters(made.step.model.theta)
    assert torch.equal(before["first.weight"], after["first.weight"])
    assert not torch.equal(before["first.bias"], after["first.bias"])


def test_a_loss_that_is_not_finite_is_told() -> None:
    at = scene(views=2)
    signal = Vicreg(Head([5, 4], [0, 1], "p", at.model.theta, lr=0.1), weight=1.0, variance=1.0, covariance=0.1)
    step = PretrainStep(at.model, [Attached(signal)], Sgd(), torch.zeros(2, dtype=torch.float64))
    x = at.unlabelled.x.clone()
    x[1, 0] = torch.inf
    found = step(at.batch, (Unlabelled(x, at.unlabelled.used, 2),))
    assert found["finite"].tolist() == [True, False]


class Dropping(nn.Module):
    """Drops channels and single numbers; ``own`` code that draws makes it a network that passes take one by one."""

    def __init__(self, share: float, *, own: bool) -> None:
        super().__init__()
        self.convolution, self.linear = nn.Conv2d(3, 4, 3), nn.Linear(4, 3)
        self.channels, self.numbers, self.own = nn.Dropout2d(share), nn.Dropout(share), own

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.channels(self.convolution(x).relu()).mean((2, 3))
        if self.own:
            x = x + 0.1 * torch.rand_like(x)
        return self.linear(self.numbers(x))  # type: ignore[no-any-return]


@pytest.mark.filterwarnings("ignore:the network Dropping cannot be vmapped")
@pytest.mark.parametrize("own", [False, True])
def test_dropout_is_off(own: bool) -> None:
    made = [course(partial(Dropping, share, own=own), steps=3).prepare([0, 1], None) for share in (0.0, 0.5)]
    for each in made:
        each.run()
    plain, dropping = (each.step.model for each in made)
    assert torch.equal(plain.theta, dropping.theta)
    assert not dropping.chance.unlabelled.silent
    images = torch.ones(2, 4, 3, 8, 8, dtype=torch.float64)
    found = dropping.forward(images, 0).z
    assert not torch.equal(found[:, :1].expand_as(found), found)  # equal images, and dropout is on again
