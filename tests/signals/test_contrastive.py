import math
from dataclasses import replace

import torch
from torch import Tensor

from gradcast.core import Batch, Labelled, Replay
from gradcast.networks.mlp import MLP
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.signals.contrastive import Contrastive, LabelledViews, contrast
from gradcast.signals.head import Head
from gradcast.streams.augment import AUGMENTATIONS
from gradcast.streams.reaugment import Reaugment
from gradcast.streams.scale import Scale
from tests.helpers import CPU
from tests.replicas.passes.reference import numbers
from tests.signals.scene import scene

PAIRS = torch.tensor([[0, 1, 2, 0, 1, 2]])


def spelled(rows: Tensor, who: list[int], temperature: float) -> float:
    """For every view the mean, over its partners, of minus the log of the partner's share among all others."""
    count, losses = len(rows), []
    for i in range(count):
        scores = [
            math.exp(float(rows[i] @ rows[j] / (rows[i].norm() * rows[j].norm())) / temperature) for j in range(count)
        ]
        shares = [score / (sum(scores) - scores[i]) for score in scores]
        partners = [-math.log(shares[j]) for j in range(count) if j != i and who[j] == who[i]]
        losses.append(sum(partners) / len(partners))
    return sum(losses) / count


def test_the_loss_in_another_spelling() -> None:
    projected, classes = numbers(2, 6, 4), torch.tensor([[0, 1, 2, 0, 1, 2], [7, 7, 3, 7, 3, 7]])
    expected = [spelled(rows, who.tolist(), 0.2) for rows, who in zip(projected, classes, strict=True)]
    torch.testing.assert_close(contrast(projected, classes, 0.2), torch.tensor(expected, dtype=torch.float64))


def test_alike_views_of_different_images_lose_least() -> None:
    apart = torch.eye(3, dtype=torch.float64).repeat(2, 1).unsqueeze(0)
    mixed = apart[:, [0, 1, 2, 1, 2, 0]]
    assert contrast(apart, PAIRS, 0.1) < 0.01 < 5 < contrast(mixed, PAIRS, 0.1)


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


def pictures(*, masked: bool = True) -> tuple[Replicas, Labelled]:
    """Two replicas that see a batch of two images of task 1, and a third that was replayed from task 0."""
    heads = Heads.even(3, 2, masked=masked)
    modules = [MLP([3 * 4 * 4, heads.outputs]) for _ in range(2)]
    model = Replicas(modules, heads, device=CPU, dtype=torch.float64)
    x = torch.rand(2, 3, 3, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    batch = Batch(x[:, :2], torch.tensor([[0, 2], [1, 1]]), 1)
    replay = Replay(x[:, 2:], torch.tensor([[2], [0]]), torch.tensor([[0], [0]]))
    z = torch.zeros(2, 2, 3, dtype=torch.float64)
    return model, Labelled(batch, z, z, 0.1, torch.zeros(2, 3, heads.outputs, dtype=torch.float64), replay)


def test_labelled_and_replayed_images_come_in_two_views_with_their_classes() -> None:
    model, labelled = pictures()
    views, classes = LabelledViews(Reaugment((), Scale())).views(model, labelled)
    assert labelled.replay is not None
    shown = torch.cat([labelled.batch.x, labelled.replay.x], dim=1)
    torch.testing.assert_close(views, torch.cat([shown, shown], dim=1))
    assert classes.tolist() == [[3, 5, 2, 3, 5, 2], [4, 4, 0, 4, 4, 0]]  # classes of task 1 begin at 3
    assert LabelledViews(Reaugment((), Scale())).views(*pictures(masked=False))[1].tolist() == [
        [0, 2, 2] * 2,
        [1, 1, 0] * 2,
    ]


def test_views_of_labelled_images_differ_and_stay_between_black_and_white() -> None:
    model, labelled = pictures()
    scale = Scale((0.5, 0.4, 0.3), (0.2, 0.3, 0.1))
    own = Labelled(
        Batch(scale(labelled.batch.x, torch.float64), labelled.batch.y, 1),
        labelled.z,
        labelled.dz,
        0.1,
        labelled.outputs,
    )
    steps = (AUGMENTATIONS["resized-crop"], AUGMENTATIONS["flip"], AUGMENTATIONS["jitter"])
    views = scale.undone(LabelledViews(Reaugment(steps, scale)).views(model, own)[0])
    assert views.amin() >= -1e-9
    assert views.amax() <= 1 + 1e-9
    assert not torch.allclose(views[:, :2], views[:, 2:])
    model.chance.begin(0)
    assert torch.equal(
        scale.undone(LabelledViews(Reaugment(steps, scale)).views(model, own)[0]), views
    )  # a step's own numbers


def test_in_company_the_gradient_is_that_of_all_views_together() -> None:
    model, labelled = pictures()
    head = Head([48, 4], [0, 1], "projection", model.theta, lr=0.0)
    at = scene(views=2)
    pool = torch.rand(2, 6, 3, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    unlabelled = type(at.unlabelled)(pool, at.unlabelled.used, 2)
    signal = Contrastive(head, temperature=0.5, weight=2.0, labelled_views=LabelledViews(Reaugment((), Scale())))
    signal.learn(model, replace(labelled, lr=0.0))
    _, metrics = signal.gradient(model, unlabelled, 1)
    views, classes = LabelledViews(Reaugment((), Scale())).views(model, labelled)
    who = torch.cat([torch.tensor([[-1, -2, -3] * 2] * 2), classes], dim=1)
    flat = torch.cat([pool, views], dim=1).flatten(2)
    torch.testing.assert_close(metrics["signal_loss"], contrast(head(flat), who, 0.5).detach())
