import torch
from torch import Tensor

from gradcast.core import Unlabelled
from gradcast.gradients.sgd import Sgd
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


def test_a_loss_of_logits_and_features_of_one_pass() -> None:
    at = scene(norm="batch")
    head = Head([5, 2], [0, 1], "test", at.model.theta, lr=0.1)
    before = head.weights[0].detach().clone()

    def loss(z: Tensor, features: Tensor) -> Tensor:
        return z.square().sum((1, 2)) + 3 * head(features).square().sum((1, 2))

    found, _ = head.descend_with_logits(at.model, at.unlabelled, 1, loss, statistics="separate")
    made = at.model.forward(at.unlabelled.x, 1, statistics="separate")
    other = Head([5, 2], [0, 1], "test", at.model.theta, lr=0.1)
    own, _ = other.descend(at.model, at.unlabelled, lambda y: y.square().sum((1, 2)), weight=3.0, statistics="separate")
    torch.testing.assert_close(found.flat, made.pull(2 * made.z).flat + own.flat)
    torch.testing.assert_close(head.weights[0], other.weights[0])
    assert not torch.equal(head.weights[0], before)


def test_batchnorm_between_layers_uses_the_rows_at_hand() -> None:
    head = Head([4, 3, 2], [0, 1], "test", torch.zeros(0, dtype=torch.float64), lr=0.1, normed=True)
    x = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with torch.no_grad():
        head.norms[0].copy_(torch.rand(2, 2, 3, generator=torch.Generator().manual_seed(1)))
    for replica in range(2):
        (w1, b1), (w2, b2) = ((weight[replica, :, :-1], weight[replica, :, -1]) for weight in head.weights)
        gain, shift = head.norms[0][replica]
        inner = torch.nn.functional.batch_norm(x[replica] @ w1.T + b1, None, None, gain, shift, training=True)
        torch.testing.assert_close(head(x)[replica], torch.relu(inner) @ w2.T + b2)
    assert list(head.state()) == ["head.0", "head.1", "head.norm.0"]
    assert Head([4, 2], [0], "test", torch.zeros(0), lr=0.1, normed=True).norms == []


def test_a_head_that_waits_steps_in_every_update() -> None:
    like, used = torch.zeros(0, dtype=torch.float64), torch.tensor([True, False])
    head = Head([4, 2], [0, 1], "test", like, lr=0.1, optimizer=Sgd(momentum=0.5))
    before, slope = head.weights[0].detach().clone(), torch.ones(2, 2, 5, dtype=torch.float64)
    head.collect([slope], used)
    assert torch.equal(head.weights[0], before)
    head.update()
    head.update()  # nothing was collected: momentum alone
    torch.testing.assert_close(before - head.weights[0].detach(), 0.15 * slope * used.view(-1, 1, 1))
    head.renew(torch.tensor([True, True]))
    moved = head.weights[0].detach().clone()
    head.update()
    assert torch.equal(head.weights[0], moved)
