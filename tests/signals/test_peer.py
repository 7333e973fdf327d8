import pytest
import torch

from gradcast.core import Labelled
from gradcast.gradients.cross_entropy import cross_entropy
from gradcast.gradients.gradient import Gradient
from gradcast.gradients.sgd import LearningRate, Sgd
from gradcast.signals.co_training import CoTraining
from gradcast.signals.peer import Peer
from gradcast.specs.text import load
from gradcast.training.trainer import StepTrainer
from tests.helpers import batch, replicas
from tests.training.scene import shared

SIGNAL = ("signal.name=co-training", "policy.p=0.0")
DESCENT = ("learner.momentum=0.9", "learner.decay=0.01")
SMALL = ("stream.tasks=2", "stream.samples=40", "model.hidden=[8]", "model.norm=batch")
EPOCHS = ("schedule.name=plateau", "schedule.epochs=1", "schedule.validation=0.25")
STEPS = (
    "schedule.name=steps",
    "schedule.steps=12",
    "schedule.warm_up=2",
    "schedule.milestones=[8]",
    "schedule.ramp=2",
    "schedule.test_every=6",
)
ROWS = {
    "plain steps": ("learner.name=finetune",),
    "replay, momentum, own rates": ("learner.name=er", *DESCENT, "model.rates={head=0.5}"),
    "several updates a batch": ("learner.name=er", "learner.repeats=2"),
    "a course of steps": ("learner.name=er", *STEPS, *DESCENT),
    "epochs": ("learner.name=er", *EPOCHS, *DESCENT),
}


@pytest.mark.parametrize("row", ROWS)
def test_it_trains_as_the_model_does(row: str) -> None:
    """Without unlabelled images, and from the model's weights, it ends where the model ends."""
    setting = load("digits", [*SMALL, *SIGNAL, *ROWS[row]]).rows[1].setting
    loop = shared(torch.float64).loop(setting, [0, 1])
    assert isinstance(loop.trainer, StepTrainer)
    signal, model = loop.trainer.update.signals[0].signal, loop.trainer.model
    assert isinstance(signal, CoTraining)
    network, begun = signal.peer.network, model.theta.clone()
    assert not torch.equal(network.theta, begun)
    network.theta.copy_(begun)
    loop.run([])
    torch.testing.assert_close(network.theta, model.theta, rtol=1e-9, atol=1e-12)
    for name, buffer in model.buffers.items():
        torch.testing.assert_close(network.buffers[name], buffer, rtol=1e-9, atol=1e-12)
    assert not torch.allclose(network.theta, begun)


def taught(peer: Peer, lr: LearningRate) -> None:
    own = batch(peer.network)
    made = peer.network.forward(own.x, 0, statistics="separate")
    peer.learn(Labelled(own, made.z, cross_entropy(made.z, own.y)[1], lr, made.whole))


def test_replicas_that_have_stopped_stay_as_they_are() -> None:
    peer = Peer(replicas(2, norm="batch"))
    before = {"theta": peer.network.theta.clone()} | {name: b.clone() for name, b in peer.network.buffers.items()}
    taught(peer, torch.tensor([0.1, 0.0], dtype=torch.float64))
    peer.step()
    for name, rows in before.items():
        now = peer.network.theta if name == "theta" else peer.network.buffers[name]
        assert not torch.equal(now[0], rows[0])
        assert torch.equal(now[1], rows[1])


def test_only_replicas_that_use_their_images_move_along_a_signal() -> None:
    peer = Peer(replicas(2))
    taught(peer, 0.5)
    assert peer.gradient is not None
    labelled, before = peer.gradient.clone(), peer.network.theta.clone()
    peer.add(Gradient(torch.ones_like(before)), torch.tensor([True, False]))
    peer.step()
    expected = labelled + torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    torch.testing.assert_close(before - peer.network.theta, 0.5 * expected)


def test_a_new_optimizer_has_no_velocity() -> None:
    peer = Peer(replicas(2), Sgd(momentum=0.9))
    taught(peer, 0.1)
    peer.step()
    peer.renew(torch.tensor([False, True]))
    assert peer.sgd is not None
    assert [bool(row.any()) for row in peer.sgd.velocity[0]] == [True, False]
    Peer(replicas(2)).renew(torch.tensor([True, True]))  # plain steps have none


def test_all_that_it_has_learned_is_stored() -> None:
    network = replicas(2, norm="batch")
    assert set(Peer(network).state("student")) == {f"student.{name}" for name in (*network.names, *network.buffers)}
