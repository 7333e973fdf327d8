import pytest
import torch
from torch.nn.functional import kl_div

from gradcast.core import Unlabelled
from gradcast.replicas.heads import Heads
from gradcast.signals.distil import Distil, divergence
from tests.helpers import batch, replicas
from tests.replicas.passes.reference import numbers
from tests.signals.scene import ALL, Scene, scene


def test_divergence_in_torchs_spelling() -> None:
    z, past = numbers(2, 4, 3, 5).requires_grad_(), numbers(2, 4, 3, 5, seed=1)
    loss, dz = divergence(z.detach(), past, 2.0)
    pairs = zip(z, past, strict=True)
    expected = torch.stack(
        [4 * kl_div((a / 2).log_softmax(-1), (b / 2).softmax(-1), reduction="sum") / 12 for a, b in pairs]
    )
    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(dz, torch.autograd.grad(expected.sum(), z)[0])


def test_the_first_task_has_no_past() -> None:
    at, signal = scene(task=0), Distil(weight=1.0, temperature=2.0)
    at.learn(signal)
    assert not at.gradient(signal).any()


def test_nothing_pulls_while_nothing_has_changed() -> None:
    at, signal = scene(task=1, norm="batch"), Distil(weight=1.0, temperature=2.0)
    at.learn(signal)
    torch.testing.assert_close(at.gradient(signal), torch.zeros_like(at.model.theta), rtol=0, atol=1e-12)


@pytest.mark.parametrize("masked", [True, False])
def test_a_step_leads_back_to_what_was_said_before_the_task(masked: bool) -> None:
    model = replicas(2, heads=Heads.even(3, 2, masked=masked), norm="batch")
    at, signal = (
        Scene(model, batch(model, task=1), Unlabelled(batch(model, size=6, seed=9).x, ALL)),
        Distil(weight=1.0, temperature=2.0),
    )
    at.learn(signal)
    before = model.theta.clone()
    said = model.everything(at.unlabelled.x, statistics="separate").z[..., :3]
    model.theta += 0.3 * numbers(*model.theta.shape)
    at.learn(signal)  # the same task: the snapshot stays
    assert signal.before is not None
    assert torch.equal(signal.before, before)
    distances = []
    for _ in range(200):
        now = model.everything(at.unlabelled.x, statistics="separate").z[..., :3]
        distances.append((now.softmax(-1) - said.softmax(-1)).abs().amax((1, 2)))
        model.step(at.gradient(signal), 0.5)
    assert (distances[-1] < 0.3 * distances[0]).all()


def test_a_new_task_renews_the_snapshot_in_its_place() -> None:
    at, signal = scene(task=0), Distil(weight=1.0, temperature=2.0)
    at.learn(signal)
    assert signal.before is not None
    place = signal.before.data_ptr()
    at.model.theta += 1
    scene_of_second = Scene(at.model, batch(at.model, task=1), at.unlabelled)
    scene_of_second.learn(signal)
    assert torch.equal(signal.before, at.model.theta)
    assert signal.before.data_ptr() == place
