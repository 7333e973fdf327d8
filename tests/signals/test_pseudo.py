import pytest
import torch

from gradcast.core import Unlabelled
from gradcast.gradients.gradient import Gradient
from gradcast.randomness import torch_generator
from gradcast.signals.guard import guarded
from gradcast.signals.meta_gradient import MetaGradient
from gradcast.signals.noise import Noise
from gradcast.signals.policy import Policy
from gradcast.signals.pseudo import Attached, images_used, join, pseudo_accuracy, pseudo_gradient
from gradcast.signals.pseudo_labels import PseudoLabels
from tests.helpers import replicas
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


@pytest.mark.parametrize("ramp", [None, 0.25])
def test_a_ramp_weighs_the_signals_that_ask_for_it(ramp: float | None) -> None:
    own = scene(norm="batch", images=4)
    teacher = replicas(2, heads=own.model.heads, norm="batch", first_seed=5)
    signal = PseudoLabels(teacher, soft=True)
    weight = None if ramp is None else torch.tensor(ramp, dtype=torch.float64)
    zeros = Gradient(torch.zeros_like(own.model.theta))
    policy = Policy(batchnorm="separate")
    found, _ = pseudo_gradient(
        [Attached(signal)], own.model, (own.unlabelled,), zeros, task=1, policy=policy, ramp=weight
    )
    torch.testing.assert_close(found.flat, (ramp or 1.0) * own.gradient(signal))


def test_signals_at_logits_see_the_view_that_the_model_trains_on() -> None:
    """A mean teacher wants two views of each image; whatever stands beside it wants one."""
    own = scene(norm="batch", images=4, views=2)
    noise = Noise(3, [torch_generator(replica, "directions") for replica in range(2)])
    labels = PseudoLabels(replicas(2, heads=own.model.heads, norm="batch", first_seed=5), soft=True)
    for signal in (labels, noise):
        signal.prepare(own.batch, own.unlabelled)
    zeros = Gradient(torch.zeros_like(own.model.theta))
    signals, policy = [Attached(labels), Attached(noise)], Policy(batchnorm="separate")
    found, _ = pseudo_gradient(signals, own.model, (own.unlabelled,), zeros, task=1, policy=policy)
    first = own.unlabelled.first_view()
    made = own.model.forward(first.x, 1, statistics="separate")
    says = labels.teacher.forward(own.unlabelled.x[:, :4], 1, statistics="frozen").z.softmax(-1)
    assert noise.drawn is not None
    torch.testing.assert_close(found.flat, made.pull((made.z.softmax(-1) - says) / 4 + noise.drawn).flat)
    assert labels.label is not None
    assert torch.equal(labels.label, says)


def test_numbers_of_one_name_say_whose_they_are() -> None:
    numbers = {"tau": torch.zeros(1)}
    join(numbers, {"tau": torch.ones(1), "gain": torch.ones(1)}, "noise")
    assert set(numbers) == {"tau", "noise_tau", "gain"}
    assert not numbers["tau"].any()


def test_the_first_signal_that_labels_is_judged_on_its_own_feed() -> None:
    quiet, first, second = (MetaGradient() for _ in range(3))
    first.label = torch.eye(3)[torch.tensor([[0, 1], [1, 1]])]
    second.label = torch.eye(3)[torch.tensor([[2, 2], [2, 2]])]
    feeds = [
        Unlabelled(torch.zeros(2, 2, 4), FIRST, truth=torch.tensor([[2, 2], [2, 2]])),
        Unlabelled(torch.zeros(2, 2, 4), FIRST, truth=torch.tensor([[0, 2], [1, 1]])),
    ]
    signals = [Attached(quiet), Attached(first, 1), Attached(second)]
    found = pseudo_accuracy(signals, feeds)["pseudo_accuracy"]
    assert found[0] == 0.5
    assert found[1].isnan()
    assert pseudo_accuracy(signals, []) == {}
    assert signals[1].of(feeds) is feeds[1]
    assert signals[1].of([]) is None
