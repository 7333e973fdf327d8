import torch
from torch import Tensor

from gradcast.core import Unlabelled
from gradcast.signals.head import Head
from tests.signals.scene import scene


def test_layers_with_bias_and_relu_between() -> None:
    head = Head([4, 3, 2], [0, 1], "test", torch.zeros(0, dtype=torch.float64), lr=0.1)
    x = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for replica in range(2):
        (w1, b1), (w2, b2) = ((weight[replica, :, :-1], weight[replica, :, -1]) for weight in head.weights)
        expected = torch.relu(x[replica] @ w1.T + b1) @ w2.T + b2
        torch.testing.assert_close(head(x)[replica], expected)
    alone = Head([4, 3, 2], [1], "test", torch.zeros(0, dtype=torch.float64), lr=0.1)
    assert torch.equal(alone.weights[0][0], head.weights[0][1])
    assert not torch.equal(head.weights[0][0], head.weights[0][1])


def test_model_and_head_descend_the_same_loss() -> None:
    at = scene(norm="batch")
    head = Head([5, 2], [0, 1], "test", at.model.theta, lr=0.1)
    before = head.weights[0].detach().clone()
    used = torch.tensor([True, False])
    shown = Unlabelled(at.unlabelled.x, used)

    def loss(y: Tensor) -> Tensor:
        return y.square().sum((1, 2))

    found, metrics = head.descend(at.model, shown, loss, weight=0.3, statistics="separate")
    own = before.clone().requires_grad_()
    features = at.model.embed(shown.x, statistics="separate").z
    value = (torch.cat([features, torch.ones_like(features[..., :1])], -1) @ own.mT).square().sum((1, 2))
    (slope,) = torch.autograd.grad(0.3 * value.sum(), own)
    torch.testing.assert_close(metrics["signal_loss"], value.detach())
    torch.testing.assert_close(head.weights[0][0].detach(), (before - 0.1 * slope)[0])
    assert torch.equal(head.weights[0][1].detach(), before[1])  # its replica used no images
    step = 1e-6 * found.flat / found.flat.norm(dim=1, keepdim=True)
    sides = []
    for sign in (1, -1):
        moved = at.model.embed(shown.x, statistics="separate", theta=at.model.theta + sign * step).z
        sides.append(loss(torch.cat([moved, torch.ones_like(moved[..., :1])], -1) @ before.mT))
    torch.testing.assert_close(0.3 * (sides[0] - sides[1]) / 2e-6, found.flat.norm(dim=1), rtol=1e-5, atol=1e-6)
    assert list(head.state()) == ["head.0"]
