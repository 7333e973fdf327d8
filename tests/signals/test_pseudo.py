import torch

from gradcast.core import Unlabelled
from gradcast.gradients.gradient import Gradient
from gradcast.signals.guard import guarded
from gradcast.signals.meta_gradient import MetaGradient
from gradcast.signals.policy import Policy
from gradcast.signals.pseudo import Attached, images_used, pseudo_gradient
from tests.signals.scene import scene

FIRST = torch.tensor([True, False])


def test_only_replicas_that_use_their_images_have_a_gradient_and_numbers() -> None:
    own, signal = scene(), MetaGradient()
    own.learn(signal)
    whole = own.gradient(signal)
    labelled = Gradient(-whole)
    unlabelled = Unlabelled(own.unlabelled.x, FIRST)
    found, metrics = pseudo_gradient([Attached(signal)], own.model, (unlabelled,), labelled, task=1, policy=Policy())
    assert torch.equal(found.flat[0], whole[0])
    assert not found.flat[1].any()
    torch.testing.assert_close(metrics["agreement"][0], torch.tensor(-1.0, dtype=torch.float64))
    assert metrics["agreement"][1].isnan()
    assert metrics["signal_loss"].isnan().tolist() == [False, True]


def test_the_guard_takes_what_opposes_the_labelled_gradient() -> None:
    own, signal = scene(), MetaGradient()
    own.learn(signal)
    whole = Gradient(own.gradient(signal))
    labelled = Gradient(-whole.flat)
    found, _ = pseudo_gradient(
        [Attached(signal)], own.model, (own.unlabelled,), labelled, task=1, policy=Policy(guard=True)
    )
    assert torch.equal(found.flat, guarded(whole, labelled, []).flat)
    assert float(found.flat.abs().max()) < 1e-12 < float(whole.flat.abs().max())


def test_images_used() -> None:
    unlabelled = Unlabelled(torch.zeros(2, 6, 4), FIRST, views=2)
    assert images_used((unlabelled,), torch.zeros(2)).tolist() == [3, 0]
    assert images_used((), torch.zeros(2)).tolist() == [0, 0]
