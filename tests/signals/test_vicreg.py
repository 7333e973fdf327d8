import torch
from torch import Tensor

from gradcast.signals.head import Head
from gradcast.signals.vicreg import EPS, Vicreg, terms
from tests.replicas.passes.reference import numbers
from tests.signals.scene import scene


def spelled(one: Tensor, other: Tensor, variance: float, covariance: float) -> float:
    """Number by number, for one replica."""
    count, width = one.shape
    total = sum(float((one[i, k] - other[i, k]) ** 2) for i in range(count) for k in range(width)) / (count * width)
    for view in (one, other):
        table = torch.cov(view.T)
        short = [max(0.0, 1 - float(table[k, k] + EPS) ** 0.5) for k in range(width)]
        shared = [float(table[i, k]) ** 2 for i in range(width) for k in range(width) if i != k]
        total += variance * sum(short) / width / 2 + covariance * sum(shared) / width
    return total


def test_the_terms_in_another_spelling() -> None:
    one, other = 0.7 * numbers(2, 6, 3), 0.7 * numbers(2, 6, 3, seed=1)
    expected = [spelled(a, b, 0.8, 0.3) for a, b in zip(one, other, strict=True)]
    found = terms(one, other, variance=0.8, covariance=0.3)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-12)


def test_it_needs_no_other_images_to_tell_apart() -> None:
    same = torch.zeros(1, 5, 2, dtype=torch.float64)
    assert terms(same, same, variance=1.0, covariance=1.0) > 0.9  # numbers that are dead cost most
    wide = torch.tensor([[[2.0, 2], [2, -2], [-2, 2], [-2, -2]]], dtype=torch.float64)
    assert terms(wide, wide, variance=1.0, covariance=1.0) == 0


def test_the_gradient_lowers_the_loss_and_leaves_the_output_layer_alone() -> None:
    at = scene(views=2, norm="batch")
    head = Head([5, 4], [0, 1], "projection", at.model.theta, lr=0.1)
    signal = Vicreg(head, weight=0.5, variance=1.0, covariance=0.04)
    losses = []
    for _ in range(30):
        found, metrics = signal.gradient(at.model, at.unlabelled, 0)
        losses.append(metrics["signal_loss"])
        at.model.step(found.flat, 0.5)
    assert (losses[-1] < 0.8 * losses[0]).all()
    assert not found.flat[:, -18:].any()
    assert list(signal.state()) == ["head.0"]
