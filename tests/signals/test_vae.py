import math

import torch
from torch import Tensor

from gradcast.networks.autoencoder import decoder, encoder
from gradcast.randomness import seeded
from gradcast.signals.vae import Vae, bound
from tests.replicas.passes.reference import numbers

SHAPE, WIDTHS, LATENT = (2, 6, 5), [3, 4], 4


def vae(*seeds: int) -> Vae:
    return Vae(SHAPE, WIDTHS, LATENT, seeds or (0, 1), torch.zeros(1, dtype=torch.float64), lr=0.01)


def test_every_replica_is_made_from_its_seed() -> None:
    own, x = vae(3, 7), numbers(2, 5, *SHAPE)
    for replica, seed in enumerate((3, 7)):
        with seeded(seed, "vae"):
            there, back = encoder(SHAPE, WIDTHS, LATENT).double(), decoder(SHAPE, WIDTHS, LATENT).double()
        torch.testing.assert_close(own.encode(x)[replica], there(x[replica])[:, :LATENT])
        z = numbers(2, 5, LATENT)
        torch.testing.assert_close(own.decode(z)[replica], back(z[replica]))


def test_products_with_the_jacobian_are_those_of_finite_differences() -> None:
    own, z, p, v, h = vae(), numbers(2, 3, LATENT), numbers(2, 3, LATENT, seed=1), numbers(2, 3, *SHAPE, seed=2), 1e-6
    there = own.tangent(z)
    torch.testing.assert_close(there.y, own.decode(z))
    change = (own.decode(z + h * p) - own.decode(z - h * p)) / (2 * h)
    torch.testing.assert_close(there.push(p), change, rtol=1e-6, atol=1e-9)
    for place in range(LATENT):
        step = torch.zeros_like(z)
        step[..., place] = h
        slope = ((own.decode(z + step) - own.decode(z - step)) / (2 * h) * v).flatten(2).sum(-1)
        torch.testing.assert_close(there.pull(v)[..., place], slope, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(there.push(p), change, rtol=1e-6, atol=1e-9)  # as often as one likes


def test_the_bound_on_fixed_numbers() -> None:
    x, again = torch.zeros(1, 2, 3, dtype=torch.float64), torch.tensor([[[3.0, 0, 0], [0, 0, 3.0]]]).double()
    mean, logs = torch.tensor([[[2.0], [0.0]]]).double(), torch.tensor([[[0.0], [1.0]]]).double()
    prior = (0.5 * 4 + 0.5 * (math.e - 2)) / 2  # KL of N(2, 1) and of N(0, e) from N(0, 1)
    assert math.isclose(float(bound(x, again, mean, logs)), 1.5 * math.log(3 + 1e-6) + prior, rel_tol=1e-12)


def test_inputs_of_a_large_scale_stay_finite() -> None:
    own, x = vae(), 1e5 * numbers(2, 6, *SHAPE)
    for _ in range(3):
        loss = own.learn(x, numbers(2, 6, LATENT), torch.tensor([True, True]))
    assert loss.isfinite().all()
    assert all(weight.isfinite().all() for weight in own.weights.values())


def test_it_learns_its_images_and_replicas_that_sit_out_stay() -> None:
    own, x = vae(), numbers(2, 6, *SHAPE)
    generator = torch.Generator().manual_seed(0)
    start = {name: weight.clone() for name, weight in own.weights.items()}

    def learned(going: Tensor, steps: int) -> Tensor:
        for _ in range(steps):
            noise = torch.randn(2, 6, LATENT, generator=generator, dtype=torch.float64)
            loss = own.learn(x, noise, going)
        return loss

    first = learned(torch.tensor([True, False]), 1)
    last = learned(torch.tensor([True, False]), 60)
    assert last[0] < first[0] - 5
    assert all(torch.equal(own.weights[name][1], weight[1]) for name, weight in start.items())
    assert all(not torch.equal(own.weights[name][0], weight[0]) for name, weight in start.items())
    assert own.state().keys() == {f"vae.{name}" for name in start}
