import torch

from gradcast.learners.acl.judgement import Judgement
from gradcast.training.capture import Capturable
from tests.learners.acl.scene import LATENT, batch, learner

LR = torch.tensor([0.1, 0.0], dtype=torch.float64)


def test_noise_and_rates_keep_their_place_and_follow_the_name() -> None:
    acl = learner()
    own = Judgement(acl.model, acl.discriminator, 1.0)
    assert isinstance(own, Capturable)
    own.at("a", LR)
    own.prepare(batch(0), ())
    noise, first, rates = own.noise[5], own.noise[5].clone(), own.lr
    assert first.shape == (2, 5, LATENT)
    own.at("b", 2 * LR)
    own.prepare(batch(0), ())
    assert own.noise[5] is noise
    assert own.lr is rates
    assert rates.tolist() == [0.2, 0.0]
    assert not torch.isclose(noise, first).any()
    own.at("a", LR)
    own.prepare(batch(0), ())
    assert torch.equal(noise, first)


def test_only_discriminators_with_a_rate_move() -> None:
    acl = learner()
    own, before = Judgement(acl.model, acl.discriminator, 1.0), [w.clone() for w in acl.discriminator.weights]
    own.at("a", LR)
    metrics = own(batch(0))
    for weight, then in zip(acl.discriminator.weights, before, strict=True):
        assert not torch.equal(weight[0], then[0])
        assert torch.equal(weight[1], then[1])
    assert metrics["finite"].tolist() == [True, True]
