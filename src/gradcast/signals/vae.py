"""A variational autoencoder for each replica, trained beside the model; its decoder spans what lies near an image."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from gradcast.gradients.optimizer import SeparateAdam
from gradcast.networks.autoencoder import decoder, encoder
from gradcast.randomness import seeded

LEAST = 1e-6  # added to the mean squared error before its logarithm is taken: about what rounding to bytes costs
LOGS = (-30.0, 20.0)  # range of log variances: an encoder that is new to large inputs would leave all numbers behind

Latent = Float[Tensor, "r u z"]
Inputs = Float[Tensor, "r u *shape"]


@dataclass(frozen=True)
class Tangent:
    """The decoder's output y at some z, and products with its Jacobian J there, of which no entry is computed."""

    y: Inputs
    push: Callable[[Latent], Inputs]  # J p: how y changes along a latent direction
    pull: Callable[[Inputs], Latent]  # J' v: from a gradient at y to one at z


class Vae:
    """Encoder, decoder and their Adam, one of each a replica: a replica that sits a step out stays as it is.

    The decoder's Gaussian has the variance of the present error, the same for all numbers of an input. So inputs may
    have any scale, and nothing weighs reconstruction against the prior.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("weights", "optimizer")

    def __init__(
        self,
        shape: Sequence[int],
        widths: Sequence[int],
        latent: int,
        seeds: Sequence[int],
        like: Tensor,
        *,
        lr: float = 1e-3,
    ) -> None:
        coders = []
        for seed in seeds:
            with seeded(seed, "vae"):
                coders.append(_Coders(shape, widths, latent))
        self.weights = {
            name: weight.detach().to(device=like.device, dtype=like.dtype)
            for name, weight in stack_module_state(coders)[0].items()
        }
        self.coders, self.latent, self.lr, self.optimizer = coders[0].to("meta"), latent, lr, SeparateAdam()

    def state(self) -> dict[str, Tensor]:
        """Its weights by name."""
        return {f"vae.{name}": weight for name, weight in self.weights.items()}

    def encode(self, x: Inputs) -> Latent:
        """The most likely latent numbers."""
        return _called(self.coders.encoder, self._of("encoder"), x)[..., : self.latent]

    def decode(self, z: Latent) -> Inputs:
        """The images that latent numbers stand for."""
        return _called(self.coders.decoder, self._of("decoder"), z)

    def tangent(self, z: Latent) -> "Tangent":
        """The decoder near z; J' u is linear in u, so its way back from z to u is J."""
        with torch.enable_grad():
            z = z.detach().requires_grad_()
            y = self.decode(z)
            u = torch.zeros_like(y, requires_grad=True)
            (pulled,) = torch.autograd.grad(y, z, u, create_graph=True)
        return Tangent(
            y.detach(),
            push=lambda p: torch.autograd.grad(pulled, u, p, retain_graph=True)[0],
            pull=lambda slope: torch.autograd.grad(y, z, slope, retain_graph=True)[0],
        )

    def learn(self, x: Inputs, noise: Latent, going: Bool[Tensor, " r"]) -> Float[Tensor, " r"]:
        """One step of the replicas that are ``going`` on the negative evidence bound of these inputs, which it returns.

        ``noise`` are standard normal numbers.
        """
        names = list(self.weights)
        with torch.enable_grad():
            weights = {name: weight.detach().requires_grad_() for name, weight in self.weights.items()}
            said = _called(self.coders.encoder, _part(weights, "encoder"), x)
            mean, logs = said[..., : self.latent], said[..., self.latent :].clamp(*LOGS)
            again = _called(self.coders.decoder, _part(weights, "decoder"), mean + (logs / 2).exp() * noise)
            loss = bound(x, again, mean, logs)
            slopes = torch.autograd.grad(loss.sum(), [weights[name] for name in names])
        self.optimizer.step([self.weights[name] for name in names], slopes, self.lr, going)
        return loss.detach()

    def _of(self, name: str) -> dict[str, Tensor]:
        return _part(self.weights, name)


class _Coders(nn.Module):
    """Encoder and decoder of one replica."""

    def __init__(self, shape: Sequence[int], widths: Sequence[int], latent: int) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder(shape, widths, latent), decoder(shape, widths, latent)


def bound(x: Inputs, again: Inputs, mean: Latent, logs: Latent) -> Float[Tensor, " r"]:
    """The negative evidence bound, mean over inputs: ``n / 2 * log(squared error) + KL(q(z | x) || N(0, 1))``.

    The squared error is the mean over a replica's inputs and their n numbers: the best variance of the Gaussian.
    """
    error = (again - x).square().flatten(1).mean(-1) + LEAST
    prior = (mean.square() + logs.exp() - logs - 1).sum(-1).mean(-1) / 2
    return x[0, 0].numel() / 2 * error.log() + prior


def _part(weights: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """Those of encoder or decoder, by the names that they have there."""
    return {key.removeprefix(f"{name}."): weight for key, weight in weights.items() if key.startswith(f"{name}.")}


def _called(network: nn.Module, weights: dict[str, Tensor], x: Float[Tensor, "r u *any"]) -> Float[Tensor, "r u *some"]:
    def call(own: dict[str, Tensor], rows: Tensor) -> Tensor:
        found: Tensor = functional_call(network, own, (rows,))
        return found

    found: Tensor = vmap(call)(weights, x)
    return found
