"""The gradient learner h: a small network from logits to the gradient of the loss with respect to them.

In anybody's own training loop, with logits ``z`` of a labelled batch and ``z_u`` of an unlabelled one::

    learner.learn(z, dz, y, eta=lr)      # one step of h; dz = dloss/dz, or None for the mean cross entropy
    pseudo = learner.predict(z_u)        # rows of length alpha * tau, no graph
    z_u.backward(pseudo)                 # or learner.backward(z_u): adds to the parameters' gradients

Everything broadcasts over leading axes: ``replicas=(R,)`` holds R learners that see logits ``[R, batch, classes]``.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gradcast.errors import GradcastError
from gradcast.gradients.cross_entropy import cross_entropy, mean_cross_entropy
from gradcast.gradients.length import Length, Tau, unit
from gradcast.gradients.logit_shapes import check_labelled, check_logits
from gradcast.gradients.sgd import LearningRate, Sgd, along
from gradcast.gradients.stacked_linear import Activation, activate, uniform

Objective = Literal["fitness", "cosine"]
OptimizerName = Literal["sgd", "adam"]
# The published constants for MNIST: the defaults here and of the signal *predicted* in a specification.
HIDDEN = (64, 16)
ALPHA = 0.001
LOSS_SCALE = 0.3


@dataclass(frozen=True)
class Learned:
    """What one step of h showed, one number a replica."""

    loss: Float[Tensor, "*r"]  # the objective, loss scale included
    gain: Float[Tensor, "*r"]  # fitness gain: CE(z) - CE(z - eta * gbar); positive when h's direction lowers the loss
    cosine: Float[Tensor, "*r"]  # mean cosine of h(z) and the true logit gradient
    tau: Float[Tensor, "*r"]  # mean length of the true logit gradient's rows


class GradientLearner(nn.Module):
    """Bias-free MLP h with its own optimizer; learns from labelled logits, predicts for unlabelled ones.

    ``state_dict()`` holds the weights, the length of the predictions and the optimizer's state. Load it into a learner
    made with the same arguments, and training goes on to the same bits.

    Args:
        classes: number of logits it sees.
        hidden: widths of the hidden layers; empty for a linear map.
        alpha: length of a prediction relative to the true gradient's.
        loss_scale: factor of the objective (with SGD, of the learning rate).
        objective: "fitness" lowers the cross entropy after moving the logits by ``-eta`` times the prediction;
            "cosine" maximises the mean cosine to the true gradient.
        lr: learning rate of h; None takes the host's ``eta``, as the published code does.
        optimizer: "sgd" or "adam".
        momentum: of "sgd".
        decay: weight decay of "sgd".
        tau: "batch" scales by the mean row norm of the true gradient, "per_sample" by each row's own. "previous" scales
            predictions by the mean of the labelled batch before; the first ones are zero.
        absent: the logit of classes that do not exist for a batch: h sees 0 there and predicts 0. None: all exist.
        replicas: leading axes, () for one learner.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("weights", "biases", "optimizer", "length")

    def __init__(
        self,
        classes: int,
        hidden: Sequence[int] = HIDDEN,
        *,
        alpha: float = ALPHA,
        loss_scale: float = LOSS_SCALE,
        objective: Objective = "fitness",
        lr: float | None = None,
        optimizer: OptimizerName = "sgd",
        momentum: float = 0.0,
        decay: float = 0.0,
        tau: Tau = "batch",
        activation: Activation = "relu",
        bias: bool = False,
        absent: float | None = None,
        replicas: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self.classes, self.replicas, self.absent = classes, tuple(replicas), absent
        self.loss_scale, self.objective, self.lr, self.activation = loss_scale, objective, lr, activation
        self.length = Length(alpha, tau)
        shapes = [(fan_out, fan_in) for fan_in, fan_out in pairwise((classes, *hidden, classes))]
        self.weights = nn.ParameterList(uniform((*replicas, *shape), fan_in=shape[1]) for shape in shapes)
        self.biases = nn.ParameterList(uniform((*replicas, 1, out), fan_in=fan) for out, fan in shapes if bias)
        if optimizer == "adam" and (momentum or decay):
            raise GradcastError("momentum and decay are for the optimizer 'sgd'; leave them out, or choose it")
        self.optimizer: torch.optim.Adam | Sgd = (
            torch.optim.Adam(self.parameters(), lr=lr or 0.0)
            if optimizer == "adam"
            else Sgd(momentum=momentum, decay=decay)
        )

    def forward(self, z: Float[Tensor, "*r b c"]) -> Float[Tensor, "*r b c"]:
        """The raw output h(z); only its direction matters."""
        exists = None if self.absent is None else z > self.absent
        if exists is not None:
            z = z.where(exists, 0)
        last = len(self.weights) - 1
        for index, weight in enumerate(self.weights):
            z = z @ weight.mT
            if len(self.biases):
                z = z + self.biases[index]
            if index < last:
                z = activate(z, self.activation)
        return z if exists is None else z.where(exists, 0)

    def learn(self, z: Tensor, dz: Tensor | None, y: Tensor, *, eta: LearningRate) -> Learned:
        """One step of h on a labelled batch, and the length of its gradient for predictions to come.

        Args:
            z: labelled logits ``[*replicas, batch, classes]``.
            dz: gradient of the batch's mean loss with respect to ``z``, so its rows carry the factor 1/batch. None
                takes the gradient of the mean cross entropy.
            y: labels ``[*replicas, batch]``, whole numbers.
            eta: learning rate of the host model, or one a replica; where it is zero, h learns nothing.
        """
        check_labelled(z, dz, y, self.replicas, self.classes)
        z = z.detach()
        dz = cross_entropy(z, y)[1] if dz is None else dz.detach()
        tau = self.length.observe(dz)
        output = self(z)
        cosine = (unit(output) * unit(dz)).sum(-1).mean(-1)
        moved = mean_cross_entropy(z - along(eta, z) * self.length.rescale(output), y)
        loss = self.loss_scale * (moved if self.objective == "fitness" else 1 - cosine)
        self._descend(loss.sum(), self._rate(eta))  # replicas share no weight, so the sum keeps them apart
        gain = self._gain(z, output, y, eta)
        return Learned(loss.detach(), gain, cosine.detach(), tau)

    def follow(
        self, z: Float[Tensor, "*r u c"], slope: Float[Tensor, "*r u c"], *, eta: LearningRate
    ) -> Float[Tensor, "*r"]:
        """One step of h down the derivative ``slope`` of any loss with respect to its predictions for ``z``.

        Says how that loss changes by the predictions, to first order, loss scale left out.
        """
        change = (self.length.rescale(self(z.detach())) * slope.detach()).sum((-2, -1))
        self._descend(self.loss_scale * change.sum(), self._rate(eta))
        return change.detach()

    def get_extra_state(self) -> dict[str, Any]:
        """What ``state_dict()`` holds beside the weights: tau, that of the batch before, and the optimizer's state."""
        return {"tau": self.length.tau, "before": self.length.before, "optimizer": self.optimizer.state_dict()}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take copies of these, on the device of the weights."""
        weight, own = self.weights[0], copy.deepcopy(state["optimizer"])
        taus = (state["tau"], state.get("before"))
        copies = (None if tau is None else tau.detach().to(weight, copy=True) for tau in taus)
        self.length.tau, self.length.before = copies
        if isinstance(self.optimizer, Sgd):
            own |= {"velocity": [velocity.to(weight) for velocity in own["velocity"]]}
        self.optimizer.load_state_dict(own)

    def renew(self, which: Bool[Tensor, " r"]) -> None:
        """A new optimizer for these replicas; Adam's counter is one for all."""
        if isinstance(self.optimizer, torch.optim.Adam) and bool(which.all()):
            self.optimizer.state.clear()
            return
        if not isinstance(self.optimizer, Sgd):
            raise GradcastError("optimizer = 'adam' counts the steps of all seeds at once; set optimizer='sgd' here")
        self.optimizer.renew(which)

    def _rate(self, eta: LearningRate) -> LearningRate:
        """The step size of h: its own, or the host's; none where the host has none."""
        if self.lr is None:
            return eta
        return torch.where(eta > 0, self.lr, 0.0) if isinstance(eta, Tensor) else self.lr

    def _descend(self, loss: Tensor, rate: LearningRate) -> None:
        weights = list(self.parameters())
        if isinstance(self.optimizer, Sgd):
            self.optimizer.step(weights, torch.autograd.grad(loss, weights), rate)
            return
        self.optimizer.zero_grad()
        loss.backward()
        for group in self.optimizer.param_groups:
            group["lr"] = rate.flatten()[0] if isinstance(rate, Tensor) else rate  # seeds share it wherever Adam may be
            group["capturable"] = loss.is_cuda  # the counter then lives on the GPU, where a graph can replay it
        self.optimizer.step()

    @torch.no_grad()
    def _gain(self, z: Tensor, output: Tensor, y: Tensor, eta: LearningRate) -> Float[Tensor, "*r"]:
        """In float64: at the published constants the gain is below float32's rounding of the loss."""
        z = z.double()
        moved = z - along(eta, z) * self.length.rescale(output).double()
        return mean_cross_entropy(z, y) - mean_cross_entropy(moved, y)

    @torch.no_grad()
    def predict(self, z: Tensor) -> Tensor:
        """Predicted gradient with respect to unlabelled logits ``[*replicas, batch, classes]``.

        Its rows have the length alpha * tau.
        """
        check_logits(z, self.replicas, self.classes)
        return self.length.rescale_unlabelled(self(z.detach()))

    def backward(self, z: Tensor) -> None:
        """Back-propagate the prediction from ``z`` as if it were dloss/dz; adds to the host's parameter gradients."""
        z.backward(self.predict(z))
