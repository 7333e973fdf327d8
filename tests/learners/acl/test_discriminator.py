import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from gradcast.learners.acl.discriminator import FAKE, Discriminator

LIKE = torch.zeros(2, 1, dtype=torch.float64)


def discriminator(task: int, *, decay: float = 0.01) -> Discriminator:
    made = Discriminator(6, 5, [3, 4], LIKE, decay=decay)
    made.begin(task)
    return made


def module(judge: Discriminator, replica: int) -> nn.Sequential:
    """The same as its authors would write it."""
    own = nn.Sequential(nn.Linear(6, 5), nn.LeakyReLU(0.01), nn.Linear(5, 5), nn.Linear(5, judge.weights[2].shape[1]))
    layers = [layer for layer in own if isinstance(layer, nn.Linear)]
    for layer, weight in zip(layers, judge.weights, strict=True):
        layer.weight.data, layer.bias.data = weight[replica, :, :-1].clone(), weight[replica, :, -1].clone()
    return own


def features(seed: int = 0) -> Tensor:
    return torch.randn(2, 7, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(
    ("latent", "task", "count"), [(128, 0, 53_727), (128, 19, 57_071), (256, 0, 76_127), (256, 19, 79_471)]
)
def test_published_numbers_of_parameters(latent: int, task: int, count: int) -> None:
    made = Discriminator(latent, 175, [0], torch.zeros(1, 1), decay=0.01)
    made.begin(task)
    assert sum(weight.numel() for weight in made.weights) == count


def test_answers_are_those_of_a_plain_network() -> None:
    judge, z = discriminator(1), features()
    for replica in range(2):
        torch.testing.assert_close(judge(z)[replica], module(judge, replica)(z[replica]))
    assert judge(z).shape == (2, 7, 3)


def test_features_get_the_losss_gradient_turned_round() -> None:
    judge, z = discriminator(2), features()
    loss, turned = judge.judge(z, torch.full((2, 7), 3), reversal=0.5)
    for replica in range(2):
        own = z[replica].clone().requires_grad_()
        expected = cross_entropy(module(judge, replica)(own), torch.full((7,), 3))
        torch.testing.assert_close(loss[replica], expected.detach())
        torch.testing.assert_close(
            turned[replica], -0.5 * torch.autograd.grad(expected, own)[0], rtol=1e-10, atol=1e-14
        )


def test_a_step_is_that_of_plain_sgd_on_features_and_noise() -> None:
    judge, z, fake = discriminator(1), features(), features(1)
    start = [module(judge, replica) for replica in range(2)]
    rates = torch.tensor([0.3, 0.0], dtype=torch.float64)
    loss = judge.learn(z, fake, torch.full((2, 7), 2), rate=rates, scale=0.7)
    for replica, own in enumerate(start):
        optimizer = torch.optim.SGD(own.parameters(), lr=float(rates[replica]), weight_decay=0.01)
        real = cross_entropy(own(z[replica]), torch.full((7,), 2))
        expected = 0.7 * real + 0.7 * cross_entropy(own(fake[replica]), torch.full((7,), FAKE))
        expected.backward()
        optimizer.step()
        torch.testing.assert_close(loss[replica], expected.detach())
        for now, then in zip(module(judge, replica).parameters(), own.parameters(), strict=True):
            torch.testing.assert_close(now, then, rtol=1e-10, atol=1e-14)
    assert FAKE == 0


def test_every_task_has_new_weights_and_so_has_a_restart_of_one_replica() -> None:
    judge, other = discriminator(1), discriminator(1)
    assert all(torch.equal(a, b) for a, b in zip(judge.weights, other.weights, strict=True))
    judge.restart(1, torch.tensor([False, True]))
    assert torch.equal(judge.weights[0][0], other.weights[0][0])
    assert not torch.isclose(judge.weights[0][1], other.weights[0][1]).any()
    other.begin(2)
    assert other.weights[2].shape == (2, 4, 6)
    assert not torch.isclose(judge.weights[0][0], other.weights[0][0]).any()
