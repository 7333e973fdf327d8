import math

import torch

from gradcast.signals.contrastive import Contrastive, contrast
from gradcast.signals.head import Head
from tests.passes.reference import numbers
from tests.signals.scene import scene


def test_the_loss_in_another_spelling() -> None:
    projected, temperature = numbers(2, 6, 4), 0.2
    expected = []
    for rows in projected:
        losses = []
        for i in range(6):
            partner = (i + 3) % 6
            scores = [
                math.exp(float(rows[i] @ rows[j] / (rows[i].norm() * rows[j].norm())) / temperature) for j in range(6)
            ]
            losses.append(-math.log(scores[partner] / (sum(scores) - scores[i])))
        expected.append(sum(losses) / 6)
    torch.testing.assert_close(contrast(projected, temperature), torch.tensor(expected, dtype=torch.float64))


def test_alike_views_of_different_images_lose_least() -> None:
    apart = torch.eye(3, dtype=torch.float64).repeat(2, 1).unsqueeze(0)
    mixed = apart[:, [0, 1, 2, 1, 2, 0]]
    assert contrast(apart, 0.1) < 0.01 < 5 < contrast(mixed, 0.1)


def test_the_gradient_lowers_the_loss() -> None:
    at = scene(views=2, norm="batch")
    signal = Contrastive(Head([5, 4], [0, 1], "projection", at.model.theta, lr=0.1), temperature=0.5, weight=0.3)
    assert at.learn(signal) == {}
    losses = []
    for _ in range(30):
        found, metrics = signal.gradient(at.model, at.unlabelled, 1)
        losses.append(metrics["signal_loss"])
        at.model.step(found.flat, 0.5)
    assert (losses[-1] < losses[0] - 0.2).all()
    assert not found.flat[:, -18:].any()  # the output layer has no part in it
    assert list(signal.state()) == ["head.0"]
