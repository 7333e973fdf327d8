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
