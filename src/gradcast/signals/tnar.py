"""The signal *tnar*: VAT along the manifold of images, as the decoder of a VAE knows it, and across it."""

import math
from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from gradcast.core import Metrics, Signal, Unlabelled
from gradcast.gradients.cross_entropy import entropy
from gradcast.gradients.gradient import Gradient
from gradcast.networks.autoencoder import decoder, encoder, shapes
from gradcast.replicas.replicas import Pass, Replicas, Statistics
from gradcast.signals.adversarial import LocalDivergence, by_largest, by_length, inner
from gradcast.signals.signal_entry import signal_entry
from gradcast.signals.signal_table import SignalTable
from gradcast.signals.vae import Inputs, Latent, Vae
from gradcast.specs.context import Context
from gradcast.specs.table import Natural, Positive, Rate, Weight

Normalise = Literal["largest", "length"]
NORMALISE = {"largest": by_largest, "length": by_length}
EPS = 1e-8  # in the divisions of conjugate gradients, and where they end


class TnarSpec(SignalTable):
    """VAT along the manifold of images, as the decoder of a VAE knows it, and across it."""

    name: Literal["tnar"]
    tangent: Weight = 1.0  # weight of the divergence along the manifold
    normal: Weight = 1.0  # weight of the divergence across it
    entropy: Weight = 1.0  # weight of the entropy of what the model says
    tangent_epsilon: Rate = 5.0  # size of the change of the latent numbers
    normal_epsilon: Rate = 1.0  # size of the change across, in the numbers that the network sees
    zeta: Weight = 0.001  # how strongly the change across is kept away from the one along
    normalise: Normalise = "largest"  # what the size of a change is: its largest entry, or its length
    xi: Rate = 0.01  # size of the change that tells a direction; 1e-6 in the release, below single precision
    iterations: Positive = 1  # of the power method
    solver_steps: Positive = 4  # of conjugate gradients
    latent: Positive = 512  # latent numbers of the VAE
    widths: Annotated[list[Positive], Field(min_length=1)] = [128, 256, 512]  # of the encoder; decoder reversed
    vae_lr: Rate = 1e-3  # of the VAE's Adam
    warm_up: Natural = 0  # unlabelled batches that train the VAE alone, before the model learns from any


class Tnar(Signal):
    """Gradient of ``tangent * KL(p(x) || p(x + r)) + normal * KL(p(x) || p(x + s)) + entropy * H(p(x))``.

    ``r = g(z + tangent_epsilon * e) - g(z)`` for the decoder g of a VAE at the code z of x. The direction e maximises
    ``e' J' H J e`` for equal ``e' J' J e``, with the decoder's Jacobian J and the divergence's Hessian H: the power
    method for ``(J' J)^-1 J' H J``. ``s`` has the size ``normal_epsilon`` and the direction of the power method for
    ``H - zeta * (r r' - 1)``. The VAE learns the same images, one step each time.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("vae", "batches")

    def __init__(self, vae: Vae, table: TnarSpec, like: Float[Tensor, "r p"]) -> None:
        self.vae, self.table, self.normalise = vae, table, NORMALISE[table.normalise]
        self.batches = torch.zeros(len(like), dtype=torch.float64, device=like.device)  # that the VAE has learned
        self.label: Float[Tensor, "r u c"] | None = None

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint holds: the VAE."""
        return self.vae.state()

    def gradient(
        self, model: Replicas, unlabelled: Unlabelled, task: int, *, statistics: Statistics = "update"
    ) -> tuple[Gradient, Metrics]:
        """The images pass, then twice for each iteration, then with the change along and with the change across."""
        table, images = self.table, unlabelled.first_view()
        near, made = LocalDivergence.around(model, images, task, statistics)
        self.label = near.label
        r = self._along(near)
        s = self._across(near, self.normalise(r))
        loss, gradient = near.gradient(r, table.tangent)
        for own, found in (near.gradient(table.normal_epsilon * s, table.normal), self._entropy(made)):
            loss, gradient = loss + own, gradient + found
        ready = self.batches >= table.warm_up
        noise = model.chance.unlabelled.normal((images.images, self.vae.latent), images.x)
        told = self.vae.learn(images.x, noise, images.used)
        self.batches += images.used
        return gradient.where(ready), {"signal_loss": loss, "vae_loss": told}

    def _entropy(self, made: Pass) -> tuple[Float[Tensor, " r"], Gradient]:
        loss, dz = entropy(made.z)
        return self.table.entropy * loss, made.pull(self.table.entropy * dz)

    def _along(self, near: LocalDivergence) -> Inputs:
        """The change along the manifold."""
        xi, x = self.table.xi, near.images.x
        z = self.vae.encode(x)
        here = self.vae.tangent(z)
        e = self.normalise(near.model.chance.unlabelled.normal(z.shape[1:], z))
        for _ in range(self.table.iterations):
            there = self.vae.tangent(z + xi * e)
            e = self.normalise(there.pull(near.slope(there.y - here.y)) / xi)
            e = solved(lambda p: here.pull(here.push(p)), e, self.table.solver_steps)
            e = self.normalise(e)
        return self.vae.decode(z + self.table.tangent_epsilon * e) - here.y

    def _across(self, near: LocalDivergence, r: Inputs) -> Inputs:
        """The direction across it, of size 1."""
        x, zeta = near.images.x, self.table.zeta
        s = self.normalise(near.model.chance.unlabelled.normal(x.shape[1:], x))
        for _ in range(self.table.iterations):
            s = self.normalise(near.curvature(s, self.table.xi) - zeta * inner(r, s) * r + zeta * s)
        return s


def solved(product: Callable[[Latent], Latent], b: Latent, steps: int) -> Latent:
    """``A^-1 b`` for every image, nearly: so many steps of conjugate gradients; ``product`` multiplies by A."""
    found, left, direction = torch.zeros_like(b), b, b
    size = inner(left, left)
    for _ in range(steps):
        changed = product(direction)
        length = torch.where(size > EPS, size / (inner(direction, changed) + EPS), 0.0)
        found, left = found + length * direction, left - length * changed
        size, before = inner(left, left), size
        direction = left + size / (before + EPS) * direction
    return found


def _build(table: TnarSpec, context: Context) -> Tnar:
    theta = context.model.theta
    vae = Vae(context.shape, table.widths, table.latent, context.seeds, theta, lr=table.vae_lr)
    return Tnar(vae, table, theta)


def _problem(table: TnarSpec, shape: Sequence[int]) -> str | None:
    """Layers of the encoder halve images, which must leave something."""
    if min(shapes(shape, table.widths)[-1]) > 0:
        return None
    return (
        f"the VAE of the signal 'tnar' halves an image {len(table.widths)} times, and these are {shape[1]} x "
        f"{shape[2]}: set signal.widths to fewer layers, or stream.size"
    )


def _weights(table: TnarSpec, shape: Sequence[int]) -> int:
    with torch.device("meta"):
        coders = [make(shape, table.widths, table.latent) for make in (encoder, decoder)]
    return sum(math.prod(weight.shape) for coder in coders for weight in coder.parameters())


ENTRY = signal_entry(
    TnarSpec,
    _build,
    lambda table: "TNAR" + (", by length" if table.normalise == "length" else ""),
    "five unlabelled passes, two of which train, and a step of a VAE; two more passes for each further iteration",
    "changes-images",
    problem=_problem,
    weights=_weights,
)
