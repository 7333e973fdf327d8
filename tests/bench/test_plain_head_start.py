import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gradcast.bench import head_start_times
from gradcast.bench.plain_head_start import PlainHeadStart, plain_contrast, projection_head
from gradcast.core import Unlabelled
from gradcast.devices import Place
from gradcast.gradients.optimizer import cosine_rate
from gradcast.head_start.course import Course, features
from gradcast.head_start.head_start_table import HeadStartSpec
from gradcast.head_start.pretraining import Pretraining
from gradcast.signals.contrastive import Contrastive, contrast
from tests.helpers import CPU

STEPS = 12


@pytest.fixture
def course() -> Course:
    """A small network and pool in float64, with rates that reach their peak and fall."""
    place = Place(CPU, torch.float64)
    made = head_start_times.course(place, batch=6, width=3, size=16, images=20)
    spec = HeadStartSpec(steps=STEPS, batch=6, probes=0, lr=0.3, momentum=0.8, weight_decay=0.02, warm_up=0.25)
    return Course(spec, made.network, made.heads, made.shape, made.scale, made.pool, place, "")


def with_head_of(plain: PlainHeadStart, ours: Pretraining) -> PlainHeadStart:
    """The plain formulation from the same projection head."""
    signal = ours.step.signals[0].signal
    assert isinstance(signal, Contrastive)
    layers = [layer for layer in plain.head.modules() if isinstance(layer, nn.Linear)]
    with torch.no_grad():
        for layer, weight in zip(layers, signal.head.weights, strict=True):
            layer.weight.copy_(weight[0, :, :-1])
            layer.bias.copy_(weight[0, :, -1])
    return plain


def trained(ours: Pretraining) -> list[Tensor]:
    """All steps of ours; the views that each of them saw."""
    (feed,) = ours.feeds
    draw, seen = feed.batch, list[Tensor]()

    def batch(task: int, used: np.ndarray) -> Unlabelled:
        found = draw(task, used)
        seen.append(found.x[0].clone())
        return found

    feed.batch = batch  # type: ignore[method-assign]
    ours.run()
    return seen


def test_our_head_start_ends_where_the_plain_formulation_does(course: Course) -> None:
    ours = course.prepare([0], None)
    plain = with_head_of(head_start_times.plain_head_start(course), ours)
    began = {name: tensor.clone() for name, tensor in plain.network.state_dict().items()}
    views = trained(ours)
    losses = [float(plain.step(own)) for own in views]
    assert len(views) == STEPS
    assert not torch.equal(views[0], views[1])
    assert [losses[0] for _, losses in ours.curve] == pytest.approx(losses, abs=1e-9)
    found, expected = features(ours.step.model), plain.network.state_dict()
    assert found.keys() == expected.keys()
    for name, rows in found.items():
        torch.testing.assert_close(rows[0].detach(), expected[name], rtol=1e-9, atol=1e-9, msg=name)
    moved = max(float((expected[name] - began[name]).abs().max()) for name in began if name.endswith("weight"))
    assert moved > 1e-2


def test_the_projection_heads_end_alike_too(course: Course) -> None:
    ours = course.prepare([0], None)
    plain = with_head_of(head_start_times.plain_head_start(course), ours)
    for own in trained(ours):
        plain.step(own)
    signal = ours.step.signals[0].signal
    assert isinstance(signal, Contrastive)
    layers = [layer for layer in plain.head.modules() if isinstance(layer, nn.Linear)]
    for layer, weight in zip(layers, signal.head.weights, strict=True):
        expected = torch.cat([layer.weight, layer.bias[:, None]], dim=1)
        torch.testing.assert_close(weight[0].detach(), expected.detach(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("change", ["momentum", "weight_decay", "lr", "temperature"])
def test_another_setting_ends_elsewhere(course: Course, change: str) -> None:
    ours = course.prepare([0], None)
    plain = head_start_times.plain_head_start(course)
    setattr(plain, change, 1.05 * getattr(plain, change))
    plain.__post_init__()
    plain = with_head_of(plain, ours)
    for own in trained(ours):
        plain.step(own)
    name = "layer4.1.conv2.weight"
    difference = features(ours.step.model)[name][0] - plain.network.state_dict()[name]
    assert float(difference.abs().max()) > 1e-6


def test_the_losses_are_one_and_the_same_for_any_number_of_views() -> None:
    projected = torch.randn(10, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    who = torch.arange(5).repeat(2).unsqueeze(0)
    assert float(plain_contrast(projected, 0.3)) == pytest.approx(float(contrast(projected[None], who, 0.3)), abs=1e-12)


@pytest.mark.parametrize("warm_up", [0.0, 0.1, 0.5])
def test_rates_rise_and_fall_as_ours(warm_up: float) -> None:
    made = PlainHeadStart(nn.Linear(2, 2), nn.Identity(), 20, 0.4, 0.0, 0.0, warm_up, 0.2)
    rates = []
    for made.count in range(20):
        rates.append(made.rate())
    assert rates == pytest.approx([cosine_rate(n, steps=20, warm_up=warm_up, peak=0.4) for n in range(20)], abs=1e-12)


def test_a_projection_head_ends_without_relu() -> None:
    kinds = [type(layer).__name__ for layer in projection_head(8, [6, 4])]
    assert kinds == ["Linear", "ReLU", "Linear"]
